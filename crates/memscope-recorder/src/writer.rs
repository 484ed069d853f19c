//! A lane's window and the encoder's position in it.
use crate::clock::{self, Calibration};
use crate::process::{AppendError, Process};
use crate::slot::{self, Progress};
use crate::step;
use crate::windows::{Place, Window};
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use memscope_format::encode::{self, Deltas, Extended, MAX_EVENT, MAX_NODE, NodeDeltas};
use memscope_format::layout::{
    self, ClockKind, LARGEST_WINDOW, StopReason, WINDOW_HEADER_SIZE, WINDOW_MAGIC, WindowHeader, window_bytes,
};
use memscope_format::record::{HostAddr, StackRef};
use memscope_stack::{CallNameDefinition, CodeDefinition, DefinitionSink, Frame, ModuleDefinition, NodeId};
use memscope_sys::{Errno, Part};

/// What every event touches is in the first cache lines: between two events the program has used the cache for itself.
#[repr(C)]
pub(crate) struct Writer {
    /// Where the next record goes, and the last place where one may begin. In zeroed memory, and once recording has
    /// stopped, `limit` is 0 and no record ever begins.
    cursor: usize,
    limit: usize,
    /// What is being done with the lane.
    progress: Progress,
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
    /// The process the lane was made in; in a child of a fork in the middle of this code it is another.
    home: u32,
    /// Null in a lane without stacks.
    nodes: *mut NodeDeltas,
    /// Of the window.
    size: u32,
    /// How many further events are lost before a full window is tried to be appended again, and how many the next time.
    pause: u32,
    next_pause: u32,
    /// See [`Window::is_shared`].
    has_shared_window: bool,
    dropped: bool,
    /// Events lost so far. The window's header repeats it; windows change.
    lost: AtomicU64,
}

impl Writer {
    /// Takes a window.
    ///
    /// # Safety
    /// `self` is zeroed memory; the window is nobody else's, and neither is what `nodes` points to, if it is not null.
    pub(crate) unsafe fn open(
        &mut self,
        process: &'static Process,
        window: Window,
        lane: u32,
        thread: u32,
        nodes: *mut NodeDeltas,
    ) {
        self.clock = process.clock();
        self.thread = thread;
        self.calibration = process.calibrate();
        self.calibrated = self.calibration.counter();
        self.calibration_lasts = FIRST_CALIBRATION;
        self.process = process;
        self.home = process.home();
        self.nodes = nodes;
        self.move_into(window, lane);
        self.begin_generation();
        // In a forked child there may be one from before the fork.
        self.set(Progress::IDLE);
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, progress: Progress) {
        // SAFETY: the word is the writer's own.
        unsafe { progress.store(&raw mut self.progress) };
    }

