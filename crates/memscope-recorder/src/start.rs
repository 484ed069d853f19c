//! The first event of a process: its directory, its spool files and their header.
use crate::clock::{self, Calibration};
use crate::config::Config;
use crate::control;
use crate::files::{Growth, SpoolFile, Stray};
use crate::forks::Which;
use crate::keeper;
use crate::path::Path;
use crate::placement;
use crate::process::{self, Attempt, Files};
use crate::sandbox;
use crate::stacks;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use memscope_format::keeper::Reason;
use memscope_format::layout::{
    self, ClockKind, EVENTS_FILE, PROCESS_HEADER_SIZE, ProcessHeader, SPOOL_DIRECTORY, WINDOW_SIZE, notes,
};
use memscope_sys::{self as sys, Clock, Errno, clock_ns};

/// Makes the process directory, the spool files and the header.
///
/// Everything large is built in its place: this runs on whatever stack the first event comes from.
///
/// # Safety
/// `attempt` points to zeroed memory that nobody else touches.
#[cold]
#[inline(never)]
pub(crate) unsafe fn start(attempt: *mut Attempt, pid: u32) -> Result<(), Errno> {
    let config = process::config();
    let kind = clock::kind();
    let calibration = Calibration::now(kind, 0).ok_or(Errno::SANDBOX)?;
    if pid == 0 {
        return Err(Errno::SANDBOX);
    }
    let realtime_ns = clock_ns(Clock::Realtime);
    // SAFETY: zeroed memory is valid `Files`, and nobody else has a reference to them.
    let Files { windows, events } = unsafe { &mut (*attempt).files };
    let elsewhere = match make_files(config, pid, realtime_ns, windows, events) {
        Ok(elsewhere) => elsewhere,
        Err(Errno::SANDBOX) => return Err(Errno::SANDBOX),
        Err(error) => {
            // Another user, another root: the command that started the run can make them.
            let (windows_file, events_file) = keeper::ask_for_files(config, error)?;
            windows.adopt(Which::Windows, windows_file)?;
            events.adopt(Which::Events, events_file)?;
            false
        }
    };
    let memory = windows
        .map(0, PROCESS_HEADER_SIZE, &Beginning)
        .inspect_err(|error| keeper::tell_not_recorded(config, Reason::NoSpace, *error))?;
    // A child would keep it for nothing. If the kernel refuses, it does.
    let _ = sys::dont_fork(memory, PROCESS_HEADER_SIZE);
    // SAFETY: a fresh mapping of a page of zeroes, large enough for the header; only we know it. The magic goes last, so
    // that a half-made header is no header.
    unsafe {
        let page = memory.cast::<ProcessHeader>().as_ptr();
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
            (*page).python_version = AtomicU32::new(version);
            (*page).notes = AtomicU32::new(note);
        }
        (*page).filters_inherited = AtomicU32::new(sandbox::inherited_filters());
        (*page).filters_known = AtomicU32::new(sys::sandbox::known());
        if config.deferred && control::is_tracing() {
            (*page).notes.fetch_or(notes::TRACING, Relaxed);
        }
        if elsewhere {
            (*page).notes.fetch_or(notes::WINDOWS_ELSEWHERE, Relaxed);
        }
        core::sync::atomic::fence(Release);
        (*page).magic = layout::PROCESS_MAGIC;
        (*attempt).clock = kind;
        (*attempt).header = page;
    }
    Ok(())
}

/// Makes the directory and both files; `true` if the windows are elsewhere.
fn make_files(
    config: &Config,
    pid: u32,
    realtime_ns: u64,
    windows: &mut SpoolFile,
    events: &mut SpoolFile,
) -> Result<bool, Errno> {
    make_directories(config, pid, realtime_ns, &mut windows.path)?;
    events.path.copy_from(&windows.path);
    let elsewhere = placement::create_windows(windows, &events.path, config.run_id)?;
    events.path.push(b"/").push(EVENTS_FILE.as_bytes());
    events.create(Which::Events, sys::O_WRONLY | sys::O_APPEND)?;
    Ok(elsewhere)
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

/// The first page of the windows' file: there is nothing else of it yet, nor a header to count in.
struct Beginning;

impl Growth for Beginning {
    fn claim(&self, bytes: u64) -> Result<u64, Errno> {
        Ok(bytes)
    }

    fn release(&self, _: u64) {}

    fn strayed(&self, _: Stray) {}
}
