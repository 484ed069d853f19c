//! Work that takes its time, without the GIL, and that Ctrl-C ends.
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use memscope_session::pass::Progress;
use pyo3::prelude::*;

/// Between two looks at what the user presses.
const PATIENCE: Duration = Duration::from_millis(50);

/// Does `work` in a thread of its own: Python's signals are handled by the one that asks, which has nothing else to do.
/// Interrupted, the exception is raised and the work is told to end.
pub(super) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&mut Progress<'_>) -> T + Send) -> PyResult<T> {
    let is_cancelled = AtomicBool::new(false);
    py.detach(|| {
        thread::scope(|scope| {
            let (done, answer) = mpsc::sync_channel(1);
            let is_cancelled = &is_cancelled;
            let worker = scope.spawn(move || {
                let mut go_on = |_: f64| match is_cancelled.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
                // Nobody listens any more if it was interrupted.
                let _ = done.send(work(&mut go_on));
            });
            loop {
                match answer.recv_timeout(PATIENCE) {
                    Ok(result) => return Ok(result),
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())
                        .inspect_err(|_| is_cancelled.store(true, Ordering::Relaxed))?,
                    // It has panicked: that becomes an exception of Python's.
                    Err(RecvTimeoutError::Disconnected) => {
                        let panic = worker.join().err().unwrap_or_else(|| Box::new("the thread that reads has ended"));
                        resume_unwind(panic);
                    }
                }
            }
        })
    })
}

/// Panics where recordings are read, with this message. For the tests: nothing the package is known for does.
#[pyfunction]
pub(crate) fn provoke_panic(py: Python<'_>, message: &str) -> PyResult<()> {
    interruptible(py, |_| panic!("{message}"))
}

/// Looks at the user's signals now and then, from work in pieces that is done without the GIL.
pub(super) struct Lookout(Instant);

impl Lookout {
    pub(super) fn new() -> Lookout {
        Lookout(Instant::now())
    }

    pub(super) fn look(&mut self) -> PyResult<()> {
        if self.0.elapsed() < PATIENCE {
            return Ok(());
        }
        self.0 = Instant::now();
        Python::attach(|py| py.check_signals())
    }
}
