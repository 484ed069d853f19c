//! What becomes of the recording when the program locks itself in.
//!
//! [`memscope_sys::sandbox`] sees to it that no call of ours is made that a filter of the program forbids. Here is what
//! is done before: a thread that is about to lose the means to get a lane gets one, and the header says what will be
//! missing. Afterwards recording goes on in the windows there are; the first full one that cannot be appended ends it.
use crate::clock;
use crate::lane;
use crate::process;
use memscope_format::layout::{StopReason, notes};
use memscope_sys::sandbox::{self, Expected, Program};
use memscope_sys::{self as sys, Errno, nr};

/// What the program asks the kernel for.
#[derive(Clone, Copy)]
pub enum Request {
    /// `SECCOMP_MODE_STRICT`.
    Strict,
    Filter(*const Program),
    /// `PR_TSC_SIGSEGV`: reading the time stamp counter becomes a fault.
    NoCounter,
}

/// Gets the calling thread a lane while it can, if the process is recorded. Called with the guard held.
pub fn prepare_thread() {
    if process::current().is_some() {
        lane::ticks_now();
    }
}

/// The program is about to make the request; to be followed by [`answered`].
///
/// # Safety
/// A filter is what the program hands to the kernel.
pub unsafe fn expect(request: Request) -> Expected {
    match request {
        Request::Strict => sandbox::expect_strict(),
        // SAFETY: the caller vouches for it.
        Request::Filter(program) => unsafe { sandbox::expect_filter(program) },
        Request::NoCounter => Expected::Nothing,
    }
}

/// Whether the kernel granted what was expected.
pub fn answered(request: Request, expected: Expected, granted: bool) {
    if !granted {
        expected.was_refused();
        return;
    }
    // With strict mode the counter goes too, and with the counter all clocks.
    if cfg!(target_arch = "x86_64") && matches!(request, Request::Strict | Request::NoCounter) {
        clock::set_gone();
        lane::close_own();
        if let Some(process) = process::current() {
            process.stop(StopReason::Sandbox, Errno::SANDBOX);
        }
    }
    if !matches!(expected, Expected::Nothing)
        && beginnings_are_forbidden()
        && let Some(process) = process::current()
    {
        process.note(notes::SANDBOXED);
    }
}

/// Whether a new thread or child may be without the means to record. Arguments are as ours, but for addresses and numbers.
fn beginnings_are_forbidden() -> bool {
    const HERE: usize = -100isize as usize;
    const READ_WRITE: usize = 3;
    const SHARED: usize = 1;
    const PRIVATE: usize = 0x4022;
    const DESCRIPTOR: usize = 900;
    const WIPE_ON_FORK: usize = 18;
    const CREATE: usize = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
    [
        (nr::GETPID, [0; 6]),
        (nr::GETTID, [0; 6]),
        (nr::MKDIRAT, [HERE, 0, 0o750, 0, 0, 0]),
        (nr::OPENAT, [HERE, 0, CREATE, 0o600, 0, 0]),
        (nr::FSTAT, [DESCRIPTOR, 0, 0, 0, 0, 0]),
        (nr::PRLIMIT64, [0, 1, 0, 0, 0, 0]),
        (nr::FALLOCATE, [DESCRIPTOR, 0, 0, 4096, 0, 0]),
        (nr::MMAP, [0, 4096, READ_WRITE, SHARED, DESCRIPTOR, 0]),
        (nr::MMAP, [0, 4096, READ_WRITE, PRIVATE, usize::MAX, 0]),
        (nr::MADVISE, [0, 4096, WIPE_ON_FORK, 0, 0, 0]),
    ]
    .iter()
    .any(|(number, arguments)| sandbox::forbids(*number, arguments))
}
