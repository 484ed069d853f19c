//! Schedules of threads, signals, forks and ends of threads through the real code that owns lanes.
//!
//! The code runs as it is, on real files, with real forks; only who runs, and who the kernel says is there, is the model's. Its threads
//! take turns on one thread of the system, so that every interleaving of the places marked by [`crate::step::point`] can be had, and
//! had again. At such a place one thread, or several, can be
//!
//! * ended, as by a raw `exit` in a signal handler: no frame of it is put right,
//! * left by a jump to where its hook was called,
//! * interrupted by a handler that records itself, forks, jumps or ends the thread.
//!
//! What must hold afterwards is asked of the files by the reader that users have: every event of a call that came back is there once,
//! on its thread; what is missing was under way when its thread was ended or left, and is counted; nothing is damaged.
use crate::slot::Slot;
use std::cell::RefCell;
use std::panic;

mod run;
mod tests;

/// What happens to a thread at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// It is no more.
    End,
    /// Control goes back to where its hook was called.
    Jump,
    /// A handler runs on top of it, that records.
    Signal,
    /// The same, and then the handler ends the thread.
    SignalEnd,
    /// A handler forks; in the child it records and goes back to what it interrupted.
    Fork,
}

/// What the unwinding of the frames stands for.
enum Left {
    ByEnd,
    ByJump,
}

/// A thread of the model, in the order of its beginning.
struct Thread {
    number: u32,
    is_alive: bool,
    /// As large as the thread-local block, zeroed as that is.
    slot: Box<[usize; 24]>,
    /// Places it has been at.
    steps: usize,
    /// Handlers that are at work on it.
    handlers: u32,
    tasks: usize,
}

/// One schedule: the threads, and what happens to whom.
#[derive(Default)]
struct World {
    threads: Vec<Thread>,
    /// Of the thread that began as the so-many-th, at its so-many-th step.
    acts: Vec<(usize, usize, Act)>,
    /// Acts that found their place.
    happened: usize,
    /// Here after a fork: nobody else runs any more.
    is_child: bool,
    handler: Option<fn()>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Where the thread's slot is; `None` outside of a schedule.
pub(crate) fn slot() -> Option<*mut Slot> {
    with_thread(|thread| thread.slot.as_mut_ptr().cast())
}

pub(crate) fn current_thread() -> Option<u32> {
    with_thread(|thread| thread.number)
}

/// What the kernel would say; `None` for one that is not of the model.
pub(crate) fn thread_exists(number: u32) -> Option<bool> {
    WORLD.with_borrow(|world| {
        let mut alike = world.threads.iter().filter(|thread| thread.number == number).peekable();
        alike.peek()?;
        // In a forked child there is only the one that forked; its number there is another, but nobody asks.
        Some(alike.any(|thread| thread.is_alive))
    })
}

pub(crate) fn is_in_handler() -> bool {
    with_thread(|thread| thread.handlers > 0) == Some(true)
}

fn with_thread<T>(look: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    let task = task()?;
    WORLD.with_borrow_mut(|world| world.threads.iter_mut().find(|thread| thread.tasks == task).map(look))
}

fn task() -> Option<usize> {
    shuttle::current::try_get_current_task().map(usize::from)
}

/// A place at which anything may happen.
pub(crate) fn point() {
    let Some(task) = task() else { return };
    let act = WORLD.with_borrow_mut(|world| {
        if world.is_child {
            return None;
        }
        let place = world.threads.iter().position(|thread| thread.tasks == task)?;
        let thread = world.threads.get_mut(place)?;
        thread.steps += 1;
        let now = (place, thread.steps);
        let act = world.acts.iter().find(|(thread, step, _)| (*thread, *step) == now).map(|(.., act)| *act)?;
        world.happened += 1;
        Some(act)
    });
    match act {
        None => {}
        Some(Act::End) => leave(Left::ByEnd),
        Some(Act::Jump) => leave(Left::ByJump),
        Some(Act::Signal) => on_top(),
        Some(Act::SignalEnd) => {
            on_top();
            leave(Left::ByEnd)
        }
        Some(Act::Fork) => {
            with_thread(|thread| thread.handlers += 1);
            run::fork_in_handler();
            with_thread(|thread| thread.handlers -= 1);
        }
    }
    if !WORLD.with_borrow(|world| world.is_child) {
        shuttle::thread::yield_now();
    }
}

/// Leaves the frames up to where the hook was called, without a word.
fn leave(how: Left) {
    panic::resume_unwind(Box::new(how));
}

fn on_top() {
    with_thread(|thread| thread.handlers += 1);
    if let Some(handler) = WORLD.with_borrow(|world| world.handler) {
        handler();
    }
    with_thread(|thread| thread.handlers -= 1);
}
