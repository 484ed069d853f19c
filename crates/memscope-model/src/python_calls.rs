//! Calls of Python functions: what the interpreter told of each thread, as calls with a beginning and an end.
//!
//! Lanes are read one after the other, because calls of two threads have nothing to do with each other. What is kept is what a
//! thread is in, and a text for each function.
use crate::{ModelError, TimestampNs};
use memscope_format::decode::{Definition, Event, EventKind, LaneCursor, Spool, Stretch, Timeline};
use rustc_hash::FxHashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A call, told when it ends or when nothing more is known of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PythonCall<'a> {
    /// `file(line): function`, `nn.Module: Class`, a function written in C as Python shows it, or what the program named.
    pub function: &'a str,
    /// `None`: it began before the trace did.
    pub start: Option<TimestampNs>,
    /// `None`: it had not ended when the trace did.
    pub end: Option<TimestampNs>,
    pub thread: u32,
}

/// The calls of a recorded process.
pub struct PythonCalls {
    spool: Arc<Spool>,
    timeline: Timeline,
}

impl PythonCalls {
    pub(crate) fn new(spool: &Arc<Spool>) -> PythonCalls {
        PythonCalls { spool: Arc::clone(spool), timeline: spool.timeline() }
    }

    /// Hands out each call, thread by thread, in order of their ends; ends early if `visit` breaks off.
    pub fn each(&self, visit: &mut dyn FnMut(&PythonCall<'_>) -> ControlFlow<()>) -> Result<(), ModelError> {
        let lanes: Vec<u32> = self.spool.lanes().collect();
        for lane in lanes {
            let mut reader = LaneCalls::new(&self.timeline);
            let mut cursor = LaneCursor::new(lane);
            let definitions = &mut Names::default();
            while let Some(event) = cursor.next_event(&self.spool, &mut |definition| definitions.take_in(definition))? {
                if reader.enter(&event, definitions, visit).is_break() {
                    return Ok(());
                }
            }
            if reader.end_thread(definitions, visit).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether only those who ask for calls want it.
#[inline(always)]
pub(crate) fn is_of_calls(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::CallEnd {}
            | EventKind::Call { .. }
            | EventKind::NativeCall { .. }
            | EventKind::ModuleCall { .. }
            | EventKind::CallFound { .. }
            | EventKind::CallsBegin {}
    )
}

/// What is called, by the numbers of the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    Code(u32),
    Module {
        code: u32,
        class: u32,
    },
    Native(u32),
    /// By the program.
    Named(u32),
}

/// A call that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    function: Function,
    start: Option<TimestampNs>,
}

/// What the lane has told of calls so far.
struct LaneCalls<'t> {
    timeline: &'t Timeline,
    stretch: Stretch,
    thread: u32,
    open: Vec<OpenCall>,
    /// Pieces of code that the program named. They end within other calls than they begin in.
    named: Vec<OpenCall>,
}

