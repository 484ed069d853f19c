//! The driver's task log: when the device began and ended each task, on its own clock.
//!
//! Started before a device's first launch, read by one thread a device, ended with ACL or the process. The thread holds
//! its guard from beginning to end: nothing it does is the program's.
use super::hidden;
use super::profiling::Callbacks;
use crate::original::Original;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use memscope_recorder::device::{SystemKind, system};
use memscope_recorder::kernel;
use memscope_recorder::slot::{Guard, MARK_WORD};
use memscope_recorder::sys;
use memscope_recorder::sys::loader::Object;
use memscope_recorder::task_log::{Execution, MOST_EXECUTIONS, Reading, TaskLog, device_clock, executions, ticks};

const RUNTIME: &CStr = c"libruntime.so";
const DRIVER: &CStr = c"libascend_hal.so";
static GET_DEVICE: Original = Original::of(RUNTIME, c"rtGetDevice");
static PHYSICAL_DEVICE: Original = Original::of(RUNTIME, c"rtGetVisibleDeviceIdByLogicDeviceId");
static SOC_NAME: Original = Original::of(c"libascendcl.so", c"aclrtGetSocName");
static COMMAND: Original = Original::of(c"libprofapi.so", c"profSetProfCommand");
static DEVICE_INFO: Original = Original::of(DRIVER, c"halGetDeviceInfo");
static START: Original = Original::of(DRIVER, c"prof_drv_start");
static READ: Original = Original::of(DRIVER, c"prof_channel_read");
static STOP: Original = Original::of(DRIVER, c"prof_stop");

/// The driver's channel for the log.
const CHANNEL: u32 = 50;
const SUCCESS: c_int = 0;

/// The process is ending: logs are not started any more.
static OVER: AtomicBool = AtomicBool::new(false);

/// Calls the driver's or the runtime's function of this type, if it is there.
macro_rules! call {
    ($original:expr, fn($($type:ty),*) -> $answer:ty, ($($argument:expr),*)) => {
        match $original.address() {
            0 => None,
            address => {
                // SAFETY: the address is that of the C function of this name, which has this type.
                let function: unsafe extern "C" fn($($type),*) -> $answer = unsafe { core::mem::transmute(address) };
                // SAFETY: every pointer passed is to a live variable of the type the function wants.
                Some(unsafe { function($($argument),*) })
            }
        }
    };
}

/// Sees to the logs of the thread's device and of those that were missed, and says which device that is: frameworks
/// choose it in ways we do not see.
pub(super) fn ensure(callbacks: Callbacks) {
    hidden(|| {
        let epoch = kernel::epoch();
        let Some(device) = current_device() else { return };
        // SAFETY: the guard is held.
        unsafe { system(SystemKind::SetDevice, u64::from(device)) };
        // Whoever has the callbacks has, or wants, the log as well.
        if callbacks == Callbacks::Ours && !OVER.load(Acquire) {
            let physical = physical(device);
            if let Some(log) = kernel::task_log(physical) {
                start(physical, log);
            }
            kernel::task_logs().filter(|(_, log)| log.is_wanted()).for_each(|(device, log)| start(device, log));
        }
        kernel::settle(epoch, device);
    });
}

/// The calling thread's device, as the program numbers it.
fn current_device() -> Option<u32> {
    let mut device: i32 = -1;
    call!(GET_DEVICE, fn(*mut i32) -> c_int, (&raw mut device)).filter(|answer| *answer == SUCCESS)?;
    u32::try_from(device).ok()
}

/// A device as the driver numbers it.
fn physical(device: u32) -> u32 {
    let mut physical: i32 = -1;
    match call!(PHYSICAL_DEVICE, fn(u32, *mut i32) -> c_int, (device, &raw mut physical)) {
        Some(SUCCESS) => u32::try_from(physical).unwrap_or(device),
        _ => device,
    }
}

