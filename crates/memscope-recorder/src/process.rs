//! One recording per process image, and one per forked child.
use crate::clock::{self, Calibration, TickLine};
use crate::config::{self, Config, Wanted};
use crate::control;
use crate::files::SpoolFile;
use crate::kernel::Kernels;
use crate::lane::Lane;
use crate::names::Path;
use crate::placement;
use crate::slot::Guard;
use crate::stacks;
use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use memscope_format::layout::{
    self, ClockKind, EVENTS_FILE, PROCESS_HEADER_SIZE, ProcessHeader, SPOOL_DIRECTORY, StopReason, WINDOW_SIZE, notes,
};
use memscope_sys::{self as sys, Clock, Errno, clock_ns};

/// Most threads of a process that can record at the same time; more are counted as lost.
pub(crate) const MAX_LANES: usize = 8192;

/// What all lanes of a process share. Lives in memory that a forked child finds zeroed, which is `STATE_NEW`.
pub(crate) struct Process {
    state: AtomicU32,
    pub(crate) pid: u32,
    pub(crate) clock: ClockKind,
    header: AtomicPtr<ProcessHeader>,
    files: UnsafeCell<Files>,
    /// The lanes made so far, and where the search for one without a thread goes on.
    pub(crate) lanes: [AtomicPtr<Lane>; MAX_LANES],
    pub(crate) lane_count: AtomicU32,
    pub(crate) hand: AtomicU32,
    stopped: AtomicBool,
    tick_line: TickLine,
    pub(crate) kernels: Kernels,
}

struct Files {
    windows: SpoolFile,
    events: SpoolFile,
}

const STATE_NEW: u32 = 0;
const STATE_STARTING: u32 = 1;
const STATE_RECORDING: u32 = 2;
const STATE_FAILED: u32 = 3;

/// The image: what `exec` made. Survives fork unchanged, so a child needs neither environment nor `dlsym`.
struct Image {
    state: AtomicU32,
    config: UnsafeCell<Config>,
    process: AtomicPtr<Process>,
}

// SAFETY: `config` is written once, by the thread that moved `state` from new to starting, before it publishes
// `STATE_RECORDING` with release; everybody else reads it after an acquire load of that value.
unsafe impl Sync for Image {}

static IMAGE: Image = Image {
    state: AtomicU32::new(STATE_NEW),
    config: UnsafeCell::new(Config::empty()),
    process: AtomicPtr::new(ptr::null_mut()),
};

/// From the library's constructor: reads the settings and finds the interpreter while the program is still alone.
pub fn initialise() {
    let mark = 0usize;
    // SAFETY: the word is on our stack and does not change.
    if let Some(_guard) = unsafe { Guard::enter(&raw const mark as usize) } {
        image_is_recording();
    }
}

/// From the library's destructor: notes a regular end. Later events are still recorded.
pub fn process_ends() {
    let process = IMAGE.process.load(Acquire);
    // SAFETY: the page is mapped for the rest of the process's life once published.
    let Some(process) = (unsafe { process.as_ref() }) else { return };
    if process.state.load(Acquire) == STATE_RECORDING {
        process.calibrate();
        process.header().state.store(layout::STATE_ENDED, Release);
    }
}

/// The process's recording, started if this is its first event; `None` if there is nothing to record into.
#[cold]
pub(crate) fn ensure() -> Option<&'static Process> {
    if !image_is_recording() {
        return None;
    }
    // SAFETY: published before the image's state, mapped for ever.
    let process = unsafe { IMAGE.process.load(Acquire).as_ref() }?;
    loop {
        match process.state.load(Acquire) {
            STATE_RECORDING => return Some(process),
            STATE_FAILED => return None,
            STATE_NEW => {
                if process.state.compare_exchange(STATE_NEW, STATE_STARTING, AcqRel, Relaxed).is_ok() {
                    // SAFETY: the exchange made us the only one to touch the page until the state is published.
                    let started = unsafe { start(ptr::from_ref(process).cast_mut()) };
                    let state = if started.is_ok() { STATE_RECORDING } else { STATE_FAILED };
                    process.state.store(state, Release);
                }
            }
            // Another thread is creating the files: a matter of microseconds, once in a process's life.
            _ => sys::yield_now(),
        }
    }
}

