//! One recording per process image, and one per forked child.
use crate::claims::Claims;
use crate::clock::{self, Calibration, TickLine};
use crate::config::{self, Config, Wanted};
use crate::control;
use crate::device::Devices;
use crate::equipment::Batches;
use crate::files::{SpoolFile, Stray};
use crate::forks;
use crate::keeper;
use crate::kernel::Kernels;
use crate::lane::Lane;
use crate::lanes::Lanes;
use crate::slot::{self, Guard};
use crate::stacks;
use crate::start::start;
use crate::threads;
use crate::watch;
use crate::windows::FreeWindows;
use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use memscope_format::keeper::Reason;
use memscope_format::layout::{
    self, CONFIG_CAPACITY, CalibrationSlot, ClockKind, PATH_CAPACITY, ProcessHeader, StopReason, notes,
};
use memscope_sys::{self as sys, Clock, Errno, Part, clock_ns};

/// What all lanes of a process share. Lives in memory that a forked child finds zeroed: a process that has not begun.
pub(crate) struct Process {
    /// A [`State`].
    state: AtomicU32,
    /// Whose memory this is: not the process's that runs in it after `vfork`. 0 in a forked child nobody has told yet.
    home: AtomicU32,
    /// When the attempt under way began, and that somebody has waited for it in vain.
    starting_ns: AtomicU64,
    impatient: AtomicBool,
    /// Events lost before there was a header to count them.
    unstarted: AtomicU64,
    attempts: [UnsafeCell<Attempt>; State::ATTEMPTS],
    pub(crate) lanes: Lanes,
    pub(crate) lane_count: AtomicU32,
    /// Where the search for a lane without a thread goes on.
    pub(crate) hand: AtomicU32,
    /// How many events go by before a lane is tried to be made again, and how many after the next failure.
    lane_pause: AtomicU32,
    next_lane_pause: AtomicU32,
    pub(crate) free_windows: FreeWindows,
    pub(crate) batches: Batches,
    pub(crate) claims: Claims,
    stopped: AtomicBool,
    tick_line: TickLine,
    pub(crate) kernels: Kernels,
    pub(crate) devices: Devices,
    pub(crate) watches: watch::Table,
    /// The word of the header in which the keeper says that there are filters which are not known here; null before there is one.
    filters_counted: AtomicPtr<AtomicU32>,
}

// SAFETY: an attempt is written by the thread that claimed it and by nobody after it is published; a lane belongs to its
// owner, which is atomic.
unsafe impl Sync for Process {}

/// One attempt at a start. There is a second if the first was left by a jump, or takes for ever.
pub(crate) struct Attempt {
    pub(crate) files: Files,
    pub(crate) header: *mut ProcessHeader,
    pub(crate) clock: ClockKind,
}

pub(crate) struct Files {
    pub(crate) windows: SpoolFile,
    pub(crate) events: SpoolFile,
}

/// How far a start is: one word, changed by whoever the exchange lets.
///
/// ```text
///  31                      5 4       2 1    0
/// ┌─────────────────────────┬─────────┬──────┐
/// │ thread that starts      │ attempt │ kind │
/// └─────────────────────────┴─────────┴──────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u32);

impl State {
    const NEW: State = State(0);
    const FAILED: State = State(3);
    const KIND: u32 = 3;
    const STARTING: u32 = 1;
    const RECORDING: u32 = 2;
    const ATTEMPT_SHIFT: u32 = 2;
    const THREAD_SHIFT: u32 = 5;
    const ATTEMPTS: usize = 4;

    /// Thread numbers have 22 bits.
    fn starting(thread: u32, attempt: u32) -> State {
        State(thread << State::THREAD_SHIFT | attempt << State::ATTEMPT_SHIFT | State::STARTING)
    }

    fn recording(self) -> State {
        State(self.0 & !State::KIND | State::RECORDING)
    }

    fn is_starting(self) -> bool {
        self.0 & State::KIND == State::STARTING
    }

    fn is_recording(self) -> bool {
        self.0 & State::KIND == State::RECORDING
    }

