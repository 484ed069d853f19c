//! The functions by which the program installs a profiler of its own, while its calls are traced.
//!
//! The interpreter tells whoever listens when a call of C code has ended, also the end of the call that made it listen: but
//! only because somebody listened before, which without us is nobody. So such a call, told to us, is put off until its end has
//! been told; then it is made. And a number of `sys.monitoring` that the program wants is given up to it.
//!
//! What is changed is which C code the function objects lead to, until the trace ends; they stay the objects they are.
use super::monitoring;
use super::python::{METH_FASTCALL, METH_O, MethodDefinition, Object, Python};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

type OfOne = unsafe extern "C" fn(Object, Object) -> Object;
type OfMany = unsafe extern "C" fn(Object, *const Object, isize) -> Object;

/// A function of the interpreter, and what it leads to while calls are traced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Installer {
    SetProfile = 0,
    SetEvents = 1,
    SetLocalEvents = 2,
    UseTool = 3,
}

const ALL: [Installer; 4] =
    [Installer::SetProfile, Installer::SetEvents, Installer::SetLocalEvents, Installer::UseTool];

impl Installer {
    fn name(self) -> &'static CStr {
        match self {
            Installer::SetProfile => c"setprofile",
            Installer::SetEvents => c"set_events",
            Installer::SetLocalEvents => c"set_local_events",
            Installer::UseTool => c"use_tool_id",
        }
    }

    fn place(self) -> &'static Place {
        static PLACES: (Place, Place, Place, Place) = (Place::none(), Place::none(), Place::none(), Place::none());
        match self {
            Installer::SetProfile => &PLACES.0,
            Installer::SetEvents => &PLACES.1,
            Installer::SetLocalEvents => &PLACES.2,
            Installer::UseTool => &PLACES.3,
        }
    }

    /// The object, null where it is not changed. Read with each call of C code that is told.
    #[inline(always)]
    fn object(self) -> Object {
        self.place().object.load(Relaxed)
    }

    fn code(self) -> (c_int, *const c_void) {
        match self {
            Installer::SetProfile => (METH_O, set_profile as *const c_void),
            Installer::SetEvents => (METH_FASTCALL, set_events as *const c_void),
            Installer::SetLocalEvents => (METH_FASTCALL, set_local_events as *const c_void),
            Installer::UseTool => (METH_FASTCALL, use_tool as *const c_void),
        }
    }
}

/// One function object.
struct Place {
    object: AtomicPtr<c_void>,
    /// What it had, and what it has: in everything but the code the same.
    original: UnsafeCell<*const MethodDefinition>,
    definition: UnsafeCell<MethodDefinition>,
}

impl Place {
    const fn none() -> Place {
        Place {
            object: AtomicPtr::new(ptr::null_mut()),
            original: UnsafeCell::new(ptr::null()),
            definition: UnsafeCell::new(MethodDefinition::NONE),
        }
    }
}

// SAFETY: only used with the interpreter's lock held, but for the atomic word.
unsafe impl Sync for Place {}

struct State {
    /// The one that is being called, and was told, with the thread that calls it.
    called: Option<(Installer, Object)>,
    put_off: Option<PutOff>,
}

/// A call that is to be made when its end has been told. Its arguments are kept.
#[derive(Clone, Copy)]
struct PutOff {
    installer: Installer,
    module: Object,
    arguments: [Object; 3],
    count: usize,
}

struct Cell(UnsafeCell<State>);

// SAFETY: only used with the interpreter's lock held.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(State { called: None, put_off: None }));

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn begin(python: &Python) {
    for installer in ALL {
        // SAFETY: the lock is held, so that nobody calls them meanwhile; a function object leads to its definition.
        unsafe {
            let Some(object) = find(python, installer) else { continue };
            let leads_to = python.definition_of(object);
            let (flags, function) = installer.code();
            let original = *leads_to;
            if (*original).flags != flags || !installer.object().is_null() {
                (python.give_back)(object);
                continue;
            }
            let Place { object: known, original: before, definition } = installer.place();
            *before.get() = original;
            *definition.get() = MethodDefinition { function, ..*original };
            *leads_to = definition.get();
            known.store(object, Relaxed);
        }
    }
}