/// The process's recording if it has begun.
pub(crate) fn current() -> Option<&'static Process> {
    // SAFETY: the page is mapped for the rest of the process's life once published.
    let process = unsafe { IMAGE.process.load(Acquire).as_ref() }?;
    (process.state.load(Acquire) == STATE_RECORDING).then_some(process)
}

pub(crate) fn config() -> &'static Config {
    // SAFETY: only called when the image is recording; see `Image`.
    unsafe { &*IMAGE.config.get() }
}

/// What besides memory is to be recorded; nothing if nothing is.
pub fn wanted() -> Wanted {
    if image_is_recording() { config().wanted } else { Wanted::NOTHING }
}

fn image_is_recording() -> bool {
    loop {
        match IMAGE.state.load(Acquire) {
            STATE_RECORDING => return true,
            STATE_FAILED => return false,
            STATE_NEW => {
                if IMAGE.state.compare_exchange(STATE_NEW, STATE_STARTING, AcqRel, Relaxed).is_ok() {
                    let state = if prepare_image() { STATE_RECORDING } else { STATE_FAILED };
                    IMAGE.state.store(state, Release);
                }
            }
            _ => sys::yield_now(),
        }
    }
}

fn prepare_image() -> bool {
    let Some(config) = config::from_environment() else { return false };
    clock::initialise();
    let size = size_of::<Process>().next_multiple_of(4096);
    let Ok(page) = sys::map_anonymous(size) else { return false };
    // Without this a child would write into its parent's windows: rather record nothing (kernels before 4.14).
    if sys::wipe_on_fork(page, size).is_err() {
        return false;
    }
    if config.c_depth > 0 || config.python_depth > 0 {
        stacks::initialise(config.python_depth > 0);
        forget_loader_errors();
    }
    if config.deferred {
        control::defer();
    }
    // SAFETY: we are the one thread between `STATE_NEW` and the published state.
    unsafe { *IMAGE.config.get() = config };
    IMAGE.process.store(page.as_ptr().cast(), Release);
    true
}

/// A `dlsym` in vain leaves a message for `dlerror`: the program must neither read ours nor free it later, a block whose
/// allocation was never recorded. The first call takes the message, the second frees it.
fn forget_loader_errors() {
    unsafe extern "C" {
        fn dlerror() -> *mut c_char;
    }
    // SAFETY: `dlerror` has no preconditions; the guard is held, so what it frees is not recorded.
    unsafe {
        dlerror();
        dlerror();
    }
}

/// Makes the process directory, the spool files and the header.
///
/// Everything large is built in its place: this runs on whatever stack the first event comes from.
///
/// # Safety
/// `process` points to the zeroed process page and nobody else touches it.
#[cold]
#[inline(never)]
unsafe fn start(process: *mut Process) -> Result<(), Errno> {
    let config = config();
    let kind = clock::kind();
    let calibration = Calibration::now(kind, 0).ok_or(Errno::SANDBOX)?;
    let realtime_ns = clock_ns(Clock::Realtime);
    let pid = sys::getpid();
    if pid == 0 {
        return Err(Errno::SANDBOX);
    }
    // SAFETY: zeroed memory is valid `Files`, and nobody else has a reference to them yet.
    let Files { windows, events } = unsafe { &mut *(*process).files.get() };
    make_directories(config, pid, realtime_ns, &mut windows.path)?;
    events.path.copy_from(&windows.path);
    let elsewhere = placement::create_windows(windows, &events.path, config.run_id)?;
    events.path.push(b"/").push(EVENTS_FILE.as_bytes());
    events.create(sys::O_WRONLY | sys::O_APPEND)?;
    let descriptor = windows.descriptor()?;
    reserve(descriptor, 0, PROCESS_HEADER_SIZE)?;
    let header = sys::map_file(descriptor, 0, PROCESS_HEADER_SIZE)?.cast::<ProcessHeader>();
    // SAFETY: a fresh mapping of a page of zeroes, large enough for the header; only we know it. The magic goes last, so
    // that a half-made header is no header.
    unsafe {
        let page = header.as_ptr();
        (*page).version = layout::VERSION;
        (*page).header_size = PROCESS_HEADER_SIZE as u32;
        (*page).window_size = WINDOW_SIZE as u32;
        (*page).clock_kind = kind as u32;
        (*page).clock_shift = if kind == ClockKind::Counter { clock::SHIFT } else { 0 };
        (*page).pid = pid;
        (*page).parent_pid = sys::getppid();
        (*page).run_id = config.run_id;
        (*page).start_ticks = calibration.ticks;
        (*page).start_monotonic_ns = calibration.monotonic_ns;
        (*page).start_realtime_ns = realtime_ns;
        (*page).state = AtomicU32::new(layout::STATE_RUNNING);
        (*page).config_length = copy(&mut (*page).config, config.text());
        let executable = sys::readlink(c"/proc/self/exe", &mut (*page).executable).unwrap_or_default();
        (*page).executable_length = executable.len() as u32;
        (*page).command_length = read_command(&mut (*page).command);
        if config.python_depth > 0 {
            let (version, note) = stacks::python_support();
            (*page).python_version = version;
            (*page).notes = AtomicU32::new(note);
        }
        if elsewhere {
            (*page).notes.fetch_or(notes::WINDOWS_ELSEWHERE, Relaxed);
        }
        core::sync::atomic::fence(Release);
        (*page).magic = layout::PROCESS_MAGIC;

        ptr::addr_of_mut!((*process).pid).write(pid);
        ptr::addr_of_mut!((*process).clock).write(kind);
        (*process).header.store(page, Release);
    }
    Ok(())
}