    fn attempt(self) -> u32 {
        self.0 >> State::ATTEMPT_SHIFT & 7
    }

    fn thread(self) -> u32 {
        self.0 >> State::THREAD_SHIFT
    }
}

/// The image: what `exec` made. Survives fork unchanged, so a child needs neither environment nor `dlsym`.
struct Image {
    /// One of the four below.
    state: AtomicU32,
    config: UnsafeCell<Config>,
    process: AtomicPtr<Process>,
}

const IMAGE_NEW: u32 = 0;
const IMAGE_PREPARING: u32 = 1;
const IMAGE_READY: u32 = 2;
const IMAGE_FAILED: u32 = 3;

// SAFETY: `config` is written once, by the thread that moved `state` from new to preparing, before it publishes
// `IMAGE_READY` with release; everybody else reads it after an acquire load of that value.
unsafe impl Sync for Image {}

static IMAGE: Image = Image {
    state: AtomicU32::new(IMAGE_NEW),
    config: UnsafeCell::new(Config::empty()),
    process: AtomicPtr::new(ptr::null_mut()),
};

/// From the library's constructor: reads the settings and finds the interpreter while the program is still alone.
pub fn initialise() {
    let mark = slot::MARK_WORD;
    if let Some(_guard) = Guard::enter_at(&mark) {
        image_is_ready();
    }
}

/// What came of [`begin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    Begun,
    /// The settings were known before: those stand.
    AlreadyBegun,
    /// The settings cannot be read, or the kernel is too old.
    Refused,
}

/// Begins in a process that runs already, and whose environment said nothing.
pub fn begin(settings: &[u8]) -> Beginning {
    let mark = slot::MARK_WORD;
    // Without the guard the call comes from within a hook: nobody begins there.
    let Some(_guard) = Guard::enter_at(&mark) else { return Beginning::Refused };
    if image_is_ready() {
        return Beginning::AlreadyBegun;
    }
    let Some(config) = Config::parse(settings) else { return Beginning::Refused };
    if IMAGE.state.compare_exchange(IMAGE_FAILED, IMAGE_PREPARING, AcqRel, Acquire).is_err() {
        return Beginning::Refused;
    }
    let prepared = prepare_image(config);
    IMAGE.state.store(if prepared { IMAGE_READY } else { IMAGE_FAILED }, Release);
    sys::wake_all(&IMAGE.state);
    if prepared { Beginning::Begun } else { Beginning::Refused }
}

/// From the library's destructor: notes a regular end. Later events are still recorded.
pub fn process_ends() {
    if let Some(process) = current().or_else(begun_to_say_what_is_lost) {
        process.calibrate();
        process.header().state.store(layout::STATE_ENDED, Release);
    }
}

/// The recording of a process that had no event of its own, while some of a `vfork` child were counted in its memory.
fn begun_to_say_what_is_lost() -> Option<&'static Process> {
    page().filter(|process| process.unstarted.load(Relaxed) > 0)?;
    let mark = slot::MARK_WORD;
    let _guard = Guard::enter_at(&mark)?;
    ensure()
}

/// As if the image were new, for the next schedule.
#[cfg(all(test, feature = "model"))]
pub(crate) fn forget_image() {
    image_is_ready();
    forks::close_all_inherited();
    sys::sandbox::heed_nothing();
    if let Some(page) = core::ptr::NonNull::new(IMAGE.process.swap(ptr::null_mut(), AcqRel)) {
        // SAFETY: the schedule that used it is over.
        unsafe { sys::unmap(page.cast(), size_of::<Process>().next_multiple_of(4096)) };
    }
    IMAGE.state.store(IMAGE_FAILED, Release);
}

/// Unmaps the windows of all lanes and the header: the schedule is over.
#[cfg(all(test, feature = "model"))]
pub(crate) fn release_windows() {
    let Some(process) = page() else { return };
    process.filters_counted.store(ptr::null_mut(), Release);
    for number in 0..process.lane_count.load(Relaxed) {
        if let Some(lane) = process.lanes.get(number) {
            // SAFETY: nobody uses it any more.
            unsafe { (*lane.as_ptr()).release_window() };
        }
    }
    if let Some(header) = core::ptr::NonNull::new(process.attempt().header) {
        // SAFETY: as above.
        unsafe { sys::unmap(header.cast(), memscope_format::layout::PROCESS_HEADER_SIZE) };
    }
}

