//! Calls of Python functions, as the interpreter tells them.
//!
//! A lane's records of calls nest: each end is that of the innermost call, and need not say which. That holds because the lane
//! remembers what its thread is in. Where the interpreter tells an end that is not the innermost call's (another tool had
//! taken the callbacks for a while, or a record was lost), the trace of the thread begins anew from the frames it has.
use crate::control;
use crate::lane::{Lane, Tables, record};
use crate::process;
use crate::slot::Guard;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use memscope_format::encode::Extended;
use memscope_format::layout::notes;
use memscope_stack::python::{self, CallNames, Callee, Support};
pub use memscope_stack::python::{code_of_frame_object, is_native};

/// The trace that is under way, by its number; 0 if none is. Ordinary memory: a forked child goes on.
static TRACE: AtomicU32 = AtomicU32::new(0);
static TRACES: AtomicU32 = AtomicU32::new(0);

/// Calls that a thread is in, and how many are remembered: deeper ones are only counted.
const REMEMBERED: usize = 4096;
/// On what is remembered: it is a function written in C.
const NATIVE: usize = 1;

/// What the lane's thread is in. Zeroes: no trace has begun.
#[repr(C)]
pub(crate) struct OpenCalls {
    /// The trace that was under way at the lane's last call.
    trace: u32,
    depth: usize,
    /// Addresses of code objects, the outermost first.
    callees: [usize; REMEMBERED],
    names: CallNames,
}

impl OpenCalls {
    /// Another thread has the lane, or what was defined is forgotten.
    pub(crate) fn forget(&mut self) {
        self.trace = 0;
    }

    #[inline(always)]
    fn push(&mut self, callee: usize) {
        if let Some(place) = self.callees.get_mut(self.depth) {
            *place = callee;
        }
        self.depth += 1;
    }

    /// `None` if it is too deep to be remembered.
    #[inline(always)]
    fn innermost(&self) -> Option<usize> {
        // At depth 0 there is none: 0 is no callee.
        let Some(at) = self.depth.checked_sub(1) else { return Some(0) };
        self.callees.get(at).copied()
    }
}

/// Whether calls can be traced: finds the interpreter, if that was not done for stacks.
pub fn support() -> Support {
    python::initialise();
    python::support()
}

/// From now on calls are recorded.
pub fn begin() {
    TRACE.store(TRACES.fetch_add(1, Relaxed) + 1, Relaxed);
}

/// No call is recorded any more.
pub fn end() {
    TRACE.store(0, Relaxed);
}

/// Whether calls are recorded.
#[inline(always)]
pub fn are_traced() -> bool {
    TRACE.load(Relaxed) != 0
}

/// Whether the user asked for them before the program began, and they are to be traced from its beginning.
pub fn are_wanted_from_start() -> bool {
    process::wanted().traceback && control::is_tracing()
}

/// The code object at `code` begins to run, or a generator goes on with it.
///
/// # Safety
/// The interpreter is about to run it on this thread.
#[inline]
pub unsafe fn called(guard: &Guard<'_>, code: usize) {
    traced(guard, true, |lane, tables, ticks| {
        let Tables { stacks, calls, .. } = tables;
        // SAFETY: the caller's; the lane is the calling thread's.
        let callee = unsafe { stacks.python.callee(code, &mut calls.names, &mut lane.writer) };
        match callee {
            Some(Callee { code: number, class: None }) => {
                open(lane, tables, ticks, &Extended::Call { code: number }, code);
            }
            Some(Callee { code: number, class: Some(class) }) => {
                open(lane, tables, ticks, &Extended::ModuleCall { code: number, class }, code);
            }
            None => lose(lane, tables),
        }
    });
}

/// A function written in C is called.
///
/// # Safety
/// It is a live object that [`is_native`], of which the interpreter tells on this thread.
#[inline]
pub unsafe fn native_called(guard: &Guard<'_>, callable: usize) {
    traced(guard, false, |lane, tables, ticks| {
        // SAFETY: the caller's.
        match unsafe { tables.calls.names.native(callable, &mut lane.writer) } {
            Some(function) => {
                open(lane, tables, ticks, &Extended::NativeCall { function }, callable & !NATIVE | NATIVE)
            }
            None => lose(lane, tables),
        }
    });
}

