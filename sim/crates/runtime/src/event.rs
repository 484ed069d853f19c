//! Events: points in a stream. A recorded event has happened.

use std::time::Instant;

use sim_boundary::{Handle, Out};

use crate::status::{INVALID_PARAMETER, OK, Status, written};
use crate::stream::Stream;

/// An event; programs only carry its address.
#[derive(Default)]
pub struct Event {
    recorded: Option<Instant>,
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventCreateWithFlag(event: Out<Handle<Event>>, _flag: u32) -> Status {
    written(event.set(Handle::new(Event::default())))
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventDestroy(event: Handle<Event>) -> Status {
    if event.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventRecord(event: Handle<Event>, _stream: Handle<Stream>) -> Status {
    let Some(event) = event.get_mut() else { return INVALID_PARAMETER };
    event.recorded = Some(Instant::now());
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventReset(event: Handle<Event>, _stream: Handle<Stream>) -> Status {
    let Some(event) = event.get_mut() else { return INVALID_PARAMETER };
    event.recorded = None;
    OK
}

/// 1 if the event has been recorded, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn rtEventQueryStatus(event: Handle<Event>, status: Out<i32>) -> Status {
    match event.get() {
        Some(event) => written(status.set(i32::from(event.recorded.is_some()))),
        None => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventSynchronize(event: Handle<Event>) -> Status {
    if event.is_null() { INVALID_PARAMETER } else { OK }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamWaitEvent(_stream: Handle<Stream>, event: Handle<Event>) -> Status {
    if event.is_null() { INVALID_PARAMETER } else { OK }
}

/// Milliseconds from one event to another.
#[unsafe(no_mangle)]
pub extern "C" fn rtEventElapsedTime(milliseconds: Out<f32>, start: Handle<Event>, end: Handle<Event>) -> Status {
    let time = |event: Handle<Event>| event.get().and_then(|event| event.recorded);
    match (time(start), time(end)) {
        (Some(start), Some(end)) => written(milliseconds.set(end.duration_since(start).as_secs_f32() * 1e3)),
        _ => INVALID_PARAMETER,
    }
}
