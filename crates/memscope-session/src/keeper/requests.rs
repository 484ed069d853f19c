//! Processes that ask for their files, or say that they are not recorded.
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use memscope_format::keeper::{DESCRIPTORS, IN_PROGRESS, LONGEST_REQUEST, Reason, Reply, Request, Wish, socket_name};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, recv, sendmsg, socket_with, sockopt,
};

use super::unrecorded::{Unrecorded, UnrecordedLog};
use super::{Run, note, process_files};
use crate::environment;
use crate::libraries::Libraries;
use crate::program::Refusal;
use crate::usage_error::quoted;

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
    packet: Vec<u8>,
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
            let mut packet = [0; LONGEST_REQUEST + 1];
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
        if Request::decode(packet).is_none_or(|request| request.run_id != self.run_id) {
            return;
        }
        let client = Arc::new(client);
        if reply(client.as_fd(), IN_PROGRESS, &[]) {
            self.pending.push(Arc::downgrade(&client));
        }
        // Workers live as long as this end does.
        let _ = self.jobs.send(Job { client, packet: packet.to_vec() });
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
                let Ok(Job { client, packet }) = job else { break };
                if let Some(request) = Request::decode(&packet) {
                    answer(&run, client.as_fd(), request, &log);
                }
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

fn answer(run: &Run, client: BorrowedFd<'_>, request: Request<'_>, log: &Mutex<UnrecordedLog>) {
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
        Wish::NotRecorded(Reason::Bits32) => Refusal::Bits32.to_string(),
        Wish::NotRecorded(Reason::Unreachable) => unreachable_libraries(&own),
        Wish::NotRecorded(Reason::Filter) => {
            "the process that it began in has a seccomp filter, which it inherits, and which may end it for what a recording \
             needs"
                .to_owned()
        }
    };
    // The process waits for the answer, so that it is still there to be looked at.
    let mut process = Unrecorded::of_process(pid, user, reason);
    if !request.program.is_empty() {
        process.will_be(OsStr::from_bytes(request.program));
    }
    note(log, process);
    reply(client, 0, &[]);
}

/// What keeps a process from our libraries, and what would help.
fn unreachable_libraries(own: &io::Error) -> String {
    let command = std::env::current_exe().ok();
    let chosen = std::env::var_os(environment::LIBRARY_DIR);
    let libraries = Libraries::find(chosen.as_deref(), command.as_deref(), false).ok();
    let library = libraries.as_ref().and_then(|libraries| libraries.paths().first());
    let closed = library.and_then(|library| {
        let open_to_all = |path: &Path, bits: u32| path.metadata().is_ok_and(|metadata| metadata.mode() & bits == bits);
        let directories: Vec<&Path> = library.ancestors().skip(1).collect();
        let closed = directories.into_iter().rev().find(|directory| !open_to_all(directory, 0o001));
        closed.or_else(|| Some(library.as_path()).filter(|library| !open_to_all(library, 0o004)))
    });
    match closed.filter(|_| own.kind() == io::ErrorKind::PermissionDenied) {
        Some(closed) => format!(
            "{} is closed to its user, so that neither it nor what it starts can load the recording library; install \
             msmemscope where every user of the job may read it",
            quoted(closed)
        ),
        None => {
            format!("neither it nor what it starts can load the recording library, which cannot be read there: {own}")
        }
    }
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
