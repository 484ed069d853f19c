//! What streams hold back: tasks of a deferred run until somebody waits for them, and tasks of a capture until it is replayed.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sim_boundary::settings;

use crate::driver::{LoggedTask, simHalTaskRan};
use crate::status::{CAPTURE_FORBIDS, CAPTURE_INVALIDATED, NOT_CAPTURED, OK, STREAM_CAPTURED, Status};

/// A device, and a stream of it; 0 is its default stream.
pub(crate) type Place = (u32, u16);

/// What is held back. A captured one may run many times.
pub(crate) struct Task {
    /// What the device's log says of it; nothing of functions of the host.
    pub(crate) logged: Option<LoggedTask>,
    pub(crate) work: Box<dyn Fn() + Send + Sync>,
}

impl Task {
    fn run(&self) {
        (self.work)();
        if let Some(logged) = &self.logged {
            simHalTaskRan(logged);
        }
    }
}

/// The tasks of an ended capture; programs only carry its address.
pub struct Model {
    tasks: Vec<Arc<Task>>,
}

/// Which calls a capture forbids to whom.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Everybody,
    /// The thread that began it.
    Thread(u32),
    Nobody,
}

struct Capture {
    tasks: Vec<Arc<Task>>,
    mode: Mode,
    is_valid: bool,
}

#[derive(Default)]
struct Queues {
    waiting: BTreeMap<Place, Vec<Arc<Task>>>,
    captures: BTreeMap<Place, Capture>,
    /// Streams whose tasks somebody runs.
    running: Vec<Place>,
}

static QUEUES: Mutex<Queues> =
    Mutex::new(Queues { waiting: BTreeMap::new(), captures: BTreeMap::new(), running: Vec::new() });
static DONE: Condvar = Condvar::new();

fn queues() -> MutexGuard<'static, Queues> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_deferred() -> bool {
    settings::DEFERRED.get() != 0
}

/// Runs the task, or holds it back.
pub(crate) fn submit(place: Place, task: Task) {
    let mut queues = queues();
    if let Some(capture) = queues.captures.get_mut(&place) {
        capture.tasks.push(Arc::new(task));
    } else if is_deferred() {
        queues.waiting.entry(place).or_default().push(Arc::new(task));
    } else {
        drop(queues);
        task.run();
    }
}

/// Runs what the streams hold that `is_meant` names. The lock is not held meanwhile: tasks may call programs.
fn drain(is_meant: impl Fn(Place) -> bool) {
    let mut held = queues();
    loop {
        let next = held.waiting.iter().find(|(place, tasks)| is_meant(**place) && !tasks.is_empty());
        let Some(place) = next.map(|(place, _)| *place) else {
            if !held.running.iter().any(|place| is_meant(*place)) {
                return;
            }
            held = DONE.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        if held.running.contains(&place) {
            held = DONE.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let tasks = held.waiting.remove(&place).unwrap_or_default();
        held.running.push(place);
        drop(held);
        tasks.iter().for_each(|task| task.run());
        held = queues();
        held.running.retain(|running| *running != place);
        DONE.notify_all();
    }
}

/// Waits for a stream; one that is captured cannot be waited for, and the capture is void.
pub(crate) fn wait_for(place: Place) -> Status {
    if let Some(capture) = queues().captures.get_mut(&place) {
        capture.is_valid = false;
        return STREAM_CAPTURED;
    }
    drain(|other| other == place);
    OK
}

/// Waits for all streams of a device.
pub(crate) fn wait_for_device(device: u32) -> Status {
    if invalidate(|place, _| place.0 == device) {
        return CAPTURE_FORBIDS;
    }
    drain(|place| place.0 == device);
    OK
}

/// Memory is about to go: whoever still uses it is to be done.
pub(crate) fn wait_for_all() {
    drain(|_| true);
}

/// A copy that waits for no stream: it is forbidden while certain captures are under way, and makes them void.
pub(crate) fn admit_synchronous(thread: u32) -> Status {
    let is_forbidden = |mode: Mode| mode == Mode::Everybody || mode == Mode::Thread(thread);
    if invalidate(|_, capture| is_forbidden(capture.mode)) { CAPTURE_FORBIDS } else { OK }
}

fn invalidate(is_meant: impl Fn(Place, &Capture) -> bool) -> bool {
    let mut found = false;
    for (place, capture) in &mut queues().captures {
        if is_meant(*place, capture) {
            capture.is_valid = false;
            found = true;
        }
    }
    found
}

pub(crate) fn begin_capture(place: Place, mode: Mode) -> Status {
    let mut queues = queues();
    if queues.captures.contains_key(&place) {
        return STREAM_CAPTURED;
    }
    queues.captures.insert(place, Capture { tasks: Vec::new(), mode, is_valid: true });
    OK
}

pub(crate) fn end_capture(place: Place) -> Result<Model, Status> {
    let capture = queues().captures.remove(&place).ok_or(NOT_CAPTURED)?;
    if capture.is_valid { Ok(Model { tasks: capture.tasks }) } else { Err(CAPTURE_INVALIDATED) }
}

/// `None`: it is not captured; else whether the capture is good so far.
pub(crate) fn capture_of(place: Place) -> Option<bool> {
    queues().captures.get(&place).map(|capture| capture.is_valid)
}

/// Once more what was captured, as the next tasks of a stream.
pub(crate) fn replay(model: &Model, place: Place) {
    for task in &model.tasks {
        let again = Arc::clone(task);
        submit(place, Task { logged: None, work: Box::new(move || again.run()) });
    }
}

/// Private to the simulator: 1 if what is launched may run later, or again, so that what it uses must stay.
#[unsafe(no_mangle)]
pub extern "C" fn simRtHoldsTasks() -> i32 {
    i32::from(is_deferred() || !queues().captures.is_empty())
}
