//! The driver's task log: when the device began and ended each task, on its own clock.
//!
//! Its reader holds its guard from beginning to end: nothing it does is the program's.
use super::clock::Clock;
use crate::original::{ACL, DRIVER, DRIVER_ABSENT, FAILED, LIBC, Original, PROFILING};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use memscope_recorder::device::PhysicalDevice;
use memscope_recorder::kernel;
use memscope_recorder::slot::{Guard, MARK_WORD};
use memscope_recorder::sys;
use memscope_recorder::sys::loader::Object;
use memscope_recorder::task_log::{MOST_EXECUTIONS, Reading, TaskLogLine, TaskLogState, executions};

memscope_hook::functions! {
    found by Original;
    aclrtGetSocName() -> *const c_char, in ACL, else ptr::null();
    profSetProfCommand(command: *mut Command, size: u32) -> c_int, in PROFILING, else FAILED;
    prof_drv_start(device: u32, channel: u32, parameters: *mut Parameters) -> c_int, in DRIVER, else DRIVER_ABSENT;
    prof_channel_read(device: u32, channel: u32, buffer: *mut u8, size: u32) -> c_int, in DRIVER, else 0;
    prof_stop(device: u32, channel: u32) -> c_int, in DRIVER, else DRIVER_ABSENT;

    // Looked up at run time: linked, they would ask for a newer C library than the rest of us needs.
    pthread_attr_init(attributes: *mut Attributes) -> c_int, in LIBC, else FAILED;
    pthread_attr_setdetachstate(attributes: *mut Attributes, state: c_int) -> c_int, in LIBC, else FAILED;
    pthread_attr_setstacksize(attributes: *mut Attributes, bytes: usize) -> c_int, in LIBC, else FAILED;
    pthread_create(thread: *mut libc::pthread_t, attributes: *const Attributes, body: Body, argument: *mut c_void) -> c_int,
        in LIBC, else FAILED;
}

type Attributes = libc::pthread_attr_t;
type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// The driver's channel for the log.
const CHANNEL: u32 = 50;
const SUCCESS: c_int = 0;

/// A reader must not be left in a library that is unloaded. Only the reader itself may call this: it takes the loader's lock,
/// for which nobody who waits for the reader waits for ever.
fn keep_driver() {
    let Some(driver) = Object::of_id(prof_channel_read::ORIGINAL.library_id()) else { return };
    // SAFETY: the path is the loader's own. Takes a reference to a library that is loaded, or gives null; loads nothing.
    unsafe {
        libc::dlopen(driver.path() as *const c_char, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlerror();
        libc::dlerror();
    }
}

/// The series whose lines are half as long and name no stream.
pub(super) fn has_short_lines() -> bool {
    // SAFETY: the function takes nothing.
    let name = unsafe { aclrtGetSocName::call() };
    if name.is_null() {
        return false;
    }
    // SAFETY: the function gives a C string that lives on.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    name.windows(3).any(|part| part == b"950" || part == b"960")
}

/// `struct ProfCommand`, as far as it is used.
#[repr(C)]
pub(crate) struct Command {
    switches: u64,
    more_switches: u64,
    device_count: u32,
    devices: [u32; 64],
    model: u32,
    kind: u32,
    rest: [u8; 5140],
}

const _: () = assert!(size_of::<Command>() == 5424 && core::mem::offset_of!(Command, kind) == 280);

/// Tells the runtime to report tasks of the device.
pub(super) fn command_start(device: PhysicalDevice) {
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
        *first = device.0;
    }
    // SAFETY: the pointer is to a command of that size.
    unsafe { profSetProfCommand::call(&raw mut command, size_of::<Command>() as u32) };
}

/// What the driver wants to know of a channel.
#[repr(C)]
pub(crate) struct Parameters {
    channel_type: u32,
    sample_period_ms: u32,
    real_time: u32,
    switches: *mut u32,
    switches_size: u32,
}

pub(super) fn start(device: PhysicalDevice, short_lines: bool) -> bool {
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
    // SAFETY: the pointer is to parameters, and they point to as many switches as they say.
    unsafe { prof_drv_start::call(device.0, CHANNEL, &raw mut parameters) == SUCCESS }
}

pub(super) fn stop(device: PhysicalDevice) {
    // SAFETY: the function takes numbers.
    unsafe { prof_stop::call(device.0, CHANNEL) };
}

