//! A lane's window and the encoder's position in it.
use crate::clock::{self, Calibration};
use crate::process::Process;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence};
use memscope_format::encode::{self, Deltas, Extended, MAX_EVENT, MAX_NODE, NodeDeltas};
use memscope_format::layout::{
    self, ClockKind, StopReason, WINDOW_HEADER_SIZE, WINDOW_MAGIC, WINDOW_SIZE, WindowHeader,
};
use memscope_format::record::StackRef;
use memscope_stack::{CodeDefinition, DefinitionSink, Frame, ModuleDefinition, NodeId};
use memscope_sys::Errno;

/// What every event touches is in the first cache lines: between two events the program has used the cache for itself.
#[repr(C)]
pub(crate) struct Writer {
    /// Where the next record goes, and the last place where one may begin. In zeroed memory, and once recording has
    /// stopped, `limit` is 0 and no record ever begins.
    cursor: usize,
    limit: usize,
    pub(crate) last: Deltas,
    /// When ticks and time were paired last, and for how many ticks this holds.
    calibrated: u64,
    calibration_lasts: u64,
    window: *mut WindowHeader,
    events: u64,
    generation: u32,
    pub(crate) clock: ClockKind,
    /// The newest generation that is in the spool file.
    appended: u32,
    /// Whose events the next generation's are.
    thread: u32,
    /// A pair that is older than the generation at hand: see `begin_generation`.
    calibration: Calibration,
    process: *const Process,
    last_node: NodeDeltas,
}

impl Writer {
    /// Takes a freshly mapped window. In place, because a writer is too large for the stack of any thread.
    ///
    /// # Safety
    /// `self` is zeroed memory.
    pub(crate) unsafe fn open(&mut self, process: &'static Process, window: NonNull<u8>, lane: u32, thread: u32) {
        self.clock = process.clock;
        self.window = window.as_ptr().cast();
        self.thread = thread;
        self.calibration = process.calibrate();
        self.calibrated = self.calibration.counter();
        self.calibration_lasts = FIRST_CALIBRATION;
        self.process = process;
        // SAFETY: the mapping is fresh and ours; its pages are zero.
        unsafe {
            (*self.window).magic = WINDOW_MAGIC;
            (*self.window).lane = lane;
        }
        self.begin_generation();
    }

