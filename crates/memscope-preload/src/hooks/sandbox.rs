//! seccomp: the program takes system calls from itself, and so from us. The recorder is told before the kernel is.
//!
//! `prctl` and `syscall` are the two ways C has to it; `libseccomp` takes them too. Everything else they are used for
//! goes straight on to the original, without a frame of ours and with all registers as they were: `syscall` also
//! forks, and returns from signals.
use super::{prctl, syscall};
use core::ffi::{c_int, c_long};
use memscope_recorder::sandbox::{self, Request};
use memscope_recorder::slot::{Guard, MARK_WORD};

pub(super) const PR_SET_SECCOMP: c_int = 22;
pub(super) const PR_SET_TSC: c_int = 26;
const PR_TSC_SIGSEGV: usize = 2;
const SECCOMP_MODE_STRICT: usize = 1;
const SECCOMP_MODE_FILTER: usize = 2;
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 8;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_SECCOMP: c_int = 317;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_SECCOMP: c_int = 277;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_PRCTL: c_int = 157;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_PRCTL: c_int = 167;

/// From the library's constructor. Until then the hooks make the call themselves: a search within whatever the loader, an
/// allocator or a constructor is about could wait for its own caller.
pub(crate) fn find_originals() {
    prctl::resolve();
    syscall::resolve();
}

/// What a call of `prctl` takes from the recorder.
fn request_of_prctl(option: c_int, value: usize, program: usize) -> Option<Request> {
    match (option, value) {
        (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => Some(Request::Strict),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER) => Some(Request::Filter(program as *const _)),
        (PR_SET_TSC, PR_TSC_SIGSEGV) => Some(Request::NoCounter),
        _ => None,
    }
}

pub(super) unsafe extern "C" fn watched_prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    let ask = || match prctl::resolved() {
        // SAFETY: the program's own arguments are passed on.
        Some(original) => unsafe { original(option, a, b, c, d) },
        // SAFETY: as above.
        None => unsafe { by_ourselves(SYS_PRCTL, [option as usize, a, b, c, d, 0]) as c_int },
    };
    match request_of_prctl(option, a, b) {
        Some(request) => told(request, ask, |answer| answer == 0),
        None => ask(),
    }
}

/// The seventh argument is on the stack of x86-64: what is read there, if the caller gave none, is not used.
pub(super) unsafe extern "C" fn watched_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let ask = || match syscall::resolved() {
        // SAFETY: the program's own arguments are passed on.
        Some(original) => unsafe { original(number, a, b, c, d, e, f) },
        // SAFETY: as above.
        None => unsafe { by_ourselves(number as c_int, [a, b, c, d, e, f]) },
    };
    let request = match (number as c_int, a) {
        (SYS_SECCOMP, SECCOMP_SET_MODE_STRICT) => Some(Request::Strict),
        (SYS_SECCOMP, SECCOMP_SET_MODE_FILTER) => Some(Request::Filter(c as *const _)),
        (SYS_PRCTL, option) => request_of_prctl(option as c_int, b, c),
        _ => None,
    };
    let Some(request) = request else { return ask() };
    // A positive answer is a descriptor where one was asked for, else a thread that stood in the way.
    let listens = number as c_int == SYS_SECCOMP && b & SECCOMP_FILTER_FLAG_NEW_LISTENER != 0;
    told(request, ask, |answer| answer == 0 || (answer > 0 && listens))
}

/// Asks the kernel, the recorder being told before and after.
fn told<T: Copy>(request: Request, ask: impl FnOnce() -> T, is_granted: impl FnOnce(T) -> bool) -> T {
    let mark = MARK_WORD;
    let guard = Guard::enter_at(&mark);
    if let Some(guard) = &guard {
        sandbox::prepare_thread(guard);
    }
    // SAFETY: the request is what the program hands to the kernel.
    let pending = unsafe { sandbox::expect(request) };
    let answer = ask();
    pending.answered(is_granted(answer));
    answer
}

/// As libc does it.
///
/// # Safety
/// The arguments are the program's own.
unsafe fn by_ourselves(number: c_int, arguments: [usize; 6]) -> c_long {
    unsafe extern "C" {
        fn __errno_location() -> *mut c_int;
    }
    // SAFETY: the program's own arguments are passed on; the error number is this thread's own.
    unsafe {
        match memscope_recorder::sys::unfiltered(number as usize, arguments) {
            Ok(answer) => answer as c_long,
            Err(error) => {
                *__errno_location() = error.0;
                -1
            }
        }
    }
}