/// The process's page, once the image has one.
fn page() -> Option<&'static Process> {
    // SAFETY: mapped for the rest of the process's life once published.
    unsafe { IMAGE.process.load(Acquire).as_ref() }
}

/// The process's recording, started if this is its first event; `None` if there is nothing to record into.
#[cold]
pub(crate) fn ensure() -> Option<&'static Process> {
    if !image_is_ready() {
        return None;
    }
    let process = page()?;
    loop {
        let state = State(process.state.load(Acquire));
        if state.is_recording() {
            return Some(process);
        }
        // After vfork the memory is the parent's and the descriptors are not: nothing is begun there. Nor without a clock.
        if state == State::FAILED || clock::is_gone() || !process.is_at_home() {
            return None;
        }
        let thread = threads::current();
        if state.is_starting() && state.thread() != thread {
            match process.wait_for_start(state) {
                Patience::Look => continue,
                Patience::GiveUp => return None,
                Patience::StartOver => {}
            }
        }
        // Our own attempt that we find under way was left by a jump: the guard keeps us from coming here twice.
        let attempt = if state == State::NEW { 0 } else { state.attempt() + 1 };
        let Some(place) = process.attempts.get(attempt as usize) else {
            process.turn(state, State::FAILED);
            continue;
        };
        let starting = State::starting(thread, attempt);
        if process.turn(state, starting) {
            process.starting_ns.store(clock_ns(Clock::Monotonic), Relaxed);
            process.impatient.store(false, Relaxed);
            // SAFETY: nothing of the parent's is in use in a child that begins; no lane of this process exists.
            unsafe { forks::leave_parent() };
            // SAFETY: the exchange made the attempt ours alone.
            let started = unsafe { start(place.get(), process.home()) };
            let done = if started.is_ok() { starting.recording() } else { State::FAILED };
            // SAFETY: ours alone until it is published; a header stays mapped.
            if let Some(header) = unsafe { (*place.get()).header.as_ref() } {
                process.filters_counted.store(ptr::from_ref(&header.filters_counted).cast_mut(), Release);
            }
            // Unless somebody has lost patience and begun another attempt: then that one counts.
            if process.turn(starting, done) && done.is_recording() {
                process.lose_without_window(process.unstarted.swap(0, Relaxed));
            }
        }
    }
}

/// What to do about somebody else's start.
enum Patience {
    /// It has changed.
    Look,
    GiveUp,
    StartOver,
}

/// The process's recording if it has begun.
pub(crate) fn current() -> Option<&'static Process> {
    page().filter(|process| State(process.state.load(Acquire)).is_recording())
}

/// Counts events lost on a thread that has no lane.
pub(crate) fn lose(events: u64) {
    if let Some(process) = current() {
        process.lose_without_window(events);
    } else if let Some(process) = page() {
        process.unstarted.fetch_add(events, Relaxed);
    }
}

/// Tells the process's memory, in a child that fork has just made, whose it is.
pub(crate) fn is_forked() {
    if let Some(process) = page() {
        process.home.store(sys::getpid(), Relaxed);
    }
}

/// How many lanes the process has.
pub(crate) fn lane_count() -> u32 {
    page().map_or(0, |process| process.lane_count.load(Relaxed))
}

/// In such a child: this lane, one of so many of its parent's, and those before it are not used, because something may come back to one
/// of them.
pub(crate) fn leave_out_lanes_to(lane: *const Lane, parents: u32) {
    if let Some(process) = page() {
        let number = process.lanes.number_of(lane, parents);
        process.lane_count.store(number.map_or(0, |number| number + 1), Relaxed);
    }
}

