//! What torch is given: two functions, and when it is to call them.
use core::ffi::c_void;

/// `at::RecordFunctionCallback`: the same in all versions, and passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Callback {
    pub(crate) start: *const c_void,
    pub(crate) end: *const c_void,
    sampling: f64,
    scopes: [bool; 10],
    pub(crate) needs_inputs: bool,
    pub(crate) needs_outputs: bool,
    pub(crate) needs_ids: bool,
}

const _: () = assert!(size_of::<Callback>() == 40 && core::mem::offset_of!(Callback, needs_inputs) == 34);

/// Of `at::RecordScope`: calls of the dispatcher, and ranges that are no operators.
pub const FUNCTION: usize = 0;

/// Ends a call: `void (const at::RecordFunction &, at::ObserverContext *)`.
pub type End = unsafe extern "C" fn(call: usize, context: usize);

impl Callback {
    /// `start` is what [`start_callback!`](crate::start_callback) made.
    pub fn new(start: unsafe extern "C" fn(), end: End, tensors: bool) -> Callback {
        let mut scopes = [false; 10];
        scopes[FUNCTION] = true;
        Callback {
            start: start as *const c_void,
            end: end as *const c_void,
            sampling: 1.0,
            scopes,
            needs_inputs: tensors,
            needs_outputs: tensors,
            needs_ids: false,
        }
    }
}

/// Makes `$name`, which torch calls when a call of the dispatcher begins, of `$body`, an `unsafe extern "C" fn(usize)` that is
/// given the call. torch expects an object of one word back, for which its caller has the room: it always gets none.
///
/// Where the room is, the platforms tell each in their way: x86-64 as a first argument, aarch64 in a register of its own,
/// which no language but the assembler's names.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! start_callback {
    ($name:ident => $body:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            const _: unsafe extern "C" fn(usize) = $body;
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "mov qword ptr [rdi], 0",
                "mov rdi, rsi",
                "call {body}",
                "pop rax",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! start_callback {
    ($name:ident => $body:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            const _: unsafe extern "C" fn(usize) = $body;
            core::arch::naked_asm!(
                ".cfi_startproc",
                "hint #34",
                "str xzr, [x8]",
                "b {body}",
                ".cfi_endproc",
                body = sym $body,
            )
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static CALL: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn began(call: usize) {
        CALL.store(call, Relaxed);
    }

    unsafe extern "C" fn ended(_: usize, _: usize) {}

    start_callback!(started => began);

    /// What a C++ compiler makes of a class with a destructor: returned in the caller's room, whose address comes back.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_start_leaves_no_context_and_hands_the_call_on() {
        let mut room = 0x5555_usize;
        // SAFETY: called as C++ calls it.
        let returned = unsafe {
            let start: unsafe extern "C" fn(*mut usize, usize) -> *mut usize =
                core::mem::transmute(started as unsafe extern "C" fn());
            start(&raw mut room, 77)
        };
        assert_eq!((room, CALL.load(Relaxed), returned), (0, 77, &raw mut room));
    }

    #[test]
    fn tensors_are_asked_for_only_if_they_are_wanted() {
        for tensors in [false, true] {
            let callback = Callback::new(started, ended, tensors);
            assert_eq!((callback.needs_inputs, callback.needs_outputs, callback.needs_ids), (tensors, tensors, false));
            assert_eq!(callback.scopes.iter().filter(|scope| **scope).count(), 1);
        }
    }
}