/// The innermost call ends, which is of this code object.
#[inline]
pub fn ended(guard: &Guard<'_>, code: usize) {
    traced(guard, false, |lane, tables, ticks| {
        // A function in C whose end was not told.
        while let Some(native) = tables.calls.innermost()
            && native & NATIVE != 0
        {
            close(lane, tables, ticks);
        }
        match tables.calls.innermost() {
            Some(innermost) if innermost != code => begin_anew(lane, tables, ticks, false),
            _ => {}
        }
        // What was found anew is the call that ends, or it cannot be told.
        if tables.calls.innermost().is_none_or(|innermost| innermost == code) {
            close(lane, tables, ticks);
        }
    });
}

/// The call of a function written in C ends.
#[inline]
pub fn native_ended(guard: &Guard<'_>, callable: usize) {
    traced(guard, false, |lane, tables, ticks| {
        // One that began before the trace has no beginning.
        if tables.calls.innermost() == Some(callable & !NATIVE | NATIVE) {
            close(lane, tables, ticks);
        }
    });
}

/// The frame of all of them. `begins`: the innermost Python function has only just begun.
#[inline(always)]
fn traced(guard: &Guard<'_>, begins: bool, write: impl FnOnce(&mut Lane, &mut Tables, u64)) {
    let trace = TRACE.load(Relaxed);
    if trace == 0 {
        return;
    }
    record(guard.no_stack(), 1, |lane, ticks, _| {
        let Some(tables) = lane.own_tables() else { return lane.writer.lose(1) };
        // SAFETY: the lane's own, of which nothing else refers to what is used here.
        let tables = unsafe { &mut *tables.as_ptr() };
        if tables.calls.trace != trace {
            tables.calls.trace = trace;
            begin_anew(lane, tables, ticks, begins);
        }
        write(lane, tables, ticks);
    });
}

/// Writes what the thread is in.
#[cold]
#[inline(never)]
fn begin_anew(lane: &mut Lane, tables: &mut Tables, ticks: u64, but_innermost: bool) {
    let Tables { stacks, calls, .. } = tables;
    calls.depth = 0;
    // Here, because a forked child has a header of its own.
    if let Some(process) = process::current() {
        process.note(notes::CALLS_TRACED);
    }
    lane.writer.extended_event(ticks, &Extended::CallsBegin {});
    // SAFETY: the interpreter has called us on this thread, whose lane this is.
    unsafe {
        stacks.python.calls_at_hand(but_innermost, &mut lane.writer, &mut |writer, address, code| {
            writer.extended_event(ticks, &Extended::CallFound { code });
            calls.push(address);
        });
    }
    forget_if_dropped(lane, tables);
}

/// The beginning of a call.
#[inline(always)]
fn open(lane: &mut Lane, tables: &mut Tables, ticks: u64, record: &Extended<'_>, callee: usize) {
    if lane.writer.has_dropped() {
        return lose(lane, tables);
    }
    lane.writer.frequent_event(ticks, record);
    tables.calls.push(callee);
}

/// The end of the innermost call.
#[inline(always)]
fn close(lane: &mut Lane, tables: &mut Tables, ticks: u64) {
    lane.writer.frequent_event(ticks, &Extended::CallEnd {});
    tables.calls.depth = tables.calls.depth.saturating_sub(1);
}

/// A call that cannot be written down: what follows would not nest.
#[cold]
fn lose(lane: &mut Lane, tables: &mut Tables) {
    lane.writer.lose(1);
    tables.stacks.forget();
    tables.calls.forget();
    tables.calls.names.forget();
}

#[cold]
fn forget_if_dropped(lane: &mut Lane, tables: &mut Tables) {
    if lane.writer.has_dropped() {
        lose(lane, tables);
    }
}
