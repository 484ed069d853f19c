//! Functions and objects of the interpreter, by name. This library never links it.
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

/// A `PyObject`.
pub(super) type Object = *mut c_void;
/// A `Py_tracefunc`.
pub(super) type ProfileFunction = unsafe extern "C" fn(Object, *mut c_void, c_int, Object) -> c_int;

/// A `PyMethodDef`.
#[repr(C)]
pub(super) struct MethodDefinition {
    pub(super) name: *const c_char,
    pub(super) function: *const c_void,
    pub(super) flags: c_int,
    pub(super) documentation: *const c_char,
}

// SAFETY: nobody writes to it.
unsafe impl Sync for MethodDefinition {}

impl MethodDefinition {
    pub(super) const NONE: MethodDefinition = MethodDefinition {
        name: core::ptr::null(),
        function: core::ptr::null(),
        flags: 0,
        documentation: core::ptr::null(),
    };
}

/// Arguments as an array and their number.
pub(super) const METH_FASTCALL: c_int = 0x80;
/// One argument.
pub(super) const METH_O: c_int = 8;

macro_rules! functions {
    ($($field:ident: $name:literal fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// All that the trace calls. The lock is held by whoever does.
        pub(super) struct Python {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            call_method: unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object,
            pub(super) none: Object,
            /// The type of functions in C.
            plain_function: Object,
        }

        impl Python {
            fn look_up() -> Option<Python> {
                let find = memscope_recorder::find_function;
                // SAFETY: each is the C function of this name, which has this type in every version.
                unsafe {
                    Some(Python {
                        $($field: core::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) $(-> $answer)?>(
                            find($name)?,
                        ),)*
                        call_method: core::mem::transmute::<
                            usize,
                            unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object,
                        >(find(c"PyObject_CallMethod")?),
                        none: find(c"_Py_NoneStruct")? as Object,
                        plain_function: find(c"PyCFunction_Type")? as Object,
                    })
                }
            }
        }
    };
}

functions! {
    get_of_sys: c"PySys_GetObject" fn(*const c_char) -> Object;
    attribute: c"PyObject_GetAttrString" fn(Object, *const c_char) -> Object;
    call: c"PyObject_CallObject" fn(Object, Object) -> Object;
    integer: c"PyLong_AsLong" fn(Object) -> c_long;
    new_integer: c"PyLong_FromLong" fn(c_long) -> Object;
    error: c"PyErr_Occurred" fn() -> Object;
    new_function: c"PyCFunction_NewEx" fn(*const MethodDefinition, Object, Object) -> Object;
    text: c"PyUnicode_AsUTF8" fn(Object) -> *const c_char;
    import: c"PyImport_ImportModule" fn(*const c_char) -> Object;
    keep: c"Py_IncRef" fn(Object);
    give_back: c"Py_DecRef" fn(Object);
    clear_error: c"PyErr_Clear" fn();
    set_profile: c"PyEval_SetProfile" fn(Option<ProfileFunction>, Object);
    thread: c"PyThreadState_Get" fn() -> *mut c_void;
    next_thread: c"PyThreadState_Next" fn(*mut c_void) -> *mut c_void;
    use_thread: c"PyThreadState_Swap" fn(*mut c_void) -> *mut c_void;
    interpreter: c"PyThreadState_GetInterpreter" fn(*mut c_void) -> *mut c_void;
    first_thread: c"PyInterpreterState_ThreadHead" fn(*mut c_void) -> *mut c_void;
}

struct Cell(UnsafeCell<MaybeUninit<Python>>);

// SAFETY: written once, under the interpreter's lock, before `FOUND` says so.
unsafe impl Sync for Cell {}

static PYTHON: Cell = Cell(UnsafeCell::new(MaybeUninit::uninit()));
static FOUND: AtomicBool = AtomicBool::new(false);