    pub(crate) fn progress(&self) -> Progress {
        // SAFETY: as above. A signal handler reads what the code that it has interrupted writes.
        unsafe { (&raw const self.progress).read_volatile() }
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
            self.turn_over(MAX_EVENT);
        }
    }

    /// Makes room for an event; `false` if there is none to be had.
    pub(crate) fn make_ready(&mut self) -> bool {
        self.is_ready() || self.turn_over(MAX_EVENT)
    }

    #[inline(always)]
    pub(crate) fn host_alloc(&mut self, ticks: u64, address: HostAddr, size: u64, stack: StackRef) {
        // SAFETY: the caller saw `is_ready`, so the window has `MAX_EVENT` bytes left.
        let end = unsafe { encode::host_alloc(self.cursor as *mut u8, &mut self.last, ticks, address, size, stack) };
        self.commit_events(end, 1, 0);
    }

    /// So many events of the same call are `to_come`.
    #[inline(always)]
    pub(crate) fn host_free(&mut self, ticks: u64, address: HostAddr, stack: StackRef, to_come: u64) {
        // SAFETY: the caller saw `is_ready`, so the window has `MAX_EVENT` bytes left.
        let end = unsafe { encode::host_free(self.cursor as *mut u8, &mut self.last, ticks, address, stack) };
        self.commit_events(end, 1, to_come);
    }

    /// Writes an event that is an extended record; counts it as lost if it finds no room.
    pub(crate) fn extended_event(&mut self, ticks: u64, record: &Extended<'_>) {
        self.extended_events(ticks, record, 1);
    }

    /// The same for one that comes so often that it is encoded where it is written.
    #[inline(always)]
    pub(crate) fn frequent_event(&mut self, ticks: u64, record: &Extended<'_>) {
        if !self.make_room(record.room_in_place()) {
            return self.lose(1);
        }
        // SAFETY: the window has the room the record asks for.
        let end = unsafe { encode::extended_in_place(self.cursor as *mut u8, &mut self.last, ticks, record) };
        self.commit_events(end, 1, 0);
    }

    /// The same for a record that holds several events.
    pub(crate) fn extended_events(&mut self, ticks: u64, record: &Extended<'_>, events: u64) {
        match self.encode_extended(ticks, record) {
            Some(end) => self.commit_events(end, events, 0),
            None => self.lose(events),
        }
    }

    /// Writes a record that later ones refer to.
    pub(crate) fn definition(&mut self, ticks: u64, record: &Extended<'_>) {
        match self.encode_extended(ticks, record) {
            Some(end) => self.commit(end),
            None => self.dropped = true,
        }
    }

    /// Whether a definition found no room since this was asked last: what refers to it must not be written.
    pub(crate) fn has_dropped(&mut self) -> bool {
        core::mem::take(&mut self.dropped)
    }

    /// Says that no later record refers to a node defined so far, so that a reader need not keep them.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_nodes(&mut self) {
        // If it finds no room the reader keeps them, and nothing is lost.
        if let Some(end) = self.encode_extended(self.last.ticks, &Extended::Forget {}) {
            self.commit(end);
        }
    }

    fn encode_extended(&mut self, ticks: u64, record: &Extended<'_>) -> Option<*mut u8> {
        if !self.make_room(record.room()) {
            return None;
        }
        // SAFETY: the window has the room the record asks for.
        Some(unsafe { encode::extended(self.cursor as *mut u8, &mut self.last, ticks, record) })
    }

    /// Makes room for a record, which then goes into the generation at hand; `false` if there is none to be had.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, room: usize) -> bool {
        self.limit != 0 && (self.end() - self.cursor >= room || self.turn_over(room))
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

    /// Of the records written next.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Counts events that could not be recorded. Also from a signal handler that interrupted anything here.
    #[cold]
    pub(crate) fn lose(&self, events: u64) {
        let lost = self.lost.fetch_add(events, Relaxed) + events;
        // SAFETY: a lane in use has a window; only when it has a larger one is the old one unmapped. One that is being made gets to
        // know of it when it has its first.
        if let Some(window) = unsafe { self.window.as_ref() } {
            window.lost.fetch_max(lost, Release);
        }
    }

    /// Where the cursor is as far as a reader can tell.
    pub(crate) fn published(&self) -> usize {
        // SAFETY: as in `lose`.
        let progress = unsafe { (*self.window).progress.load(Relaxed) };
        self.payload() + (progress & 0xffff_ffff) as usize
    }

    /// Publishes everything up to `end`, of which the last record is or holds `events`: one release store, after which a
    /// kill loses none of it.
    #[inline(always)]
    fn commit_events(&mut self, end: *mut u8, events: u64, to_come: u64) {
        self.events += events;
        self.set(Progress::publishing(end as usize, to_come));
        self.commit(end);
    }

    /// The same for a record that is no event.
    #[inline(always)]
    fn commit(&mut self, end: *mut u8) {
        self.cursor = end as usize;
        step::point();
        let committed = (self.cursor - self.payload()) as u64;
        // SAFETY: as in `lose`.
        unsafe { (*self.window).progress.store(u64::from(self.generation) << 32 | committed, Release) };
    }

    #[inline(always)]
    fn payload(&self) -> usize {
        self.window as usize + WINDOW_HEADER_SIZE
    }

    #[inline(always)]
    fn end(&self) -> usize {
        self.window as usize + window_bytes(self.size)
    }

    /// Appends what the window holds, moves to a larger one where there is one to be had, and begins the next generation.
    /// `false` if the window still has no room for `room` bytes.
    ///
    /// A lane begins with a small window: what a thread costs is what it records.
    #[cold]
    fn turn_over(&mut self, room: usize) -> bool {
        if self.limit == 0 {
            return false;
        }
        if self.published() != self.payload() && !self.is_appended() {
            if self.pause > 0 {
                self.pause -= 1;
                return false;
            }
            if !self.append() {
                return false;
            }
        }
        step::point();
        // SAFETY: the process outlives its lanes.
        let is_enough = holds(self.size, room) && unsafe { (*self.process).is_crowded() };
        let larger = (self.size + 1..=LARGEST_WINDOW).find(|size| holds(*size, room));
        if let Some(size) = larger.filter(|_| !is_enough) {
            self.enlarge(size);
        }
        step::point();
        self.begin_generation();
        holds(self.size, room)
    }

    /// Moves to the largest window.
    pub(crate) fn widen(&mut self) {
        if self.limit == 0 || self.size == LARGEST_WINDOW {
            return;
        }
        if self.published() == self.payload() || self.is_appended() || self.append() {
            self.enlarge(LARGEST_WINDOW);
            self.begin_generation();
        }
    }

    /// Whether what the window holds is in the spool file: this code was left by a jump on the way to the next generation.
    fn is_appended(&self) -> bool {
        // SAFETY: as in `lose`.
        unsafe { (*self.window).progress.load(Relaxed) >> 32 == u64::from(self.appended) }
    }

    /// Appends the generation at hand to the spool file.
    fn append(&mut self) -> bool {
        /// Events lost before the next attempt, at first and at most.
        const PAUSE: u32 = 64;
        const LONGEST_PAUSE: u32 = 1 << 16;
        let payload = self.published() - self.payload();
        // SAFETY: the window is mapped and, until the generation is bumped, nothing of it changes but the count of lost
        // events, of which the spool block has that of now. The process outlives its lanes.
        let appended = unsafe {
            let mut header = self.window.cast::<[u8; WINDOW_HEADER_SIZE]>().read();
            let bytes = core::slice::from_raw_parts(self.payload() as *const u8, payload);
            layout::seal(&mut header, bytes);
            let parts = [(header.as_ptr(), header.len()), (bytes.as_ptr(), bytes.len())];
            step::point();
            (*self.process).append(self.home, &parts.map(|(data, length)| Part { data, length }))
        };
        step::point();
        match appended {
            Ok(()) => {
                self.appended = self.generation;
                self.next_pause = PAUSE;
                // For `recover`.
                step::fence();
                true
            }
            Err(AppendError::Passing) => {
                self.pause = self.next_pause.max(PAUSE);
                self.next_pause = (self.pause * 2).min(LONGEST_PAUSE);
                false
            }
            Err(AppendError::Final) => {
                self.limit = 0;
                false
            }
        }
    }

    /// Moves to a window of that size, if there is one; the old one holds nothing that is not in the spool file.
    fn enlarge(&mut self, size: u32) {
        // SAFETY: the process outlives its lanes; the window is the lane's.
        unsafe {
            let process = &*self.process;
            let Ok(larger) = process.take_window(size) else { return };
            step::point();
            // A child of a fork in the middle of this does not have it.
            if process.home() != self.home {
                return;
            }
            let (lane, old) = ((*self.window).lane, self.give_up_window());
            self.move_into(larger, lane);
            step::point();
            process.give_back(old);
            step::point();
        }
    }

    /// The window as it was taken; the lane must move into another before it goes.
    fn give_up_window(&self) -> Window {
        // SAFETY: as in `lose`.
        let (page, size) = unsafe { ((*self.window).checksum as u32, (*self.window).size) };
        Window { place: Place { page, size, home: self.home }, memory: self.window, is_shared: self.has_shared_window }
    }

    /// From here on the lane is in this window, in which nothing is yet: of the generation at hand, which is in the spool
    /// file or empty. One store makes it the lane's: the window itself knows its place and its size.
    fn move_into(&mut self, window: Window, lane: u32) {
        let Window { place: Place { page, size, .. }, memory, is_shared } = window;
        // SAFETY: the window is nobody else's. While its magic is 0 no reader takes it for one.
        unsafe {
            ptr::addr_of_mut!((*memory).magic).write_volatile(0);
            step::fence();
            (*memory).size = size;
            (*memory).lane = lane;
            (*memory).checksum = u64::from(page);
            (*memory).lost.store(self.lost.load(Relaxed), Relaxed);
            (*memory).progress.store(u64::from(self.generation) << 32, Release);
            step::fence();
            ptr::addr_of_mut!((*memory).magic).write_volatile(WINDOW_MAGIC);
            step::fence();
        }
        self.has_shared_window = is_shared;
        step::fence();
        self.window = memory;
        step::fence();
        self.size = size;
        // SAFETY: the calling thread's slot.
        unsafe { (*slot::current()).coming = 0 };
        // What a signal handler has counted in between.
        self.lose(0);
    }

    /// After a jump out of this code, or the end of the thread that was in it: goes back to what is published, and begins a
    /// generation behind it, whose records refer to nothing before it.
    pub(crate) fn recover(&mut self) {
        if self.limit == 0 || self.window.is_null() {
            return;
        }
        // SAFETY: as in `lose`; the process outlives its lanes. The pair of ticks and time may be half of one and half of another.
        unsafe {
            self.size = (*self.window).size;
            self.calibration = (*self.process).calibrate();
        }
        // Nothing more goes into the generation at hand.
        self.cursor = self.end();
        self.pause = 0;
        self.dropped = false;
        self.turn_over(MAX_EVENT);
    }

    #[cfg(all(test, feature = "model"))]
    pub(crate) fn release_window(&mut self) {
        if let Some(window) = core::ptr::NonNull::new(self.window) {
            // SAFETY: as in `lose`; the schedule is over. It may be half of one writer and half of another, but the window is whole.
            unsafe { memscope_sys::unmap(window.cast(), window_bytes((*self.window).size)) };
        }
    }

    /// In a forked child, for a writer that was interrupted at work: memory where its window was, and no events after the
    /// one under way.
    pub(crate) fn pretend(&mut self) {
        if let Some(window) = core::ptr::NonNull::new(self.window) {
            let _ = memscope_sys::map_anonymous_at(window.cast(), window_bytes(self.size));
        }
        self.limit = 0;
    }

    /// Whose events follow.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// Says whose events follow, in a lane whose thread has gone.
    pub(crate) fn change_thread(&mut self, thread: u32) {
        self.definition(self.last.ticks, &Extended::Thread { thread });
        step::point();
        // From the next generation on the header says it. This one's header keeps naming the thread it began with, whose
        // events stand before the record.
        self.thread = thread;
    }

    /// The base is the calibration taken when the last generation began, not one of this moment: the free of a realloc
    /// is stamped with a time before the call, and must keep it if the window is turned over in between.
    fn begin_generation(&mut self) {
        // SAFETY: the process outlives its lanes.
        let now = unsafe { (*self.process).calibrate() };
        step::point();
        let mut base = core::mem::replace(&mut self.calibration, now);
        if base.offset != now.offset {
            base = now;
        }
        self.generation = self.appended + 1;
        step::point();
        self.last = Deltas::at(base.counter());
        // SAFETY: null, or the lane's own; the window is mapped and the lane is ours. A reader takes the new fields
        // only with the new generation, which the release store publishes last; until then the appended spool block
        // stands for the old one.
        unsafe {
            if let Some(nodes) = self.nodes.as_mut() {
                nodes.forget();
            }
            (*self.window).thread = self.thread;
            step::point();
            (*self.window).base_ticks = base.ticks;
            (*self.window).base_monotonic_ns = base.monotonic_ns;
            (*self.window).earlier_events = self.events;
        }
        step::point();
        self.limit = self.end() - MAX_EVENT;
        step::point();
        self.commit(self.payload() as *mut u8);
    }
}

