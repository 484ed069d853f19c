//! `sys.monitoring`, from 3.12 on: callbacks in C, for all threads of the interpreter.
use super::installers;
use super::python::{METH_FASTCALL, MethodDefinition, Object, Owned, Python, Second};
use crate::recording::hidden;
use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;
use memscope_hook::calls;
use memscope_recorder::calls as recorder;

/// Under which number we are known, one more; 0 if we are not.
static TOOL: AtomicI32 = AtomicI32::new(0);

/// The numbers that tools can have, those first that no kind of tool is known by.
const TOOLS: [c_int; 6] = [4, 3, 2, 5, 1, 0];

type Callback = unsafe extern "C" fn(Object, *const Object, isize) -> Object;

const fn method(name: &'static CStr, function: Callback) -> MethodDefinition {
    MethodDefinition {
        name: name.as_ptr(),
        function: function as *const c_void,
        flags: METH_FASTCALL,
        documentation: core::ptr::null(),
    }
}

/// Which events we hear, and by which functions.
static EVENTS: [(&CStr, MethodDefinition); 9] = [
    (c"PY_START", method(c"call", call)),
    (c"PY_RESUME", method(c"call", call)),
    (c"PY_THROW", method(c"call", call)),
    (c"PY_RETURN", method(c"end", end_of_call)),
    (c"PY_YIELD", method(c"end", end_of_call)),
    (c"PY_UNWIND", method(c"end", end_of_call)),
    (c"CALL", method(c"native_call", native_call)),
    (c"C_RETURN", method(c"native_end", native_end)),
    (c"C_RAISE", method(c"native_end", native_end)),
];

pub(super) fn is_at_work() -> bool {
    TOOL.load(Relaxed) != 0
}

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn begin(python: &Python) -> u32 {
    // SAFETY: the lock is held; `sys.monitoring` has these methods in every version that has it.
    unsafe {
        let Some(monitoring) = module(python) else { return calls::REFUSED };
        let Some(tool) = take_tool(python, &monitoring) else { return calls::NO_PLACE };
        TOOL.store(tool + 1, Relaxed);
        if listen(python, &monitoring, tool).is_none() {
            end(python);
            return calls::REFUSED;
        }
    }
    calls::BEGUN
}

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn end(python: &Python) -> u32 {
    let tool = TOOL.swap(0, Relaxed) - 1;
    // SAFETY: as in `begin`.
    unsafe {
        let Some(monitoring) = module(python) else { return calls::ENDED };
        if !is_ours(python, &monitoring, tool) {
            return calls::ENDED | calls::TAKEN_OVER;
        }
        leave(python, &monitoring, tool);
    }
    calls::ENDED
}

/// The program wants this number: if it is ours, we take another, if there is one.
///
/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn give_up(python: &Python, number: c_long) {
    let tool = TOOL.load(Relaxed) - 1;
    if tool < 0 || number != c_long::from(tool) {
        return;
    }
    // SAFETY: as in `begin`.
    unsafe {
        let Some(monitoring) = module(python).filter(|monitoring| is_ours(python, monitoring, tool)) else { return };
        let Some(other) = take_tool(python, &monitoring) else { return };
        if listen(python, &monitoring, other).is_some() {
            TOOL.store(other + 1, Relaxed);
            leave(python, &monitoring, tool);
        } else {
            leave(python, &monitoring, other);
        }
    }
}

/// The events of calls: that there is one, and with it the ends of those of C code.
pub(super) struct OfCalls {
    pub(super) call: c_long,
    pub(super) all: c_long,
}

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn events_of_calls(python: &Python) -> Option<OfCalls> {
    // SAFETY: as in `begin`.
    unsafe {
        let monitoring = module(python)?;
        let bit = |name| event(python, &monitoring, name).map(c_long::from);
        let call = bit(c"CALL")?;
        Some(OfCalls { call, all: call | bit(c"C_RETURN")? | bit(c"C_RAISE")? })
    }
}

/// Whether another tool is told of calls, anywhere or in `code`.
///
/// # Safety
/// The interpreter's lock is held; `code` is null or a code object.
pub(super) unsafe fn others_hear_calls(python: &Python, code: Object) -> bool {
    let own = TOOL.load(Relaxed) - 1;
    // SAFETY: as in `begin`.
    unsafe {
        let (Some(monitoring), Some(of_calls)) = (module(python), events_of_calls(python)) else { return false };
        TOOLS.into_iter().any(|tool| tool != own && hears(python, monitoring.object, tool, code, of_calls.call))
    }
}

/// Whether that tool, if it is one, is.
unsafe fn hears(python: &Python, monitoring: Object, tool: c_int, code: Object, call: c_long) -> bool {
    let has_call = |events: Option<Owned<'_>>| {
        // SAFETY: the lock is held; the answer is ours.
        let events = events.and_then(|events| unsafe { python.number(events.object) });
        events.is_some_and(|events| events & call != 0)
    };
    // SAFETY: as above; of a number that is nobody's it is an error to ask, which is cleared.
    unsafe {
        has_call(python.call_with_number(monitoring, c"get_events", tool, Second::Nothing))
            || !code.is_null()
                && has_call(python.call_with_number(monitoring, c"get_local_events", tool, Second::Object(code)))
    }
}