impl Python {
    /// Looked up the first time. The caller holds the interpreter's lock.
    pub(super) fn find() -> Option<&'static Python> {
        if !FOUND.load(Acquire) {
            let python = Python::look_up()?;
            // SAFETY: the lock makes this thread the only one here, and there are no readers yet.
            unsafe { (*PYTHON.0.get()).write(python) };
            FOUND.store(true, Release);
        }
        // SAFETY: it was written before.
        Some(unsafe { (*PYTHON.0.get()).assume_init_ref() })
    }

    /// Calls a method with a number and, if there is one, a second argument; gives what it answers, owned.
    ///
    /// # Safety
    /// The lock is held; both are objects.
    pub(super) unsafe fn call_with_number(
        &self,
        object: Object,
        method: &CStr,
        number: c_int,
        second: Second<'_>,
    ) -> Option<Owned<'_>> {
        // SAFETY: the formats say what the arguments are.
        let answer = unsafe {
            match second {
                Second::Nothing => (self.call_method)(object, method.as_ptr(), c"i".as_ptr(), number),
                Second::Text(text) => {
                    (self.call_method)(object, method.as_ptr(), c"is".as_ptr(), number, text.as_ptr())
                }
                Second::Number(second) => (self.call_method)(object, method.as_ptr(), c"ii".as_ptr(), number, second),
                Second::Object(second) => (self.call_method)(object, method.as_ptr(), c"iO".as_ptr(), number, second),
                Second::NumberAndObject(second, third) => {
                    (self.call_method)(object, method.as_ptr(), c"iiO".as_ptr(), number, second, third)
                }
            }
        };
        // SAFETY: the lock is held.
        unsafe { self.owned(answer) }
    }

    /// Calls a method with one object.
    ///
    /// # Safety
    /// The lock is held; both are objects.
    pub(super) unsafe fn call_with(&self, object: Object, method: &CStr, argument: Object) -> Option<Owned<'_>> {
        // SAFETY: the format says what the argument is.
        unsafe { self.owned((self.call_method)(object, method.as_ptr(), c"(O)".as_ptr(), argument)) }
    }

    /// Whether an object is this text.
    ///
    /// # Safety
    /// The lock is held, and it is an object.
    pub(super) unsafe fn is_text(&self, object: Object, text: &CStr) -> bool {
        // SAFETY: the caller's; the text of an object lives as long as the object.
        unsafe {
            let own = (self.text)(object);
            if own.is_null() {
                (self.clear_error)();
                return false;
            }
            CStr::from_ptr(own) == text
        }
    }

    /// The value of an object that is a number.
    ///
    /// # Safety
    /// The lock is held, no exception is set, and it is an object.
    pub(super) unsafe fn number(&self, object: Object) -> Option<c_long> {
        // SAFETY: the caller's.
        unsafe {
            let number = (self.integer)(object);
            if number == -1 && !(self.error)().is_null() {
                (self.clear_error)();
                return None;
            }
            Some(number)
        }
    }

    /// Whether an object is a function in C, and nothing that is derived of one.
    ///
    /// # Safety
    /// It is an object.
    pub(super) unsafe fn is_plain_function(&self, object: Object) -> bool {
        // SAFETY: the caller's; the type is the second word of each.
        unsafe { *object.cast::<Object>().add(1) == self.plain_function }
    }

    /// Where such a function has the pointer to its definition.
    ///
    /// # Safety
    /// It is one: see [`Python::is_plain_function`].
    pub(super) unsafe fn definition_of(&self, object: Object) -> *mut *const MethodDefinition {
        // SAFETY: the third word, in every version.
        unsafe { object.cast::<*const MethodDefinition>().add(2) }
    }

    /// What a call has answered; a null is an error, which nobody is told.
    ///
    /// # Safety
    /// The lock is held, and the reference is ours.
    pub(super) unsafe fn owned(&self, object: Object) -> Option<Owned<'_>> {
        if object.is_null() {
            // SAFETY: the caller's.
            unsafe { (self.clear_error)() };
            return None;
        }
        Some(Owned { object, python: self })
    }
}

/// What follows a number.
pub(super) enum Second<'a> {
    Nothing,
    Text(&'a CStr),
    Number(c_int),
    Object(Object),
    NumberAndObject(c_int, Object),
}

/// A reference that is given back. The lock is held as long as it lives.
pub(super) struct Owned<'p> {
    pub(super) object: Object,
    python: &'p Python,
}

impl Owned<'_> {
    pub(super) fn is_none(&self) -> bool {
        self.object == self.python.none
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and the lock is held.
        unsafe { (self.python.give_back)(self.object) };
    }
}
