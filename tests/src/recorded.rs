//! What a run left behind.
use memscope_format::decode::{Event, EventKind, LaneCursor, ProcessInfo, Spool};
use memscope_format::layout::SPOOL_DIRECTORY;
use memscope_model::{Action, BlockEvent, Frame, Origin, Outcome, Process, StackId, find_processes};
use memscope_symbols::{Symbolizer, python_line};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A program's run: how it ended, and the processes it consisted of, in order of their start.
pub struct Recording {
    pub output: Output,
    pub processes: Vec<Recorded>,
}

/// One recorded process.
pub struct Recorded {
    pub directory: PathBuf,
    pub info: ProcessInfo,
    /// As recorded, in the order of time.
    pub raw: Vec<Event>,
    pub lanes: usize,
    /// As the model sees them.
    pub events: Vec<BlockEvent>,
    pub outcome: Outcome,
    model: Process,
    /// Opens each file once; a stack's names are asked for again and again.
    symbols: RefCell<Names>,
}

#[derive(Default)]
struct Names {
    symbolizer: Symbolizer,
    functions: HashMap<StackId, Vec<String>>,
}

/// The events of a spool as the decoder gives them.
pub struct Read {
    /// Lane by lane, in recorded order.
    pub lanes: Vec<Vec<Event>>,
    pub damage: Vec<String>,
    pub lost: u64,
}

/// Reads the spool of a process directory once.
pub fn read_events(directory: &Path) -> Read {
    let spool = Spool::open(&directory.join(SPOOL_DIRECTORY)).expect("a recording can be opened");
    let mut damage: Vec<String> = spool.damage().iter().map(ToString::to_string).collect();
    let mut lanes = Vec::new();
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        let mut events = Vec::new();
        while let Some(event) = cursor.next_event(&spool, &mut |_| {}).expect("a recording can be read") {
            events.push(event);
        }
        damage.extend(cursor.damage().iter().map(ToString::to_string));
        assert_eq!(cursor.unknown_records(), 0, "lane {lane} has records of unknown types");
        lanes.push(events);
    }
    Read { lanes, damage, lost: spool.lost_events() }
}

impl Recording {
    pub fn open(root: &Path, output: Output) -> Recording {
        let directories = find_processes(root, None).expect("the recordings can be read");
        Recording { output, processes: directories.iter().map(|directory| Recorded::open(directory)).collect() }
    }

    /// The one process there is.
    pub fn only(&self) -> &Recorded {
        let [process] = self.processes.as_slice() else { panic!("not one process: {:?}", self.commands()) };
        process
    }

    /// The processes running an executable of this name.
    pub fn of(&self, executable: &str) -> Vec<&Recorded> {
        let named = |process: &&Recorded| process.info.executable.file_name() == Some(executable.as_ref());
        self.processes.iter().filter(named).collect()
    }