/// Has the keeper name a program that begins here without our libraries.
pub(crate) fn tell_of_program(reason: Reason, errno: Errno, program: &[u8]) {
    if image_is_ready() {
        keeper::tell_of_program(config(), reason, errno, program);
    }
}

pub(crate) fn config() -> &'static Config {
    // SAFETY: only called when the image is ready; see `Image`.
    unsafe { &*IMAGE.config.get() }
}

/// Whether host memory is to be recorded.
#[inline]
pub(crate) fn records_host() -> bool {
    image_is_ready() && config().host
}

/// What is to be watched; `None` if nothing is recorded.
pub(crate) fn watch_spec() -> Option<&'static watch::Spec> {
    image_is_ready().then(|| &config().watch)
}

/// What besides memory is to be recorded; nothing if nothing is.
pub fn wanted() -> Wanted {
    if image_is_ready() { config().wanted } else { Wanted::NOTHING }
}

/// Whether host memory is recorded.
pub fn is_host_wanted() -> bool {
    image_is_ready() && config().host
}

fn image_is_ready() -> bool {
    /// Preparing takes microseconds, and happens when there is one thread. One that was left by a jump never ends.
    const PATIENCE_MS: u64 = 200;
    match IMAGE.state.load(Acquire) {
        IMAGE_READY => return true,
        IMAGE_FAILED => return false,
        _ => {}
    }
    match IMAGE.state.compare_exchange(IMAGE_NEW, IMAGE_PREPARING, AcqRel, Acquire) {
        Ok(_) => {
            clock::initialise();
            let prepared = config::from_environment().is_some_and(prepare_image);
            let state = if prepared { IMAGE_READY } else { IMAGE_FAILED };
            IMAGE.state.store(state, Release);
            sys::wake_all(&IMAGE.state);
        }
        Err(IMAGE_PREPARING) => {
            wait(&IMAGE.state, IMAGE_PREPARING, PATIENCE_MS);
            // Nobody waits a second time.
            let _ = IMAGE.state.compare_exchange(IMAGE_PREPARING, IMAGE_FAILED, AcqRel, Acquire);
        }
        Err(_) => {}
    }
    IMAGE.state.load(Acquire) == IMAGE_READY
}

/// Sleeps while `word` is `value`, so many milliseconds at most.
fn wait(word: &AtomicU32, value: u32, milliseconds: u64) {
    const MILLISECOND: u64 = 1_000_000;
    let end = clock_ns(Clock::Monotonic) + milliseconds * MILLISECOND;
    while word.load(Acquire) == value {
        let Some(left) = end.checked_sub(clock_ns(Clock::Monotonic)) else { return };
        sys::wait_while(word, value, left);
    }
}