/// Starts the thread that reads the log of a device; it goes by itself when the log is ended.
pub(super) fn start_reader(device: PhysicalDevice, short_lines: bool) -> bool {
    /// Ours is small; what the driver does below us we do not know.
    const STACK_BYTES: usize = 1 << 20;
    let mut attributes = core::mem::MaybeUninit::<Attributes>::zeroed();
    let attributes = attributes.as_mut_ptr();
    let mut thread: libc::pthread_t = 0;
    let argument = (device.0 as usize | usize::from(short_lines) << 32) as *mut c_void;
    // The thread inherits the mask: no handler of the program ever runs on it.
    let mask = sys::set_signal_mask(sys::SignalMask::EVERYTHING);
    // SAFETY: the pointers are to variables of those types, and the thread's function lives as long as the process.
    let answer = unsafe {
        pthread_attr_init::call(attributes);
        pthread_attr_setdetachstate::call(attributes, libc::PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize::call(attributes, STACK_BYTES);
        pthread_create::call(&raw mut thread, attributes, reader, argument)
    };
    sys::set_signal_mask(mask);
    answer == 0
}

extern "C" fn reader(argument: *mut c_void) -> *mut c_void {
    let word = argument as usize;
    let (device, short_lines) = (PhysicalDevice(word as u32), word >> 32 != 0);
    let mark = MARK_WORD;
    // Nothing else is at work on a thread that begins: it is never refused.
    let guard = Guard::enter_at(&mark);
    sys::name_thread(c"msmemscope");
    keep_driver();
    if let Some(log) = kernel::task_log(device) {
        // SAFETY: this is the log's reader.
        let open = |guard: &&Guard<'_>| unsafe { log.open_lane(guard) };
        match guard.as_ref().filter(open).and_then(|guard| read(guard, device, log, short_lines)) {
            Some(()) => log.ended(),
            None => {
                stop(device);
                log.refuse();
            }
        }
    }
    ptr::null_mut()
}

/// Bytes asked for at once.
const BUFFER: usize = 2 << 20;

/// Reads until the log is ended; `None` if there is no memory to read into.
fn read(guard: &Guard<'_>, device: PhysicalDevice, log: &TaskLogState, short_lines: bool) -> Option<()> {
    let buffer = sys::map_anonymous(BUFFER).ok()?;
    // SAFETY: fresh memory of that size that only we know.
    let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.as_ptr(), BUFFER) };
    let mut clock = Clock::new(device);
    clock.look(guard);
    // The beginning of a line whose end has not come yet.
    let mut kept = 0;
    loop {
        let was_stopped = log.is_stopped();
        let Some(room) = bytes.get_mut(kept..) else { break };
        let (place, size) = (room.as_mut_ptr(), room.len() as u32);
        // SAFETY: there is room for that many bytes.
        let answer = unsafe { prof_channel_read::call(device.0, CHANNEL, place, size) };
        match usize::try_from(answer) {
            Ok(count @ 1..) => {
                let end = (kept + count).min(BUFFER);
                let lines = bytes.get(..end).unwrap_or_default();
                let used = write_down(guard, device, short_lines, lines);
                bytes.copy_within(used.min(end)..end, 0);
                kept = end.saturating_sub(used);
                clock.look_if_due(guard);
            }
            _ if log.found_empty(was_stopped) == Reading::End => break,
            _ => {}
        }
    }
    clock.look(guard);
    // SAFETY: nobody else knows the memory, and the slice is not used any more.
    unsafe { sys::unmap(buffer, BUFFER) };
    Some(())
}

/// Writes the whole lines in `bytes` down and returns their length.
fn write_down(guard: &Guard<'_>, device: PhysicalDevice, short_lines: bool, bytes: &[u8]) -> usize {
    let length = if short_lines { 32 } else { 64 };
    let mut lines = [TaskLogLine::default(); MOST_EXECUTIONS];
    for batch in bytes.chunks(length * MOST_EXECUTIONS) {
        let mut count = 0;
        for line in batch.chunks_exact(length).filter_map(|line| parse(line, short_lines)) {
            if let Some(place) = lines.get_mut(count) {
                *place = line;
                count += 1;
            }
        }
        executions(guard, device, !short_lines, lines.get(..count).unwrap_or_default());
    }
    bytes.len() / length * length
}

/// ```text
/// word 0: function :6, count :4, unit :6, magic :16
/// word 1: stream :16, task :16 — or, in short lines, task :32
/// word 2, 3: counter
/// ```
/// `None` for what is neither a beginning nor an end.
fn parse(line: &[u8], short: bool) -> Option<TaskLogLine> {
    let head = u32::from_le_bytes(*line.first_chunk()?);
    let ids = u32::from_le_bytes(*line.get(4..)?.first_chunk()?);
    let counter = u64::from_le_bytes(*line.get(8..)?.first_chunk()?);
    let end = match head & 0x3f {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (stream, task) = if short { (0, ids) } else { (ids as u16, ids >> 16) };
    Some(TaskLogLine { stream, task, unit: (head >> 10 & 0x3f) as u8, end, counter })
}