/// # Safety
/// The interpreter's lock is held.
pub(super) unsafe fn end(python: &Python) {
    for installer in ALL {
        let object = installer.place().object.swap(ptr::null_mut(), Relaxed);
        if object.is_null() {
            continue;
        }
        // SAFETY: the lock is held; modules keep their functions, and we have kept them, too.
        unsafe {
            *python.definition_of(object) = *installer.place().original.get();
            (python.give_back)(object);
        }
    }
    // SAFETY: as above.
    unsafe {
        (*STATE.0.get()).called = None;
        if !make_put_off(python) {
            (python.clear_error)();
        }
    }
}

/// The function, kept, if it is what the interpreter had at its beginning.
unsafe fn find(python: &Python, installer: Installer) -> Option<Object> {
    // SAFETY: the lock is held; what `sys` has is lent.
    unsafe {
        let object = match installer {
            Installer::SetProfile => {
                let lent = (python.get_of_sys)(installer.name().as_ptr());
                if lent.is_null() {
                    return None;
                }
                (python.keep)(lent);
                python.owned(lent)?
            }
            _ => {
                let monitoring = monitoring::module(python)?;
                python.owned((python.attribute)(monitoring.object, installer.name().as_ptr()))?
            }
        };
        if !python.is_plain_function(object.object) {
            return None;
        }
        (python.keep)(object.object);
        Some(object.object)
    }
}

/// The interpreter tells that C code is about to be called, from `code`, which is null where it does not say.
///
/// # Safety
/// The interpreter's lock is held.
#[inline(always)]
pub(super) unsafe fn call_is_told(callable: Object, code: Object) {
    for installer in ALL {
        if callable == installer.object() {
            // SAFETY: passed on.
            unsafe { note_called(installer, code) };
        }
    }
}

#[cold]
unsafe fn note_called(installer: Installer, code: Object) {
    // SAFETY: the lock is held.
    unsafe {
        let Some(python) = Python::find() else { return };
        // Who listens already is told the end as well.
        if installer != Installer::UseTool && !others_listen(python, code) {
            (*STATE.0.get()).called = Some((installer, (python.thread)()));
        }
    }
}

/// Whether calls are told to somebody else. Before `sys.monitoring` there is only one who can listen.
unsafe fn others_listen(python: &Python, code: Object) -> bool {
    if !monitoring::is_at_work() {
        return false;
    }
    // SAFETY: the lock is held.
    unsafe {
        let get = (python.get_of_sys)(c"getprofile".as_ptr());
        let profile = if get.is_null() { None } else { python.owned((python.call)(get, ptr::null_mut())) };
        profile.is_some_and(|profile| !profile.is_none()) || monitoring::others_hear_calls(python, code)
    }
}

/// The end of a call of C code has been told; `false` if the call that was put off has failed, with an exception set.
///
/// # Safety
/// The interpreter's lock is held.
#[inline(always)]
pub(super) unsafe fn end_is_told(callable: Object) -> bool {
    // SAFETY: the lock is held.
    match unsafe { (*STATE.0.get()).called } {
        None => true,
        Some((installer, _)) if callable != installer.object() => true,
        // SAFETY: passed on.
        Some(_) => unsafe {
            (*STATE.0.get()).called = None;
            Python::find().is_none_or(|python| make_put_off(python))
        },
    }
}

#[cold]
unsafe fn make_put_off(python: &Python) -> bool {
    // SAFETY: the lock is held; the arguments were kept.
    unsafe {
        let Some(PutOff { installer, module, arguments, count }) = (*STATE.0.get()).put_off.take() else { return true };
        let answer = match installer {
            Installer::SetProfile => {
                let [function, ..] = arguments;
                original_of_one(installer)(module, function)
            }
            _ => original_of_many(installer)(module, arguments.as_ptr(), count as isize),
        };
        for argument in arguments.into_iter().take(count) {
            (python.give_back)(argument);
        }
        if answer.is_null() {
            return false;
        }
        (python.give_back)(answer);
        true
    }
}

