//! Events: points in a stream. Whoever asks whether a recorded event has happened makes it happen.

use std::time::Instant;

use sim_boundary::{Handle, Out};

use crate::queue::{self, Place};
use crate::status::{INVALID_PARAMETER, OK, Status, written};
use crate::stream::{Stream, at};

/// An event; programs only carry its address.
#[derive(Default)]
pub struct Event {
    recorded: Option<Instant>,
    of: Option<Place>,
}

/// What is in front of the event is done.
fn reach(event: &Event) -> Status {
    event.of.map_or(OK, queue::wait_for)
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
pub extern "C" fn rtEventRecord(event: Handle<Event>, stream: Handle<Stream>) -> Status {
    let Some(event) = event.get_mut() else { return INVALID_PARAMETER };
    event.recorded = Some(Instant::now());
    event.of = at(stream).ok();
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventReset(event: Handle<Event>, _stream: Handle<Stream>) -> Status {
    let Some(event) = event.get_mut() else { return INVALID_PARAMETER };
    event.recorded = None;
    event.of = None;
    OK
}

/// 1 if the event has been recorded, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn rtEventQueryStatus(event: Handle<Event>, status: Out<i32>) -> Status {
    match event.get() {
        Some(event) => {
            reach(event);
            written(status.set(i32::from(event.recorded.is_some())))
        }
        None => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rtEventSynchronize(event: Handle<Event>) -> Status {
    event.get().map_or(INVALID_PARAMETER, reach)
}

#[unsafe(no_mangle)]
pub extern "C" fn rtStreamWaitEvent(_stream: Handle<Stream>, event: Handle<Event>) -> Status {
    // The one it waits for is done first: a legal order.
    event.get().map_or(INVALID_PARAMETER, |event| {
        reach(event);
        OK
    })
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