fn start(device: u32, log: &'static TaskLog) {
    if !log.claim() {
        return;
    }
    let short_lines = has_short_lines();
    command_start(device);
    if !start_channel(device, short_lines) {
        log.refuse();
        kernel::note_task_log_refused();
        return;
    }
    log.begin();
    if !start_reader(device, short_lines) {
        stop_channel(device);
        log.refuse();
        kernel::note_task_log_refused();
        return;
    }
    end_with_program();
}

/// Ends all logs: what they hold is read, and the readers are gone or given up.
pub(crate) fn end_all() {
    hidden(|| {
        for (device, log) in kernel::task_logs() {
            log.end(|| stop_channel(device));
        }
        // A program may begin again.
        kernel::unsettle();
    });
}

/// A reader must not be left in a library that is unloaded. Only the reader itself may call this: it takes the loader's lock,
/// for which nobody who waits for the reader waits for ever.
fn keep_driver() {
    let Some(driver) = Object::of_id(READ.library_id()) else { return };
    // SAFETY: the path is the loader's own. Takes a reference to a library that is loaded, or gives null; loads nothing.
    unsafe {
        libc::dlopen(driver.path() as *const c_char, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlerror();
        libc::dlerror();
    }
}

/// Registered after CANN's own static objects were made, and so run before they are destroyed. Our destructor would be
/// too late in programs that load CANN at run time.
fn end_with_program() {
    unsafe extern "C" {
        fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
    }
    extern "C" fn at_exit(_: *mut c_void) {
        OVER.store(true, Release);
        end_all();
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, AcqRel) {
        // SAFETY: the function lives as long as the process: this library is not unloaded.
        unsafe { __cxa_atexit(at_exit, core::ptr::null_mut(), core::ptr::null_mut()) };
    }
}

/// The series whose lines are half as long and name no stream.
fn has_short_lines() -> bool {
    let name = call!(SOC_NAME, fn() -> *const c_char, ()).unwrap_or(core::ptr::null());
    if name.is_null() {
        return false;
    }
    // SAFETY: the function gives a C string that lives on.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    name.windows(3).any(|part| part == b"950" || part == b"960")
}

/// Tells the runtime to report tasks of the device.
fn command_start(device: u32) {
    /// `struct ProfCommand`, as far as it is used.
    #[repr(C)]
    struct Command {
        switches: u64,
        more_switches: u64,
        device_count: u32,
        devices: [u32; 64],
        model: u32,
        kind: u32,
        rest: [u8; 5140],
    }
    const _: () = assert!(size_of::<Command>() == 5424 && core::mem::offset_of!(Command, kind) == 280);
    const TASK_TIME: u64 = 0x800;
    const TASK_TRACK: u64 = 0x400_0000;
    const KIND_START: u32 = 1;
    let mut command = Command {
        switches: TASK_TIME | TASK_TRACK,
        more_switches: 0,
        device_count: 1,
        devices: [0; 64],
        model: u32::MAX,
        kind: KIND_START,
        rest: [0; 5140],
    };
    if let Some(first) = command.devices.first_mut() {
        *first = device;
    }
    call!(COMMAND, fn(*mut Command, u32) -> c_int, (&raw mut command, size_of::<Command>() as u32));
}

fn start_channel(device: u32, short_lines: bool) -> bool {
    #[repr(C)]
    struct Parameters {
        channel_type: u32,
        sample_period_ms: u32,
        real_time: u32,
        switches: *mut u32,
        switches_size: u32,
    }
    const TASKS: u32 = 1;
    let mut switches = [TASKS, 0, 0, 0, 0, 0, TASKS, 0, 0, 0, 0];
    let switches_size = if short_lines { 44 } else { 36 };
    let mut parameters = Parameters {
        channel_type: 0,
        sample_period_ms: 20,
        real_time: 1,
        switches: switches.as_mut_ptr(),
        switches_size,
    };
    let answer = call!(START, fn(u32, u32, *mut Parameters) -> c_int, (device, CHANNEL, &raw mut parameters));
    answer == Some(SUCCESS)
}

fn stop_channel(device: u32) {
    call!(STOP, fn(u32, u32) -> c_int, (device, CHANNEL));
}

/// Starts the thread that reads the log of a device; it goes by itself when the log is ended.
fn start_reader(device: u32, short_lines: bool) -> bool {
    // Looked up at run time: linked, they would ask for a newer C library than the rest of us needs.
    static ATTRIBUTES: Original = Original::next(c"pthread_attr_init");
    static DETACHED: Original = Original::next(c"pthread_attr_setdetachstate");
    static STACK: Original = Original::next(c"pthread_attr_setstacksize");
    static CREATE: Original = Original::next(c"pthread_create");
    type Attributes = libc::pthread_attr_t;
    type Body = extern "C" fn(*mut c_void) -> *mut c_void;
    /// Ours is small; what the driver does below us we do not know.
    const STACK_BYTES: usize = 1 << 20;
    let mut attributes = core::mem::MaybeUninit::<Attributes>::zeroed();
    let attributes = attributes.as_mut_ptr();
    let mut thread: libc::pthread_t = 0;
    let argument = (device as usize | usize::from(short_lines) << 32) as *mut c_void;
    call!(ATTRIBUTES, fn(*mut Attributes) -> c_int, (attributes));
    call!(DETACHED, fn(*mut Attributes, c_int) -> c_int, (attributes, libc::PTHREAD_CREATE_DETACHED));
    call!(STACK, fn(*mut Attributes, usize) -> c_int, (attributes, STACK_BYTES));
    // The thread inherits the mask: no handler of the program ever runs on it.
    let mask = sys::set_signal_mask(sys::SignalMask::EVERYTHING);
    let answer = call!(
        CREATE,
        fn(*mut libc::pthread_t, *const Attributes, Body, *mut c_void) -> c_int,
        (&raw mut thread, attributes.cast_const(), reader, argument)
    );
    sys::set_signal_mask(mask);
    answer == Some(0)
}

extern "C" fn reader(argument: *mut c_void) -> *mut c_void {
    let word = argument as usize;
    let (device, short_lines) = (word as u32, word >> 32 != 0);
    let mark = MARK_WORD;
    let guard = Guard::enter_at(&mark);
    sys::name_thread(c"msmemscope");
    keep_driver();
    if let Some(log) = kernel::task_log(device) {
        // SAFETY: this is the log's reader, and the guard is held.
        if unsafe { log.open_lane() } && read(device, log, short_lines).is_some() {
            log.ended();
        } else {
            stop_channel(device);
            log.refuse();
        }
    }
    drop(guard);
    core::ptr::null_mut()
}

/// Bytes asked for at once.
const BUFFER: usize = 2 << 20;

/// Reads until the log is ended; `None` if there is no memory to read into.
fn read(device: u32, log: &TaskLog, short_lines: bool) -> Option<()> {
    let buffer = sys::map_anonymous(BUFFER).ok()?;
    // SAFETY: fresh memory of that size that only we know.
    let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.as_ptr(), BUFFER) };
    let mut clock = Clock::new(device);
    clock.look();
    // The beginning of a line whose end has not come yet.
    let mut kept = 0;
    loop {
        let was_stopped = log.is_stopped();
        let Some(room) = bytes.get_mut(kept..) else { break };
        let (place, size) = (room.as_mut_ptr(), room.len() as u32);
        let answer = call!(READ, fn(u32, u32, *mut u8, u32) -> c_int, (device, CHANNEL, place, size));
        match answer.map(usize::try_from) {
            Some(Ok(count @ 1..)) => {
                let end = (kept + count).min(BUFFER);
                let lines = bytes.get(..end).unwrap_or_default();
                let used = write_down(device, short_lines, lines);
                bytes.copy_within(used.min(end)..end, 0);
                kept = end.saturating_sub(used);
                clock.look_if_due();
            }
            _ if log.found_empty(was_stopped) == Reading::End => break,
            _ => {}
        }
    }
    clock.look();
    // SAFETY: nobody else knows the memory, and the slice is not used any more.
    unsafe { sys::unmap(buffer, BUFFER) };
    Some(())
}