/// Gives a number of ours back.
unsafe fn leave(python: &Python, monitoring: &Owned<'_>, tool: c_int) {
    // SAFETY: as in `begin`.
    unsafe {
        let _ = python.call_with_number(monitoring.object, c"set_events", tool, Second::Number(0));
        for (name, _) in &EVENTS {
            if let Some(event) = event(python, monitoring, name) {
                let nobody = Second::NumberAndObject(event, python.none);
                let _ = python.call_with_number(monitoring.object, c"register_callback", tool, nobody);
            }
        }
        let _ = python.call_with_number(monitoring.object, c"free_tool_id", tool, Second::Nothing);
    }
}

const NAME: &CStr = c"msmemscope";

/// `sys.monitoring`, if there is one.
///
/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn module(python: &Python) -> Option<Owned<'_>> {
    // SAFETY: the lock is held. What `sys` has is lent, and kept as long as we use it.
    unsafe {
        let lent = (python.get_of_sys)(c"monitoring".as_ptr());
        if lent.is_null() {
            return None;
        }
        (python.keep)(lent);
        python.owned(lent)
    }
}

/// A number that no other tool has.
unsafe fn take_tool(python: &Python, monitoring: &Owned<'_>) -> Option<c_int> {
    // SAFETY: the lock is held.
    TOOLS.into_iter().find(|tool| unsafe {
        let holder = python.call_with_number(monitoring.object, c"get_tool", *tool, Second::Nothing);
        holder.is_some_and(|holder| holder.is_none())
            && python.call_with_number(monitoring.object, c"use_tool_id", *tool, Second::Text(NAME)).is_some()
    })
}

/// Whether nobody has freed our number, and maybe taken it for himself.
unsafe fn is_ours(python: &Python, monitoring: &Owned<'_>, tool: c_int) -> bool {
    // SAFETY: the lock is held.
    unsafe {
        let holder = python.call_with_number(monitoring.object, c"get_tool", tool, Second::Nothing);
        holder.is_some_and(|holder| python.is_text(holder.object, NAME))
    }
}

/// The bit of an event.
unsafe fn event(python: &Python, monitoring: &Owned<'_>, name: &CStr) -> Option<c_int> {
    // SAFETY: the lock is held.
    unsafe {
        let events = python.owned((python.attribute)(monitoring.object, c"events".as_ptr()))?;
        let bit = python.owned((python.attribute)(events.object, name.as_ptr()))?;
        c_int::try_from((python.integer)(bit.object)).ok()
    }
}

unsafe fn listen(python: &Python, monitoring: &Owned<'_>, tool: c_int) -> Option<()> {
    let mut wanted = 0;
    // SAFETY: the lock is held; definitions are static, in a library that is never unloaded.
    unsafe {
        for (name, definition) in &EVENTS {
            let event = event(python, monitoring, name)?;
            let function =
                python.owned((python.new_function)(definition, core::ptr::null_mut(), core::ptr::null_mut()))?;
            let callback = Second::NumberAndObject(event, function.object);
            python.call_with_number(monitoring.object, c"register_callback", tool, callback)?;
            wanted |= event;
        }
        python.call_with_number(monitoring.object, c"set_events", tool, Second::Number(wanted))?;
    }
    Some(())
}

/// What callbacks answer: go on. From 3.12 on it is immortal.
#[inline(always)]
fn none() -> Object {
    Python::find().map_or(core::ptr::null_mut(), |python| python.none)
}

/// The code object is the first argument of all events.
#[inline(always)]
unsafe fn argument(arguments: *const Object, number: usize) -> usize {
    // SAFETY: the interpreter passes two or more to every callback, and to those of calls four.
    unsafe { *arguments.add(number) as usize }
}

unsafe extern "C" fn call(_: Object, arguments: *const Object, _: isize) -> Object {
    // SAFETY: the interpreter is about to run that code on this thread.
    hidden(|guard| unsafe { recorder::called(guard, argument(arguments, 0)) });
    none()
}

unsafe extern "C" fn end_of_call(_: Object, arguments: *const Object, _: isize) -> Object {
    // SAFETY: as above.
    hidden(|guard| recorder::ended(guard, unsafe { argument(arguments, 0) }));
    none()
}

unsafe extern "C" fn native_call(_: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above; the third is what is called.
    unsafe {
        // Most are Python functions, which tell of themselves.
        if count > 2 && recorder::is_native(argument(arguments, 2)) {
            hidden(|guard| recorder::native_called(guard, argument(arguments, 2)));
            installers::call_is_told(argument(arguments, 2) as Object, argument(arguments, 0) as Object);
        }
    }
    none()
}

unsafe extern "C" fn native_end(_: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: as above.
    unsafe {
        if count > 2 && recorder::is_native(argument(arguments, 2)) {
            hidden(|guard| recorder::native_ended(guard, argument(arguments, 2)));
            if !installers::end_is_told(argument(arguments, 2) as Object) {
                return core::ptr::null_mut();
            }
        }
    }
    none()
}