unsafe fn original(installer: Installer) -> *const c_void {
    // SAFETY: it was there when the object was made to lead here, and stays.
    unsafe { (**installer.place().original.get()).function }
}

unsafe fn original_of_one(installer: Installer) -> OfOne {
    // SAFETY: its flags say that it is called so.
    unsafe { core::mem::transmute::<*const c_void, OfOne>(original(installer)) }
}

unsafe fn original_of_many(installer: Installer) -> OfMany {
    // SAFETY: as above.
    unsafe { core::mem::transmute::<*const c_void, OfMany>(original(installer)) }
}

/// Whether this call of the function is the one that was told, whose end will be.
unsafe fn is_told(python: &Python, installer: Installer) -> bool {
    // SAFETY: the lock is held.
    unsafe {
        let State { called, put_off, .. } = &*STATE.0.get();
        put_off.is_none() && *called == Some((installer, (python.thread)()))
    }
}

unsafe fn put_off(python: &Python, installer: Installer, module: Object, arguments: &[Object]) {
    let mut kept = [ptr::null_mut(); 3];
    // SAFETY: the lock is held, and the caller has the arguments.
    unsafe {
        for (place, argument) in kept.iter_mut().zip(arguments) {
            (python.keep)(*argument);
            *place = *argument;
        }
        (*STATE.0.get()).put_off = Some(PutOff { installer, module, arguments: kept, count: arguments.len() });
    }
}

unsafe extern "C" fn set_profile(module: Object, function: Object) -> Object {
    // SAFETY: the interpreter calls this, with its lock held.
    unsafe {
        match Python::find() {
            Some(python) if is_told(python, Installer::SetProfile) => {
                put_off(python, Installer::SetProfile, module, &[function]);
                (python.keep)(python.none);
                python.none
            }
            _ => original_of_one(Installer::SetProfile)(module, function),
        }
    }
}

unsafe extern "C" fn set_events(module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: passed on.
    unsafe { listen(Installer::SetEvents, module, arguments, count, 2) }
}

unsafe extern "C" fn set_local_events(module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: passed on.
    unsafe { listen(Installer::SetLocalEvents, module, arguments, count, 3) }
}

/// No version knows so many events: the error names the set.
const LARGEST_SET: c_long = 1 << 24;

/// The events are the last argument. At once all those are set that are not of calls, so that an error is told; then all.
unsafe fn listen(
    installer: Installer,
    module: Object,
    arguments: *const Object,
    count: isize,
    expected: usize,
) -> Object {
    // SAFETY: the interpreter calls this, with its lock held, and with so many arguments.
    unsafe {
        let at_once = || original_of_many(installer)(module, arguments, count);
        let Some(python) = Python::find().filter(|python| is_told(python, installer)) else { return at_once() };
        if count != expected as isize {
            return at_once();
        }
        let given = core::slice::from_raw_parts(arguments, expected);
        let mut reduced = [ptr::null_mut(); 3];
        reduced.iter_mut().zip(given).for_each(|(to, from)| *to = *from);
        let Some(events) = given.last().and_then(|events| python.number(*events)) else { return at_once() };
        let is_valid = (0..LARGEST_SET).contains(&events);
        let Some(of_calls) =
            monitoring::events_of_calls(python).filter(|of_calls| is_valid && events & of_calls.call != 0)
        else {
            return at_once();
        };
        let Some(others) = python.owned((python.new_integer)(events & !of_calls.all)) else { return at_once() };
        if let Some(last) = reduced.get_mut(expected - 1) {
            *last = others.object;
        }
        let answer = original_of_many(installer)(module, reduced.as_ptr(), count);
        if !answer.is_null() {
            put_off(python, installer, module, given);
        }
        answer
    }
}

unsafe extern "C" fn use_tool(module: Object, arguments: *const Object, count: isize) -> Object {
    // SAFETY: the interpreter calls this, with its lock held.
    unsafe {
        if let Some(python) = Python::find()
            && count > 0
            && let Some(number) = python.number(*arguments)
        {
            monitoring::give_up(python, number);
        }
        original_of_many(Installer::UseTool)(module, arguments, count)
    }
}