    pub fn commands(&self) -> Vec<&str> {
        self.processes.iter().map(|process| process.info.command.as_str()).collect()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

impl Recorded {
    pub fn open(directory: &Path) -> Recorded {
        let read = read_events(directory);
        let lanes = read.lanes.len();
        let mut raw: Vec<Event> = read.lanes.into_iter().flatten().collect();
        raw.sort_by_key(|event| event.ticks);
        let mut model = Process::open(directory).expect("the model opens what the decoder opened");
        let mut events = Vec::new();
        let outcome = model
            .replay(
                &mut |event, _| {
                    events.push(*event);
                    ControlFlow::Continue(())
                },
                &mut |_| {},
            )
            .expect("the model reads what the decoder read");
        let info = model.info().clone();
        Recorded {
            directory: directory.to_owned(),
            info,
            raw,
            lanes,
            events,
            outcome,
            model,
            symbols: RefCell::default(),
        }
    }

    /// Asserts that nothing is missing or makes no sense, in a process that began with an empty heap.
    pub fn assert_sound(&self) -> &Recorded {
        self.assert_sound_child();
        assert_eq!(self.outcome.unmatched_frees, 0, "frees without allocation in {}", self.info.command);
        self
    }

    /// As [`Recorded::assert_sound`], for a forked child, which may free what its parent allocated.
    pub fn assert_sound_child(&self) -> &Recorded {
        let outcome = &self.outcome;
        assert_eq!(outcome.damage, [], "damage in {}", self.info.command);
        assert_eq!(outcome.lost_events, 0, "lost events in {}", self.info.command);
        assert_eq!(outcome.stopped, None);
        assert_eq!(
            (
                outcome.replaced_blocks,
                outcome.implausible_events,
                outcome.events_without_stack,
                outcome.unknown_records
            ),
            (0, 0, 0, 0),
            "replaced blocks, implausible events, events without stack, unknown records in {}",
            self.info.command
        );
        self
    }

    /// The allocations of exactly this size.
    pub fn allocations(&self, size: u64) -> Vec<&BlockEvent> {
        self.sized(Action::Malloc, size)
    }

    /// The frees of blocks of exactly this size.
    pub fn frees(&self, size: u64) -> Vec<&BlockEvent> {
        self.sized(Action::Free, size)
    }

    fn sized(&self, action: Action, size: u64) -> Vec<&BlockEvent> {
        let wanted = |event: &&BlockEvent| {
            event.action == action && event.block.size == size && event.matched && event.block.origin == Origin::Heap
        };
        self.events.iter().filter(wanted).collect()
    }

    /// How many heap blocks of this size are alive at the end.
    pub fn alive(&self, size: u64) -> usize {
        self.outcome.live_blocks().filter(|block| block.size == size && block.origin == Origin::Heap).count()
    }

    /// Allocations, frees, and blocks alive at the end, of this size.
    pub fn tally(&self, size: u64) -> (usize, usize, usize) {
        (self.allocations(size).len(), self.frees(size).len(), self.alive(size))
    }

    /// What the recording thread did between its allocations of two sizes that mark a passage of the program.
    pub fn passage(&self, begin: u64, end: u64) -> Vec<EventKind> {
        let at = |mark: u64| {
            let is_mark = |event: &Event| matches!(event.kind, EventKind::HostAlloc { size, .. } if size == mark);
            self.raw.iter().position(is_mark).unwrap_or_else(|| panic!("no allocation of {mark} bytes"))
        };
        let thread = self.raw[at(begin)].thread;
        let passage = self.raw[at(begin) + 1..at(end)].iter();
        passage.filter(|event| event.thread == thread).map(|event| event.kind).collect()
    }

    /// The names of the native functions of a stack, innermost first; a frame without a name is its module's path.
    pub fn functions(&self, stack: StackId) -> Vec<String> {
        let Names { symbolizer, functions } = &mut *self.symbols.borrow_mut();
        let names = functions.entry(stack).or_insert_with(|| {
            let mut names = Vec::new();
            for (path, build_id, offset) in self.native_frames(stack) {
                let frames = symbolizer.c_frames(&path, &build_id, offset);
                if frames.is_empty() {
                    names.push(path.display().to_string());
                }
                names.extend(
                    frames.iter().map(|frame| frame.function.clone().unwrap_or_else(|| path.display().to_string())),
                );
            }
            names
        });
        names.clone()
    }

    /// Module path, build id and address in the module's file of each native frame, innermost first.
    pub fn native_frames(&self, stack: StackId) -> Vec<(PathBuf, Vec<u8>, u64)> {
        let stacks = self.model.stacks();
        let frames = stacks.c_frames(stack).map(|frame| match frame {
            Frame::C { module, offset } => {
                let module = stacks.module(module);
                (module.path.clone(), module.build_id.clone(), offset)
            }
            Frame::Unknown { address } => (PathBuf::from("?"), Vec::new(), address),
            Frame::Python { .. } | Frame::Text(_) => panic!("a Python frame among the native ones"),
        });
        frames.collect()
    }

    /// File name, function and line of each Python frame, innermost first.
    pub fn python_frames(&self, stack: StackId) -> Vec<(String, String, Option<u32>)> {
        let stacks = self.model.stacks();
        let frames = stacks.python_frames(stack).map(|frame| {
            let Frame::Python { code, instruction } = frame else { panic!("a native frame among the Python ones") };
            let code = stacks.code(code);
            let file = Path::new(&code.file).file_name().map_or_else(String::new, |name| name.display().to_string());
            let line = python_line(code.python_version, code.first_line, &code.line_table, instruction);
            (file, code.function.clone(), line)
        });
        frames.collect()
    }

    /// Bytes of the two spool files.
    pub fn file_sizes(&self) -> u64 {
        let spool = fs::read_dir(self.directory.join(SPOOL_DIRECTORY)).expect("the spool is there");
        spool.map(|entry| entry.and_then(|entry| entry.metadata()).expect("the spool can be listed").len()).sum()
    }
}