/// In ticks: about a millisecond and about a second of a 2.5 GHz counter.
const FIRST_CALIBRATION: u64 = 2_500_000 >> clock::SHIFT;
const LONGEST_CALIBRATION: u64 = 2_500_000_000 >> clock::SHIFT;

/// Whether an empty window of that size has room for a record.
fn holds(size: u32, room: usize) -> bool {
    window_bytes(size) - WINDOW_HEADER_SIZE >= room
}

impl DefinitionSink for Writer {
    fn module(&mut self, module: &ModuleDefinition<'_>) {
        let ModuleDefinition { id, start, end, bias, path, build_id } = *module;
        self.definition(self.last.ticks, &Extended::Module { id, start, end, bias, build_id, path });
    }

    fn code(&mut self, code: &CodeDefinition<'_>) {
        let CodeDefinition { id, python_version, first_line, file, function, line_table } = *code;
        let record = Extended::Code { id, python_version, first_line, file, function, line_table };
        self.definition(self.last.ticks, &record);
    }

    fn call_name(&mut self, name: &CallNameDefinition<'_>) {
        let CallNameDefinition { id, text, owner } = *name;
        self.definition(self.last.ticks, &Extended::CallName { id, text, owner });
    }

    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame) {
        if !self.make_room(MAX_NODE) {
            self.dropped = true;
            return;
        }
        // SAFETY: null, or the lane's own.
        let Some(nodes) = (unsafe { self.nodes.as_mut() }) else { return };
        // SAFETY: the window has room for a node.
        let end = unsafe { encode::node(self.cursor as *mut u8, nodes, id.0, parent.0, frame) };
        self.commit(end);
    }
}