fn prepare_image(config: Config) -> bool {
    let size = size_of::<Process>().next_multiple_of(4096);
    let Ok(page) = sys::map_anonymous(size) else { return false };
    // Without this a child would write into its parent's windows: rather record nothing (kernels before 4.14).
    if let Err(error) = sys::wipe_on_fork(page, size) {
        keeper::tell_not_recorded(&config, Reason::OldKernel, error);
        return false;
    }
    // Also without stacks: whether a hook was left by a jump is asked of the stack.
    stacks::initialise(config.python_depth > 0);
    if config.python_depth > 0 {
        forget_loader_errors();
    }
    if config.deferred {
        control::defer();
    }
    if config.watch.has_start() {
        watch::expect_start();
    }
    // SAFETY: we are the one thread between `IMAGE_NEW` and the published state; the page is ours, zeroed and large
    // enough.
    unsafe {
        *IMAGE.config.get() = config;
        (*page.cast::<Process>().as_ptr()).home.store(sys::getpid(), Relaxed);
    }
    let process = page.as_ptr().cast::<Process>();
    // SAFETY: mapped for the rest of the process's life.
    sys::sandbox::heed(unsafe { &(*process).filters_counted });
    IMAGE.process.store(process, Release);
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

/// What stands in for a header where there is none: in the memory of a forked child that returns from a signal handler
/// into the recorder.
struct NoHeader(ProcessHeader);

// SAFETY: what changes in it is atomic.
unsafe impl Sync for NoHeader {}

static NO_HEADER: NoHeader = NoHeader(ProcessHeader {
    magic: [0; 8],
    version: 0,
    header_size: 0,
    window_size: 0,
    clock_kind: 0,
    clock_shift: 0,
    pid: 0,
    parent_pid: 0,
    python_version: AtomicU32::new(0),
    run_id: 0,
    start_ticks: 0,
    start_monotonic_ns: 0,
    start_realtime_ns: 0,
    state: AtomicU32::new(0),
    stop_reason: AtomicU32::new(0),
    stop_errno: AtomicU32::new(0),
    window_pages: AtomicU32::new(0),
    lost_without_window: AtomicU64::new(0),
    appended: AtomicU64::new(0),
    calibrations: AtomicU64::new(0),
    calibration_slots: [const { CalibrationSlot { ticks: AtomicU64::new(0), monotonic_ns: AtomicU64::new(0) } }; 2],
    notes: AtomicU32::new(0),
    config_length: 0,
    executable_length: 0,
    command_length: 0,
    config: [0; CONFIG_CAPACITY],
    executable: [0; PATH_CAPACITY],
    command: [0; PATH_CAPACITY],
    strays: AtomicU32::new(0),
    strays_left: AtomicU32::new(0),
    filters_inherited: AtomicU32::new(0),
    filters_known: AtomicU32::new(0),
    filters_counted: AtomicU32::new(0),
});

/// Why a spool block is not in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AppendError {
    /// It may be tried again.
    Passing,
    /// The recording has ended.
    Final,
}

impl Process {
    /// The attempt that succeeded, or the first.
    fn attempt(&self) -> &Attempt {
        let [first, ..] = &self.attempts;
        let place = self.attempts.get(State(self.state.load(Acquire)).attempt() as usize).unwrap_or(first);
        // SAFETY: written before the state says so; zeroes before that.
        unsafe { &*place.get() }
    }

    pub(crate) fn header(&self) -> &ProcessHeader {
        // SAFETY: null, or mapped for the rest of the process's life.
        unsafe { self.attempt().header.as_ref() }.unwrap_or(&NO_HEADER.0)
    }

    pub(crate) fn files(&self) -> &Files {
        &self.attempt().files
    }

    pub(crate) fn clock(&self) -> ClockKind {
        self.attempt().clock
    }

    /// Whether the calling thread is one of the process this memory belongs to: after `vfork` it is not, and would leave a
    /// lane of its parent's thread to whoever looks for one without a thread.
    pub(crate) fn is_at_home(&self) -> bool {
        let pid = sys::getpid();
        match self.home.load(Relaxed) {
            // A child of a fork that we were not told of.
            0 => {
                self.home.store(pid, Relaxed);
                true
            }
            home => home == pid,
        }
    }

    /// Whose memory this is.
    pub(crate) fn home(&self) -> u32 {
        self.home.load(Relaxed)
    }

    /// Whether one of the process's threads has this number.
    pub(crate) fn has_thread(&self, thread: u32) -> bool {
        threads::exists(self.home(), thread)
    }

    fn turn(&self, from: State, to: State) -> bool {
        let turned = self.state.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok();
        if turned {
            sys::wake_all(&self.state);
        }
        turned
    }

    /// Another thread is creating the files: a matter of microseconds on a local disk. Whoever has waited in vain
    /// loses events instead, and so does everybody after it, until the start ends; a thread that is gone, or takes
    /// seconds, is not waited for at all.
    fn wait_for_start(&self, state: State) -> Patience {
        const PATIENCE_MS: u64 = 100;
        const LONGEST_NS: u64 = 30_000_000_000;
        if !self.impatient.load(Relaxed) {
            wait(&self.state, state.0, PATIENCE_MS);
        }
        if self.state.load(Acquire) != state.0 {
            return Patience::Look;
        }
        self.impatient.store(true, Relaxed);
        let began = self.starting_ns.load(Relaxed);
        let takes_ever = began != 0 && clock_ns(Clock::Monotonic).saturating_sub(began) > LONGEST_NS;
        if takes_ever || !self.has_thread(state.thread()) { Patience::StartOver } else { Patience::GiveUp }
    }

