//! Tasks: what a stream carries, how they are reported and logged.

use std::ffi::CStr;
use std::sync::Once;

use sim_boundary::{Handle, settings};

use crate::driver::{
    LoggedTask, MsprofGetHashId, MsprofReportCompactInfo, MsprofSysCycleTime, gettid, simProfStarted,
    simProfTracksWanted,
};
use crate::queue::{self, Task};
use crate::status::{OK, Status};
use crate::stream::{Stream, place};

const REPORT_MAGIC: u16 = 0x5a5a;
const REPORT_LEVEL_RUNTIME: u16 = 5000;
const REPORT_TASK_TRACK: u32 = 802;
const REPORT_STREAM_EXPAND: u32 = 804;

/// What carries a task out, by its number in the device's log.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Kernel = 0,
    HostCpuKernel = 1,
    Copy = 11,
}

/// A report of fixed size.
#[repr(C)]
struct CompactReport {
    magic: u16,
    level: u16,
    kind: u32,
    thread: u32,
    length: u32,
    time: u64,
    body: TaskTrack,
}

#[repr(C)]
#[derive(Default)]
struct TaskTrack {
    device: u16,
    stream: u16,
    task: u32,
    kind: u64,
    name: u64,
    reserved: [u64; 2],
}

const _: () = assert!(size_of::<CompactReport>() == 64);

fn report(kind: u32, body: TaskTrack) {
    let report = CompactReport {
        magic: REPORT_MAGIC,
        level: REPORT_LEVEL_RUNTIME,
        kind,
        thread: gettid() as u32,
        length: size_of::<TaskTrack>() as u32,
        time: MsprofSysCycleTime(),
        body,
    };
    MsprofReportCompactInfo(0, (&raw const report).cast(), size_of::<CompactReport>() as u32);
}

fn report_task(device: u32, stream: u16, task: u16, kind: Kind, name: Option<&CStr>) {
    static EXPANSION: Once = Once::new();
    if simProfTracksWanted() == 0 || settings::PROFILING_NEEDS_COMMAND.get() != 0 && simProfStarted() == 0 {
        return;
    }
    if settings::STREAM_EXPAND.get() != 0 {
        // Only the first byte of the body counts in this report: 1 for expanded.
        EXPANSION.call_once(|| report(REPORT_STREAM_EXPAND, TaskTrack { device: 1, ..TaskTrack::default() }));
    }
    let name = name.map_or(0, |name| MsprofGetHashId(name.as_ptr(), name.count_bytes()));
    let body =
        TaskTrack { device: device as u16, stream, task: u32::from(task), kind: kind as u64, name, reserved: [0; 2] };
    report(REPORT_TASK_TRACK, body);
}

/// Runs `work` as the next task of a stream: first reported, then run, at once or when it is waited for, then logged by the device.
/// `admitted` says whether there is anything wrong with it. Tasks that are no kernels have no name.
pub(crate) fn run(
    stream: Handle<Stream>,
    kind: Kind,
    name: Option<&CStr>,
    admitted: impl FnOnce() -> Status,
    work: impl Fn() + Send + Sync + 'static,
) -> Status {
    let (device, stream, task) = match place(stream) {
        Ok(place) => place,
        Err(status) => return status,
    };
    report_task(device, stream, task, kind, name);
    let status = admitted();
    if settings::TRACE.get() != 0 {
        let name = name.map_or("copy".into(), CStr::to_string_lossy);
        eprintln!("sim: device {device} stream {stream} task {task} {name} -> {status}");
    }
    if status == OK {
        let logged = Some(LoggedTask { device, stream, task, kind: kind as u32 });
        queue::submit((device, stream), Task { logged, work: Box::new(work) });
    }
    status
}