/// `<output>/<brand>_<pid>_<local time>_ascend/spool`. The name must be new: `exec` gives the same process another
/// image, possibly within the same second, so the time is moved on until it is.
fn make_directories(config: &Config, pid: u32, realtime_ns: u64, path: &mut Path) -> Result<(), Errno> {
    const MOST_IMAGES_AHEAD: i64 = 1000;
    // A start that failed half way in may have left something.
    path.truncate(0);
    match sys::mkdir(path.push(config.directory().unwrap_or_default()).as_c_str()) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(error) => return Err(error),
    }
    let root = path.length();
    let local_seconds = (realtime_ns / 1_000_000_000) as i64 + config.utc_offset_seconds;
    let mut last = Errno::EEXIST;
    for ahead in 0..MOST_IMAGES_AHEAD {
        path.truncate(root);
        path.push(b"/").push(config.brand()).push(b"_").push_number(u64::from(pid), 1);
        path.push(b"_").push_timestamp(local_seconds + ahead).push(b"_ascend");
        match sys::mkdir(path.as_c_str()) {
            Ok(()) => {
                path.push(b"/").push(SPOOL_DIRECTORY.as_bytes());
                return sys::mkdir(path.as_c_str());
            }
            Err(Errno::EEXIST) => {}
            Err(error) => {
                last = error;
                break;
            }
        }
    }
    Err(last)
}

/// Reserves a range of a file so that storing into a mapping of it cannot fail.
pub(crate) fn reserve(descriptor: sys::Fd, offset: u64, length: usize) -> Result<(), Errno> {
    SpoolFile::may_grow_to(offset + length as u64)?;
    match sys::fallocate(descriptor, offset, length as u64) {
        // Some file systems cannot reserve; written zeroes are reserved too.
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            const ZEROES: [u8; 4096] = [0; 4096];
            let mut written = 0;
            while written < length {
                match sys::write_at(descriptor, &ZEROES, offset + written as u64)? {
                    0 => return Err(Errno::ENOSPC),
                    count => written += count,
                }
            }
            Ok(())
        }
        answer => answer,
    }
}

fn copy(to: &mut [u8], from: &[u8]) -> u32 {
    let length = from.len().min(to.len());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    length as u32
}

/// The command line, its zero separators turned into spaces.
fn read_command(into: &mut [u8]) -> u32 {
    let Ok(file) = sys::open(c"/proc/self/cmdline", sys::O_RDONLY) else { return 0 };
    let length = sys::read(file, into).unwrap_or(0);
    sys::close(file);
    let text = into.get_mut(..length).unwrap_or_default();
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    for byte in text.iter_mut().filter(|byte| **byte == 0) {
        *byte = b' ';
    }
    end as u32
}