    /// Whether an event may try to make a lane: after a failure many go by before the next does, for what cannot be had
    /// now may be missed by the program itself.
    pub(crate) fn may_try_lane(&self) -> bool {
        let left = self.lane_pause.load(Relaxed);
        if left > 0 {
            self.lane_pause.store(left - 1, Relaxed);
        }
        left == 0
    }

    pub(crate) fn tried_lane(&self, made: bool) {
        const LONGEST_PAUSE: u32 = 1 << 16;
        let pause = if made { 0 } else { self.next_lane_pause.load(Relaxed).max(8) };
        self.lane_pause.store(pause, Relaxed);
        self.next_lane_pause.store((pause * 2).min(LONGEST_PAUSE), Relaxed);
    }

    /// Appends one spool block with a single `write`; a short write leaves a torn one that readers recognise.
    ///
    /// `home` is whose spool block it is: nothing is appended in a child that a signal handler forked in the middle of
    /// this.
    ///
    /// # Safety
    /// The parts must be readable.
    pub(crate) unsafe fn append(&self, home: u32, spool_block: &[Part; 2]) -> Result<(), AppendError> {
        let length: usize = spool_block.iter().map(|part| part.length).sum();
        if self.is_stopped() {
            return Err(AppendError::Final);
        }
        let length = length as u64;
        let Ok(size) = self.claims.claim_spool(length) else {
            self.stop(StopReason::SizeCap, Errno(0));
            return Err(AppendError::Final);
        };
        if let Err(error) = SpoolFile::may_grow_to(size) {
            self.stop(StopReason::WriteFailed, error);
            return Err(AppendError::Final);
        }
        if self.home() != home {
            return Err(AppendError::Final);
        }
        // SAFETY: the caller vouches for the parts.
        match unsafe { self.files().events.append(spool_block, |stray| self.strayed(stray)) } {
            Ok(()) => {
                self.header().appended.fetch_add(length, AcqRel);
                Ok(())
            }
            // Others hold all descriptors or all memory now.
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EAGAIN | Errno::EINTR) => {
                self.claims.release_spool(length);
                Err(AppendError::Passing)
            }
            Err(error) => {
                self.stop(StopReason::WriteFailed, error);
                Err(AppendError::Final)
            }
        }
    }

    /// Bytes of ours went into a file of the program.
    pub(crate) fn strayed(&self, stray: Stray) {
        let header = self.header();
        header.strays.fetch_add(1, Relaxed);
        if stray == Stray::Left {
            header.strays_left.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Ends the recording of this process; the first reason stands.
    pub(crate) fn stop(&self, reason: StopReason, error: Errno) {
        let (reason, error) = match error {
            Errno::SANDBOX if sys::sandbox::is_told() => (StopReason::UnknownFilter, Errno(0)),
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
        self.tick_line.calibrate(self.clock(), self.header())
    }

    /// Adds to what the header says about the recording as a whole.
    pub(crate) fn note(&self, bits: u32) {
        self.header().notes.fetch_or(bits, Relaxed);
    }

    /// As [`Process::note`], for what is said again and again: only the first time takes the header from other threads.
    pub(crate) fn note_once(&self, bits: u32) {
        if self.header().notes.load(Relaxed) & bits != bits {
            self.note(bits);
        }
    }

    /// Python was loaded while the process ran.
    pub(crate) fn note_python(&self, version: u32, bits: u32) {
        self.header().python_version.store(version, Relaxed);
        self.note(bits);
    }

    pub(crate) fn lose_without_window(&self, events: u64) {
        self.header().lost_without_window.fetch_add(events, Relaxed);
    }
}

/// A note bit for the header, by what the interpreter turned out to be.
pub(crate) const PYTHON_READ: u32 = notes::PYTHON_READ;
pub(crate) const PYTHON_UNKNOWN: u32 = notes::PYTHON_UNKNOWN;
