//! The run's keeper: a thread that lives as long as the program. It makes the files of processes that cannot make their
//! own (another user, another root directory), and notes which processes are not recorded, and why.
mod descendants;
mod process_files;
mod requests;
mod unrecorded;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use self::unrecorded::{Unrecorded, read_all, read_run};

use self::descendants::Descendants;
use self::requests::Requests;
use self::unrecorded::UnrecordedLog;
use crate::brand::Brand;

/// From one look at the processes of the run to the next; what lives shorter may be missed.
const INTERVAL: Duration = Duration::from_millis(50);

/// What the keeper has to know of its run.
#[derive(Clone, Debug)]
pub struct Run {
    pub run_id: u64,
    pub brand: Brand,
    /// Seconds east of Greenwich.
    pub utc_offset: i32,
    pub output_dir: PathBuf,
}

#[derive(Debug)]
pub struct Keeper {
    /// Closing it asks the thread to end.
    running: UnixStream,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Call before the program is started, so that its first process finds the keeper.
    pub fn start(run: Run) -> io::Result<Keeper> {
        let requests = Requests::listen(&run)?;
        let log = UnrecordedLog::new(&run.output_dir, run.run_id);
        let (running, asked_to_end) = UnixStream::pair()?;
        let thread =
            thread::Builder::new().name("keeper".to_owned()).spawn(move || keep(requests, log, &asked_to_end))?;
        Ok(Keeper { running, thread })
    }

    /// Call when the program has ended; afterwards what was noted can be read.
    pub fn end(self) {
        drop(self.running);
        // A panic there has been printed, and costs the notes only.
        let _ = self.thread.join();
    }
}

fn keep(mut requests: Requests, mut log: UnrecordedLog, asked_to_end: &UnixStream) {
    let interval = Timespec { tv_sec: 0, tv_nsec: i64::from(INTERVAL.subsec_nanos()) };
    let mut descendants = Descendants::of_this_process();
    let mut looked = std::time::Instant::now();
    loop {
        let ended = {
            let mut waits = vec![PollFd::new(asked_to_end, PollFlags::IN)];
            waits.extend(requests.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut waits, Some(&interval)) {
                Ok(_) => !waits[0].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => false,
                Err(_) => true,
            }
        };
        requests.serve(&mut log);
        if looked.elapsed() >= INTERVAL || ended {
            descendants.look(&mut log);
            looked = std::time::Instant::now();
        }
        if ended {
            return;
        }
    }
}