impl Process {
    pub(crate) fn header(&self) -> &ProcessHeader {
        // SAFETY: set before `STATE_RECORDING` is published; callers hold a process in that state.
        unsafe { &*self.header.load(Acquire) }
    }

    fn files(&self) -> &Files {
        // SAFETY: written before `STATE_RECORDING` is published; callers hold a process in that state.
        unsafe { &*self.files.get() }
    }

    /// Maps window `number`, reserving its place in the file.
    pub(crate) fn map_window(&self, number: u32) -> Result<NonNull<u8>, Errno> {
        if self.is_stopped() {
            return Err(Errno::ENOSPC);
        }
        let offset = PROCESS_HEADER_SIZE as u64 + u64::from(number) * WINDOW_SIZE as u64;
        let cap = config().size_cap;
        if cap != 0 && offset + WINDOW_SIZE as u64 + self.header().appended.load(Relaxed) > cap {
            self.stop(StopReason::SizeCap, Errno(0));
            return Err(Errno::ENOSPC);
        }
        let descriptor = self.files().windows.descriptor()?;
        reserve(descriptor, offset, WINDOW_SIZE)?;
        let window = sys::map_file(descriptor, offset, WINDOW_SIZE)?;
        self.header().windows.fetch_max(number + 1, AcqRel);
        Ok(window)
    }

    /// Appends one block with a single `write`; a short write leaves a torn block that readers recognise.
    ///
    /// # Safety
    /// `block` must be readable for `length` bytes.
    pub(crate) unsafe fn append(&self, block: *const u8, length: usize) -> Result<(), ()> {
        if self.is_stopped() {
            return Err(());
        }
        let header = self.header();
        let size = header.appended.fetch_add(length as u64, AcqRel) + length as u64;
        let windows = u64::from(header.windows.load(Relaxed)) * WINDOW_SIZE as u64 + PROCESS_HEADER_SIZE as u64;
        let cap = config().size_cap;
        if cap != 0 && size + windows > cap {
            self.stop(StopReason::SizeCap, Errno(0));
            return Err(());
        }
        if let Err(error) = SpoolFile::may_grow_to(size) {
            self.stop(StopReason::WriteFailed, error);
            return Err(());
        }
        let descriptor = self.files().events.descriptor();
        let answer = descriptor.and_then(|descriptor| {
            loop {
                // SAFETY: the caller vouches for the range.
                match unsafe { sys::write(descriptor, block, length) } {
                    Err(Errno::EINTR) => {}
                    answer => return answer,
                }
            }
        });
        match answer {
            Ok(written) if written == length => Ok(()),
            Ok(_) => {
                self.stop(StopReason::WriteFailed, Errno::ENOSPC);
                Err(())
            }
            Err(error) => {
                self.stop(StopReason::WriteFailed, error);
                Err(())
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Ends the recording of this process; the first reason stands.
    pub(crate) fn stop(&self, reason: StopReason, error: Errno) {
        let (reason, error) = match error {
            Errno::SANDBOX => (StopReason::Sandbox, Errno(0)),
            _ => (reason, error),
        };
        if !self.stopped.swap(true, AcqRel) {
            let header = self.header();
            header.stop_errno.store(error.0 as u32, Relaxed);
            header.stop_reason.store(reason as u32, Release);
        }
    }

    /// Pairs ticks and time anew and writes the pair down.
    pub(crate) fn calibrate(&self) -> Calibration {
        self.tick_line.calibrate(self.clock, self.header())
    }

    /// Adds to what the header says about the recording as a whole.
    pub(crate) fn note(&self, bits: u32) {
        self.header().notes.fetch_or(bits, Relaxed);
    }

    pub(crate) fn lose_without_window(&self, events: u64) {
        self.header().lost_without_window.fetch_add(events, Relaxed);
    }
}

/// A note bit for the header, by what the interpreter turned out to be.
pub(crate) const PYTHON_READ: u32 = notes::PYTHON_READ;
pub(crate) const PYTHON_UNKNOWN: u32 = notes::PYTHON_UNKNOWN;