impl<'t> LaneCalls<'t> {
    fn new(timeline: &'t Timeline) -> LaneCalls<'t> {
        LaneCalls { timeline, stretch: Stretch::default(), thread: 0, open: Vec::new(), named: Vec::new() }
    }

    fn enter(
        &mut self,
        event: &Event,
        names: &mut Names,
        visit: &mut dyn FnMut(&PythonCall<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let is_named = matches!(event.kind, EventKind::FunctionStart { .. } | EventKind::FunctionEnd { .. });
        if !is_named && !is_of_calls(event.kind) {
            return ControlFlow::Continue(());
        }
        if event.thread != self.thread {
            self.end_thread(names, visit)?;
            self.thread = event.thread;
        }
        let time = self.timeline.time_near(event.ticks, &mut self.stretch);
        match event.kind {
            EventKind::CallsBegin {} => self.give_up(names, visit)?,
            EventKind::CallFound { code } => self.open.push(OpenCall { function: Function::Code(code), start: None }),
            EventKind::Call { code } => self.begin(Function::Code(code), time),
            EventKind::ModuleCall { code, class } => self.begin(self.module(code, class), time),
            EventKind::NativeCall { function } => self.begin(Function::Native(function), time),
            EventKind::FunctionStart { name } => {
                self.named.push(OpenCall { function: Function::Named(name), start: Some(time) });
            }
            EventKind::FunctionEnd { name } => {
                let innermost = self.named.iter().rposition(|open| names.is_same_name(open.function, name));
                if let Some(innermost) = innermost {
                    let call = self.named.remove(innermost);
                    self.tell(call, Some(time), names, visit)?;
                }
            }
            // One without a beginning: what told of it is lost.
            _ => {
                if let Some(call) = self.open.pop() {
                    self.tell(call, Some(time), names, visit)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn begin(&mut self, function: Function, time: TimestampNs) {
        self.open.push(OpenCall { function, start: Some(time) });
    }

    /// Newer versions of torch call a module through two functions; the inner one is like any other.
    fn module(&self, code: u32, class: u32) -> Function {
        match self.open.last() {
            Some(OpenCall { function: Function::Module { code: outer, class: same }, .. })
                if *same == class && *outer != code =>
            {
                Function::Code(code)
            }
            _ => Function::Module { code, class },
        }
    }

    /// Nothing more is known of the thread.
    fn end_thread(
        &mut self,
        names: &mut Names,
        visit: &mut dyn FnMut(&PythonCall<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.give_up(names, visit)?;
        while let Some(call) = self.named.pop() {
            self.tell(call, None, names, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Nothing more is known of the calls that the thread is in.
    fn give_up(
        &mut self,
        names: &mut Names,
        visit: &mut dyn FnMut(&PythonCall<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some(call) = self.open.pop() {
            self.tell(call, None, names, visit)?;
        }
        ControlFlow::Continue(())
    }

    fn tell(
        &self,
        call: OpenCall,
        end: Option<TimestampNs>,
        names: &mut Names,
        visit: &mut dyn FnMut(&PythonCall<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(function) = names.text(call.function) else { return ControlFlow::Continue(()) };
        // By which the package begins and ends the trace.
        if matches!(call.function, Function::Native(_))
            && self.open.last().is_some_and(|caller| names.text(caller.function).is_none())
        {
            return ControlFlow::Continue(());
        }
        visit(&PythonCall { function, start: call.start, end, thread: self.thread })
    }
}

/// The functions that a lane has defined, as they are shown.
#[derive(Default)]
struct Names {
    codes: FxHashMap<u32, Option<String>>,
    classes: FxHashMap<u32, String>,
    natives: FxHashMap<u32, String>,
    named: FxHashMap<u32, String>,
}

/// Of what is not in the recording any more.
const UNKNOWN: &str = "unknown";

impl Names {
    fn take_in(&mut self, definition: Definition<'_>) {
        match definition {
            Definition::Code { id, first_line, file, function, .. } => {
                let (file, function) = (String::from_utf8_lossy(file), String::from_utf8_lossy(function));
                let shown = (!is_ours(&file)).then(|| escaped(&format!("{file}({first_line}): {function}")));
                self.codes.insert(id, shown);
            }
            Definition::CallName { id, text, owner } => {
                let (text, owner) = (String::from_utf8_lossy(text), String::from_utf8_lossy(owner));
                self.classes.insert(id, escaped(&format!("nn.Module: {text}")));
                let native = match owner.is_empty() {
                    true => format!("<built-in function {text}>"),
                    false => format!("<built-in method {text} of {owner} object>"),
                };
                self.natives.insert(id, escaped(&native));
            }
            Definition::LabelName { id, text } => {
                self.named.insert(id, escaped(&String::from_utf8_lossy(text)));
            }
            _ => {}
        }
    }

    /// A lane may have given a name a second number.
    fn is_same_name(&self, function: Function, name: u32) -> bool {
        let Function::Named(of) = function else { return false };
        of == name || self.named.get(&of).is_some_and(|text| self.named.get(&name) == Some(text))
    }

    /// `None` for what is not to be shown.
    fn text(&self, function: Function) -> Option<&str> {
        match function {
            Function::Code(code) => match self.codes.get(&code) {
                Some(text) => text.as_deref(),
                None => Some(UNKNOWN),
            },
            Function::Module { class, .. } => Some(self.classes.get(&class).map_or(UNKNOWN, String::as_str)),
            Function::Named(name) => Some(self.named.get(&name).map_or(UNKNOWN, String::as_str)),
            Function::Native(function) => Some(self.natives.get(&function).map_or(UNKNOWN, String::as_str)),
        }
    }
}

/// Whether this is a file of the package that asks for the trace, and does things of its own in the program.
fn is_ours(file: &str) -> bool {
    const MODULES: [&str; 3] = ["describe.py", "mstx.py", "tracer.py"];
    let Some((_, module)) = file.rsplit_once("/msmemscope/") else { return false };
    module.starts_with('_') || module.starts_with("frameworks/") || MODULES.contains(&module)
}

/// A text in one line: file names and what is made by `exec` may hold anything.
fn escaped(text: &str) -> String {
    if !text.contains(|character: char| character.is_control()) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|character| match character.is_control() {
            true => character.escape_default().collect::<Vec<char>>(),
            false => vec![character],
        })
        .collect()
}
