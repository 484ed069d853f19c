//! The run's keeper: threads that live as long as the program. It makes the files of processes that cannot make their
//! own (another user, another root directory), and notes which processes are not recorded, and why.
mod descendants;
mod filters;
pub mod oom_kills;
mod process_files;
mod requests;
pub mod side;
mod unrecorded;

use std::convert::Infallible;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::process_files::left_without_files;
pub use self::unrecorded::{Unrecorded, read_all};

use self::descendants::Descendants;
use self::filters::Filters;
use self::requests::Requests;
use self::unrecorded::UnrecordedLog;
use crate::brand::Brand;

/// From one look at the processes of the run to the next; what lives shorter may be missed.
const INTERVAL: Duration = Duration::from_millis(50);
/// The same while one of them has just begun.
const YOUNG_INTERVAL: Duration = Duration::from_millis(5);

/// What the keeper has to know of its run.
#[derive(Clone, Debug)]
pub struct Run {
    pub run_id: u64,
    pub brand: Brand,
    /// Seconds east of Greenwich.
    pub utc_offset: i32,
    pub output_dir: PathBuf,
}

/// Whose processes are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Those of the keeper's own children: all of them are to be recorded.
    Own,
    /// This process and what it forks: what else a program starts that began to record by itself is not recorded, and need not
    /// be.
    Of(u32),
}

#[derive(Debug)]
pub struct Keeper {
    /// Closing it asks the threads to end.
    running: UnixStream,
    /// Closed when the threads have ended.
    end: Receiver<Infallible>,
    log: Arc<Mutex<UnrecordedLog>>,
}

impl Keeper {
    /// Call before the program is started, so that its first process finds the keeper.
    pub fn start(run: Run, family: Family) -> io::Result<Keeper> {
        let (requests, to_do) = Requests::listen(&run)?;
        let log = Arc::new(Mutex::new(UnrecordedLog::new(&run.output_dir, run.run_id)));
        let (running, asked_to_end) = UnixStream::pair()?;
        let (until_end, end) = mpsc::channel();
        let (ends_too, looker_log, looker_until_end) = (asked_to_end.try_clone()?, Arc::clone(&log), until_end.clone());
        requests::start_workers(&run, to_do, &log, &until_end)?;
        // Threads of their own: a process that asks must not wait for a disk, nor for a look at all the others.
        thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            serve(requests, &asked_to_end);
            drop(until_end);
        })?;
        thread::Builder::new().name("keeper look".to_owned()).spawn(move || {
            look(&run, family, &looker_log, &ends_too);
            drop(looker_until_end);
        })?;
        Ok(Keeper { running, end, log })
    }

    /// Call when the program has ended; gives what was noted, also where the disk had no room for it. A process that hangs in
    /// the kernel can hold up whoever looks at it: the threads are left alone after `patience`.
    pub fn end(self, patience: Duration) -> Vec<Unrecorded> {
        drop(self.running);
        let _ = self.end.recv_timeout(patience);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).noted().to_vec()
    }
}

fn serve(mut requests: Requests, asked_to_end: &UnixStream) {
    requests::prefer_this_thread();
    loop {
        let ended = wait_for(asked_to_end, requests.descriptors(), INTERVAL);
        requests.serve();
        if ended {
            return;
        }
    }
}

fn look(run: &Run, family: Family, log: &Mutex<UnrecordedLog>, asked_to_end: &UnixStream) {
    // A machine with thousands of processes is looked at less often: at most this part of a processor is for looking.
    const SHARE: u32 = 50;
    let mut descendants = Descendants::new(family);
    let mut filters = Filters::of_run(run.clone());
    let mut pause = YOUNG_INTERVAL;
    loop {
        let ended = wait_for(asked_to_end, std::iter::empty(), pause);
        let began = Instant::now();
        descendants.look();
        if family == Family::Own {
            descendants.note_unrecorded(log);
        }
        let has_young = filters.look(&descendants.alive());
        let interval = if has_young { YOUNG_INTERVAL } else { INTERVAL };
        pause = interval.max(began.elapsed() * SHARE);
        if ended {
            return;
        }
    }
}

/// Waits for one of the descriptors, for a time at most; tells whether the end has come.
fn wait_for<'d>(
    asked_to_end: &'d UnixStream,
    descriptors: impl Iterator<Item = BorrowedFd<'d>>,
    at_most: Duration,
) -> bool {
    let at_most = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: i64::from(at_most.subsec_nanos()) };
    let mut waits = vec![PollFd::new(asked_to_end, PollFlags::IN)];
    waits.extend(descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
    match poll(&mut waits, Some(&at_most)) {
        Ok(_) => !waits[0].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

/// A thread that panicked with the log in its hands has left whole lines.
fn note(log: &Mutex<UnrecordedLog>, process: Unrecorded) {
    log.lock().unwrap_or_else(PoisonError::into_inner).note(process);
}

/// Whether there is a note of the process already.
fn knows(log: &Mutex<UnrecordedLog>, pid: u32) -> bool {
    log.lock().unwrap_or_else(PoisonError::into_inner).knows(pid)
}
