//! Processes that ask for their files, or say that they are not recorded.
use std::convert::Infallible;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use memscope_format::keeper::{DESCRIPTORS, IN_PROGRESS, REQUEST_SIZE, Reason, Reply, Request, Wish, socket_name};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, recv, sendmsg, socket_with, sockopt,
};

use super::unrecorded::{Unrecorded, UnrecordedLog};
use super::{Run, note, process_files};

/// A process sends at once; one that does not is no process of ours.
const PATIENCE: Duration = Duration::from_secs(4);
const MOST_CLIENTS: usize = 1024;
/// Processes that wait for their files hear so often that the keeper is alive; they give up after some times as long.
const SIGN_OF_LIFE: Duration = Duration::from_millis(300);
/// Making a directory means waiting for a disk: several wait side by side.
const WORKERS: usize = 4;

/// The listening side: takes requests in and never waits for a disk.
#[derive(Debug)]
pub(super) struct Requests {
    run_id: u64,
    listener: OwnedFd,
    /// Connected, and nothing said yet.
    clients: Vec<(OwnedFd, Instant)>,
    /// Being answered by a worker.
    pending: Vec<Weak<OwnedFd>>,
    reminded: Instant,
    jobs: Sender<Job>,
}

/// A request in the hands of a worker.
#[derive(Debug)]
pub(super) struct Job {
    client: Arc<OwnedFd>,
    request: Request,
}

impl Requests {
    /// Also the end at which workers take their jobs.
    pub(super) fn listen(run: &Run) -> io::Result<(Requests, Receiver<Job>)> {
        const BACKLOG: i32 = 4096;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(&socket_name(run.run_id))?)?;
        listen(&listener, BACKLOG)?;
        let (jobs, to_do) = mpsc::channel();
        let (clients, pending) = (Vec::new(), Vec::new());
        Ok((Requests { run_id: run.run_id, listener, clients, pending, reminded: Instant::now(), jobs }, to_do))
    }

    /// What to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|(client, _)| client.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients)
    }

    /// Takes in who is there and hands on who has asked.
    pub(super) fn serve(&mut self) {
        while self.clients.len() < MOST_CLIENTS {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(client) => self.clients.push((client, Instant::now())),
                Err(_) => break,
            }
        }
        for (client, since) in std::mem::take(&mut self.clients) {
            let mut packet = [0; REQUEST_SIZE + 1];
            match recv(&client, &mut packet, RecvFlags::empty()) {
                Ok((length, _)) => self.take_in(client, packet.get(..length).unwrap_or_default()),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) if since.elapsed() < PATIENCE => {
                    self.clients.push((client, since));
                }
                Err(_) => {}
            }
        }
        if self.reminded.elapsed() >= SIGN_OF_LIFE {
            self.reminded = Instant::now();
            self.pending
                .retain(|client| client.upgrade().is_some_and(|client| reply(client.as_fd(), IN_PROGRESS, &[])));
        }
    }

    fn take_in(&mut self, client: OwnedFd, packet: &[u8]) {
        // Who does not know the run is told nothing.
        let Some(request) = Request::decode(packet).filter(|request| request.run_id == self.run_id) else { return };
        let client = Arc::new(client);
        if reply(client.as_fd(), IN_PROGRESS, &[]) {
            self.pending.push(Arc::downgrade(&client));
        }
        // Workers live as long as this end does.
        let _ = self.jobs.send(Job { client, request });
    }
}

/// Starts threads that answer requests until the listening side is gone; `until_end` is dropped with the last of them.
pub(super) fn start_workers(
    run: &Run,
    to_do: Receiver<Job>,
    log: &Arc<Mutex<UnrecordedLog>>,
    until_end: &Sender<Infallible>,
) -> io::Result<()> {
    let to_do = Arc::new(Mutex::new(to_do));
    for _ in 0..WORKERS {
        let (run, to_do, log, until_end) = (run.clone(), Arc::clone(&to_do), Arc::clone(log), until_end.clone());
        thread::Builder::new().name("keeper files".to_owned()).spawn(move || {
            prefer_this_thread();
            loop {
                let job = to_do.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(Job { client, request }) = job else { break };
                answer(&run, client.as_fd(), request, &log);
            }
            drop(until_end);
        })?;
    }
    Ok(())
}

/// Where the program keeps all processors busy, its processes would give up waiting. Not everybody may do this.
pub(super) fn prefer_this_thread() {
    let _ = rustix::process::nice(-10);
}

fn answer(run: &Run, client: BorrowedFd<'_>, request: Request, log: &Mutex<UnrecordedLog>) {
    let Ok(peer) = sockopt::socket_peercred(client) else { return };
    let (pid, user) = (peer.pid.as_raw_nonzero().get() as u32, peer.uid.as_raw());
    let own = io::Error::from_raw_os_error(request.errno);
    let reason = match request.wish {
        Wish::Files => match process_files::create(run, pid) {
            Ok(files) => {
                if reply(client, 0, &[files.windows.as_fd(), files.events.as_fd()]) {
                    return;
                }
                // It has given up and records nothing.
                let _ = fs::remove_dir_all(&files.directory);
                "this command was too busy to make its directory in time".to_owned()
            }
            Err(error) => {
                reply(client, error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()), &[]);
                format!(
                    "cannot make its directory in {}: {own}; nor can this command: {error}",
                    run.output_dir.display()
                )
            }
        },
        Wish::NotRecorded(Reason::NoFiles) => {
            format!("cannot make its directory in {}: {own}", run.output_dir.display())
        }
        Wish::NotRecorded(Reason::NoSpace) => {
            process_files::remove_unbegun(run, pid);
            format!("there is no space for its recording: {own}")
        }
        Wish::NotRecorded(Reason::OldKernel) => {
            format!("the kernel is too old to follow forks (4.14 is needed): {own}")
        }
    };
    // The process waits for the answer, so that it is still there to be looked at.
    note(log, Unrecorded::of_process(pid, user, reason));
    reply(client, 0, &[]);
}

/// Tells whether the process still waited for it.
fn reply(client: BorrowedFd<'_>, errno: i32, files: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = Reply { errno }.encode();
    sendmsg(client, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
}
