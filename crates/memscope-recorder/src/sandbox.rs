//! What becomes of the recording when the program locks itself in.
//!
//! [`memscope_sys::sandbox`] sees to it that no call of ours is made that a filter of the program forbids. Here is what
//! is done before: a thread that is about to lose the means to get a lane gets one, and the header says what will be
//! missing. Afterwards recording goes on in the windows there are; the first full one that cannot be appended ends it.
use crate::clock;
use crate::lane;
use crate::process;
use crate::slot::Guard;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use memscope_format::layout::{FILTERS_UNCOUNTED, StopReason, notes};
use memscope_sys::sandbox::{self, Expected, Program};
use memscope_sys::{self as sys, Errno, nr};

/// The filters that this image of the program began with, plus one; 0 if nobody has asked yet. A forked child has its parent's.
static INHERITED: AtomicU32 = AtomicU32::new(0);

/// How many filters the process had from before its program, for the keeper, who counts those it has now.
pub(crate) fn inherited_filters() -> u32 {
    if INHERITED.load(Relaxed) == 0 {
        let inherited = sandbox::installed().map(|filters| filters.saturating_sub(sandbox::known()));
        INHERITED.store(inherited.map_or(FILTERS_UNCOUNTED, |filters| filters.saturating_add(1)), Relaxed);
    }
    match INHERITED.load(Relaxed) {
        FILTERS_UNCOUNTED => FILTERS_UNCOUNTED,
        one_more => one_more - 1,
    }
}

/// What the program asks the kernel for.
#[derive(Clone, Copy)]
pub enum Request {
    /// `SECCOMP_MODE_STRICT`.
    Strict,
    Filter(*const Program),
    /// `PR_TSC_SIGSEGV`: reading the time stamp counter becomes a fault.
    NoCounter,
}

/// Gets the calling thread a lane while it can, if the process is recorded. Where every process is, as soon as it allocates,
/// it begins now: afterwards it could neither begin nor say that it does not.
pub fn prepare_thread(guard: &Guard<'_>) {
    let process = if process::is_host_wanted() { process::ensure() } else { process::current() };
    if process.is_some() && !is_borrowed() {
        lane::ticks_now(guard);
        // What is appended may be the last.
        lane::widen_own(guard);
    }
}

/// A request that is on its way to the kernel.
#[must_use]
pub struct Pending {
    request: Request,
    expected: Expected,
    /// Afterwards there may be no asking.
    is_borrowed: bool,
}

/// The program is about to make the request.
///
/// # Safety
/// A filter is what the program hands to the kernel.
pub unsafe fn expect(request: Request) -> Pending {
    let is_borrowed = is_borrowed();
    let expected = match request {
        _ if is_borrowed => Expected::Nothing,
        Request::Strict => sandbox::expect_strict(),
        // SAFETY: the caller vouches for it.
        Request::Filter(program) => unsafe { sandbox::expect_filter(program) },
        Request::NoCounter => Expected::Nothing,
    };
    if !matches!(expected, Expected::Nothing)
        && let Some(process) = process::current()
    {
        // Before the kernel counts it: the keeper may look at any time.
        process.header().filters_known.fetch_add(1, AcqRel);
    }
    Pending { request, expected, is_borrowed }
}

impl Pending {
    /// Whether the kernel granted it.
    pub fn answered(self, granted: bool) {
        if !granted {
            if !matches!(self.expected, Expected::Nothing)
                && let Some(process) = process::current()
            {
                process.header().filters_known.fetch_sub(1, AcqRel);
            }
            return self.expected.was_refused();
        }
        // On x86-64 strict mode takes the counter too; and with the counter all clocks go.
        let counter_goes = match self.request {
            Request::Strict => cfg!(target_arch = "x86_64"),
            Request::Filter(_) => false,
            Request::NoCounter => true,
        };
        if counter_goes && !self.is_borrowed {
            clock::set_gone();
            lane::close_own();
            if let Some(process) = process::current() {
                process.stop(StopReason::Sandbox, Errno::SANDBOX);
            }
        }
        if !matches!(self.expected, Expected::Nothing)
            && beginnings_are_forbidden()
            && let Some(process) = process::current()
        {
            process.note(notes::SANDBOXED);
        }
    }
}

/// Whether this is a child of `vfork`: what it does to itself is not done to its parent, whose memory this is.
fn is_borrowed() -> bool {
    process::current().is_some_and(|process| process.home() != sys::getpid())
}

/// Whether a new thread or child may be without the means to record.
fn beginnings_are_forbidden() -> bool {
    calls_of_a_beginning().iter().any(|(number, arguments)| sandbox::forbids(*number, arguments))
}

/// Whether a program that begins in this process may be ended for what our libraries ask the kernel at its beginning.
pub(crate) fn beginnings_are_fatal() -> bool {
    calls_of_a_beginning().iter().any(|(number, arguments)| sandbox::kills(*number, arguments))
}

/// Arguments are as ours, but for addresses and numbers.
fn calls_of_a_beginning() -> [(usize, [usize; 6]); 12] {
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
        (nr::PROCESS_VM_READV, [0, 0, 1, 0, 1, 0]),
        (nr::READLINKAT, [HERE, 0, 0, 1024, 0, 0]),
    ]
}