    /// Whether an event can be encoded right away.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.cursor.wrapping_sub(1) < self.limit
    }

    /// Whether ticks and time are to be paired again before an event of this time: after a while, and at once if the
    /// counter was set back.
    #[inline(always)]
    pub(crate) fn is_calibration_due(&self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.calibrated) >= self.calibration_lasts
    }

    /// Pairs ticks and time again, at doubling distances: a short run gets its rate early, a long one stays on time.
    /// `ticks` are the counter's now.
    #[cold]
    pub(crate) fn calibrate(&mut self, ticks: u64) {
        // SAFETY: the process outlives its lanes.
        let now = unsafe { (*self.process).calibrate() };
        self.calibration_lasts = (self.calibration_lasts * 2).min(LONGEST_CALIBRATION);
        self.calibrated = ticks;
        if ticks == 0 {
            // The clock is a system call, and the program forbids it: there is no time to give to an event.
            self.close();
            // SAFETY: the process outlives its lanes.
            unsafe { (*self.process).stop(StopReason::Sandbox, Errno::SANDBOX) };
            return;
        }
        if now.offset != self.calibration.offset {
            // The counter was set back: its ticks count from another place, which is a new generation's header to say.
            self.make_room(WINDOW_SIZE);
        }
    }

    /// Makes room for an event; `false` if recording has stopped.
    pub(crate) fn make_ready(&mut self) -> bool {
        self.is_ready() || (self.limit != 0 && self.flush())
    }

    #[inline(always)]
    pub(crate) fn host_alloc(&mut self, ticks: u64, address: u64, size: u64, stack: StackRef) {
        // SAFETY: the caller saw `is_ready`, so the window has `MAX_EVENT` bytes left.
        let end = unsafe { encode::host_alloc(self.cursor as *mut u8, &mut self.last, ticks, address, size, stack) };
        self.events += 1;
        self.commit(end);
    }

    #[inline(always)]
    pub(crate) fn host_free(&mut self, ticks: u64, address: u64, stack: StackRef) {
        // SAFETY: the caller saw `is_ready`, so the window has `MAX_EVENT` bytes left.
        let end = unsafe { encode::host_free(self.cursor as *mut u8, &mut self.last, ticks, address, stack) };
        self.events += 1;
        self.commit(end);
    }

    /// Writes an event that is an extended record; counts it as lost if it finds no room.
    pub(crate) fn extended_event(&mut self, ticks: u64, record: &Extended<'_>) {
        self.extended_events(ticks, record, 1);
    }

    /// The same for a record that holds several events.
    pub(crate) fn extended_events(&mut self, ticks: u64, record: &Extended<'_>, events: u64) {
        if self.extended(ticks, record) {
            self.events += events;
        } else {
            self.lose(events);
        }
    }

    /// Writes a record that later ones refer to.
    pub(crate) fn definition(&mut self, ticks: u64, record: &Extended<'_>) {
        self.extended(ticks, record);
    }

    pub(crate) fn thread(&mut self, thread: u32) {
        self.extended(self.last.ticks, &Extended::Thread(thread));
    }

    /// Writes a record that is no event.
    fn extended(&mut self, ticks: u64, record: &Extended<'_>) -> bool {
        if !self.make_room(record.room()) {
            return false;
        }
        // SAFETY: the window has the room the record asks for; a fresh one always does.
        let end = unsafe { encode::extended(self.cursor as *mut u8, &mut self.last, ticks, record) };
        self.commit(end);
        true
    }

    /// Makes room for a record, which then goes into the generation at hand; `false` if recording has stopped.
    pub(crate) fn make_room(&mut self, room: usize) -> bool {
        self.limit != 0 && (self.end() - self.cursor >= room || self.flush())
    }

    /// Of the records written next.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Counts events that could not be recorded.
    #[cold]
    pub(crate) fn lose(&self, events: u64) {
        // SAFETY: the window stays mapped for the life of the process; only the lane's thread changes the count.
        let lost: &AtomicU64 = unsafe { &(*self.window).lost };
        lost.store(lost.load(Relaxed) + events, Release);
    }

    /// Whether recording has not stopped.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.limit != 0
    }

    /// No record ever begins again; what is written stays.
    pub(crate) fn close(&mut self) {
        self.limit = 0;
    }

    /// Publishes everything up to `end`: one release store, after which a kill loses none of it.
    #[inline(always)]
    fn commit(&mut self, end: *mut u8) {
        self.cursor = end as usize;
        let committed = (self.cursor - self.payload()) as u64;
        // SAFETY: the window stays mapped for the life of the process.
        unsafe { (*self.window).progress.store(u64::from(self.generation) << 32 | committed, Release) };
    }

    fn payload(&self) -> usize {
        self.window as usize + WINDOW_HEADER_SIZE
    }

    fn end(&self) -> usize {
        self.window as usize + WINDOW_SIZE
    }

    /// Appends the window to the spool and begins the next generation. Also called for a dead thread's lane by the
    /// thread that takes it over.
    #[cold]
    pub(crate) fn flush(&mut self) -> bool {
        let length = self.cursor - self.window as usize;
        let window = self.window;
        // SAFETY: the window is mapped and, until the generation is bumped, changed by nobody; header and committed
        // payload are `length` bytes. The process outlives its lanes.
        let appended = unsafe {
            let header = window.cast::<[u8; 56]>().read();
            let payload = core::slice::from_raw_parts(self.payload() as *const u8, length - WINDOW_HEADER_SIZE);
            ptr::addr_of_mut!((*window).checksum).write(layout::checksum(&header, payload));
            (*self.process).append(window.cast::<u8>(), length)
        };
        if appended.is_err() {
            self.limit = 0;
            return false;
        }
        self.appended = self.generation;
        // For `recover`.
        compiler_fence(SeqCst);
        self.begin_generation();
        true
    }

    /// After a jump out of this code: goes back to what is published, and begins a generation behind it, whose records
    /// refer to nothing before it.
    pub(crate) fn recover(&mut self) {
        // SAFETY: the window stays mapped for the life of the process.
        let progress = unsafe { (*self.window).progress.load(Relaxed) };
        let published = (progress >> 32) as u32;
        if self.limit == 0 {
            return;
        }
        self.cursor = self.payload() + (progress & 0xffff_ffff) as usize;
        self.generation = published;
        if self.appended == published {
            // Left on the way to the next generation: the window's header may be half that one's.
            self.begin_generation();
        } else {
            self.flush();
        }
    }

    /// Says whose events follow, in a lane whose thread has gone.
    pub(crate) fn change_thread(&mut self, thread: u32) {
        self.thread(thread);
        // From the next generation on the header says it. This one's header keeps naming the thread it began with, whose
        // events stand before the record.
        self.thread = thread;
    }

    /// The base is the calibration taken when the last generation began, not one of this moment: the free of a realloc
    /// is stamped with a time before the call, and must keep it if the window is turned over in between.
    fn begin_generation(&mut self) {
        // SAFETY: the process outlives its lanes.
        let now = unsafe { (*self.process).calibrate() };
        let mut base = core::mem::replace(&mut self.calibration, now);
        if base.offset != now.offset {
            base = now;
        }
        self.generation += 1;
        self.last = Deltas::at(base.counter());
        self.last_node.forget();
        // SAFETY: the window is mapped and the lane is ours. A reader takes the new fields only with the new
        // generation, which the release store publishes last; until then the appended block stands for the old one.
        unsafe {
            (*self.window).thread = self.thread;
            (*self.window).base_ticks = base.ticks;
            (*self.window).base_monotonic_ns = base.monotonic_ns;
            (*self.window).earlier_events = self.events;
            (*self.window).checksum = 0;
        }
        self.limit = self.end() - MAX_EVENT;
        self.commit(self.payload() as *mut u8);
    }
}

/// In ticks: about a millisecond and about a second of a 2.5 GHz counter.
const FIRST_CALIBRATION: u64 = 2_500_000 >> clock::SHIFT;
const LONGEST_CALIBRATION: u64 = 2_500_000_000 >> clock::SHIFT;

impl DefinitionSink for Writer {
    fn module(&mut self, module: &ModuleDefinition<'_>) {
        let ModuleDefinition { id, start, end, bias, path, build_id } = *module;
        self.extended(self.last.ticks, &Extended::Module { id, start, end, bias, build_id, path });
    }

    fn code(&mut self, code: &CodeDefinition<'_>) {
        let CodeDefinition { id, python_version, first_line, file, function, line_table } = *code;
        let record = Extended::Code { id, python_version, first_line, file, function, line_table };
        self.extended(self.last.ticks, &record);
    }

    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame) {
        if !self.make_room(MAX_NODE) {
            return;
        }
        // SAFETY: the window has room for a node; a fresh one always does.
        let end = unsafe { encode::node(self.cursor as *mut u8, &mut self.last_node, id.0, parent.0, frame) };
        self.commit(end);
    }
}
