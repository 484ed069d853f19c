//! What `tests/python_live.rs` loads into real interpreters: takes the Python stack of the thread that calls it, says
//! what is in it, and measures what that costs.
use memscope_stack::python::{self, PythonStack, Support};
use memscope_stack::tree::Tree;
use memscope_stack::{CodeDefinition, DefinitionSink, Frame, ModuleDefinition, NodeId};
use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::Write;
use std::time::Instant;

struct Code {
    file: String,
    function: String,
    first_line: u32,
    line_table: Vec<u8>,
}

#[derive(Default)]
struct Definitions {
    codes: Vec<Code>,
    nodes: Vec<(NodeId, u32, u32)>,
}

impl DefinitionSink for Definitions {
    fn module(&mut self, _: &ModuleDefinition<'_>) {}

    fn code(&mut self, code: &CodeDefinition<'_>) {
        assert_eq!(code.id as usize, self.codes.len(), "code numbers are dense");
        assert_eq!(python::support(), Support::Supported(code.python_version));
        self.codes.push(Code {
            file: std::str::from_utf8(code.file).expect("file is UTF-8").to_owned(),
            function: std::str::from_utf8(code.function).expect("function is UTF-8").to_owned(),
            first_line: code.first_line,
            line_table: code.line_table.to_vec(),
        });
    }

    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame) {
        assert_eq!(id.0 as usize, self.nodes.len() + 1, "nodes are defined in the order of their numbers");
        if let Frame::Python { code, instruction } = frame {
            self.nodes.push((parent, code, instruction));
        }
    }
}

#[derive(Default)]
struct Lane {
    stack: PythonStack,
    tree: Tree,
    definitions: Definitions,
    /// Of the captures measured one by one.
    ticks: Vec<u64>,
}

impl Lane {
    fn capture(&mut self, depth: usize) -> NodeId {
        // SAFETY: the lane belongs to this thread, which is in C code called from Python.
        unsafe { self.stack.capture(depth, &mut self.tree, &mut self.definitions) }
    }
}

thread_local! {
    static LANE: RefCell<Lane> = RefCell::default();
}

/// The version found, negative if it is unknown, 0 without Python.
#[unsafe(no_mangle)]
pub extern "C" fn probe_initialise() -> i32 {
    python::initialise();
    match python::support() {
        Support::NoPython => 0,
        Support::Supported(version) => version.into(),
        Support::Unknown(version) => -i32::from(version).max(1),
    }
}

/// Takes the stack, then tells it to `report`: a line for each of the innermost `depth` frames, innermost first, of
/// file, function, instruction, first line, and the line table in hex, separated by tabs.
#[unsafe(no_mangle)]
pub extern "C" fn probe(depth: u32, report: extern "C" fn(*const c_char)) {
    let text = LANE.with_borrow_mut(|lane| {
        let mut node = lane.capture(depth as usize);
        let mut text = String::new();
        for _ in 0..depth {
            let Some((parent, code, instruction)) = node.0.checked_sub(1).map(|at| lane.definitions.nodes[at as usize])
            else {
                break;
            };
            let Code { file, function, first_line, line_table } = &lane.definitions.codes[code as usize];
            let _ = write!(text, "{file}\t{function}\t{instruction}\t{first_line}\t");
            for byte in line_table {
                let _ = write!(text, "{byte:02x}");
            }
            text.push('\n');
            node = parent;
        }
        text.push('\0');
        text
    });
    report(text.as_ptr().cast());
}

/// How many code objects and nodes this thread has defined so far.
#[unsafe(no_mangle)]
pub extern "C" fn probe_definitions(codes: &mut u32, nodes: &mut u32) {
    LANE.with_borrow(|lane| {
        (*codes, *nodes) = (lane.definitions.codes.len() as u32, lane.definitions.nodes.len() as u32);
    });
}

/// Nanoseconds a capture of the unchanged stack takes: the best of `batches` of 1000, for the machine may be busy.
#[unsafe(no_mangle)]
pub extern "C" fn probe_unchanged(depth: u32, batches: u32) -> f64 {
    const CAPTURES: u32 = 1000;
    LANE.with_borrow_mut(|lane| {
        lane.capture(depth as usize);
        let mut best = f64::MAX;
        for _ in 0..batches {
            let start = Instant::now();
            for _ in 0..CAPTURES {
                std::hint::black_box(lane.capture(depth as usize));
            }
            best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CAPTURES));
        }
        best
    })
}

/// One capture, measured alone.
#[unsafe(no_mangle)]
pub extern "C" fn probe_step(depth: u32) {
    LANE.with_borrow_mut(|lane| {
        let start = ticks();
        std::hint::black_box(lane.capture(depth as usize));
        lane.ticks.push(ticks() - start);
    });
}

/// The median, in nanoseconds, of the captures that [`probe_step`] measured since the last time, less the median of
/// measuring nothing.
#[unsafe(no_mangle)]
pub extern "C" fn probe_steps() -> f64 {
    fn median(mut ticks: Vec<u64>) -> f64 {
        ticks.sort_unstable();
        ticks.get(ticks.len() / 2).copied().unwrap_or(0) as f64
    }
    let (began, first) = (Instant::now(), ticks());
    let mut nothing = Vec::new();
    for _ in 0..100_000 {
        let start = ticks();
        nothing.push(ticks() - start);
    }
    let per_tick = began.elapsed().as_nanos() as f64 / (ticks() - first) as f64;
    let captures = LANE.with_borrow_mut(|lane| std::mem::take(&mut lane.ticks));
    (median(captures) - median(nothing)) * per_tick
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: reading the time stamp counter has no precondition.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reading the virtual counter has no precondition.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks) };
    ticks
}