/// Writes the whole lines in `bytes` down and returns their length.
fn write_down(device: u32, short_lines: bool, bytes: &[u8]) -> usize {
    let length = if short_lines { 32 } else { 64 };
    let mut lines = [Execution::default(); MOST_EXECUTIONS];
    for batch in bytes.chunks(length * MOST_EXECUTIONS) {
        let mut count = 0;
        for line in batch.chunks_exact(length).filter_map(|line| parse(line, short_lines)) {
            if let Some(place) = lines.get_mut(count) {
                *place = line;
                count += 1;
            }
        }
        // SAFETY: the calling thread is the log's reader and has its lane.
        unsafe { executions(device, !short_lines, lines.get(..count).unwrap_or_default()) };
    }
    bytes.len() / length * length
}

/// ```text
/// word 0: function :6, count :4, unit :6, magic :16
/// word 1: stream :16, task :16 — or, in short lines, task :32
/// word 2, 3: counter
/// ```
/// `None` for what is neither a beginning nor an end.
fn parse(line: &[u8], short: bool) -> Option<Execution> {
    let head = u32::from_le_bytes(*line.first_chunk()?);
    let ids = u32::from_le_bytes(*line.get(4..)?.first_chunk()?);
    let counter = u64::from_le_bytes(*line.get(8..)?.first_chunk()?);
    let end = match head & 0x3f {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (stream, task) = if short { (0, ids) } else { (ids as u16, ids >> 16) };
    Some(Execution { stream, task, unit: (head >> 10 & 0x3f) as u8, end, counter })
}

/// Pairs the device's counter with ours, often at first and then once a second while there is something to date.
struct Clock {
    device: u32,
    frequency_khz: u64,
    next_ns: u64,
    pause_ns: u64,
}

impl Clock {
    const FIRST_PAUSE_NS: u64 = 1_000_000;
    const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

    fn new(device: u32) -> Clock {
        const FREQUENCY: i32 = 25;
        let frequency_khz = device_info(device, FREQUENCY).unwrap_or(0);
        Clock { device, frequency_khz, next_ns: 0, pause_ns: Clock::FIRST_PAUSE_NS }
    }

    fn look_if_due(&mut self) {
        if sys::clock_ns(sys::Clock::Monotonic) >= self.next_ns {
            self.look();
        }
    }

    /// Of a few readings the quickest tells most exactly when it was.
    fn look(&mut self) {
        const COUNTER: i32 = 13;
        const READINGS: usize = 4;
        let mut best: Option<(u64, u64, u64)> = None;
        for _ in 0..READINGS {
            let before = ticks();
            let counter = device_info(self.device, COUNTER);
            let after = ticks();
            let Some(counter) = counter else { continue };
            if best.is_none_or(|(_, start, end)| after.wrapping_sub(before) < end.wrapping_sub(start)) {
                best = Some((counter, before, after));
            }
        }
        if let Some((counter, before, after)) = best {
            // SAFETY: the calling thread is the log's reader and has its lane.
            unsafe { device_clock(self.device, self.frequency_khz, counter, before, after) };
        }
        self.next_ns = sys::clock_ns(sys::Clock::Monotonic) + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(Clock::LONGEST_PAUSE_NS);
    }
}

fn device_info(device: u32, info: i32) -> Option<u64> {
    const SYSTEM: i32 = 0;
    let mut value: i64 = 0;
    let answer = call!(DEVICE_INFO, fn(u32, i32, i32, *mut i64) -> c_int, (device, SYSTEM, info, &raw mut value));
    (answer == Some(SUCCESS)).then_some(value as u64)
}
