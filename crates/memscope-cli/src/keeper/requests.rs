//! Processes that ask for their files, or say that they are not recorded.
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use memscope_format::keeper::{DESCRIPTORS, REQUEST_SIZE, Reason, Reply, Request, Wish, socket_name};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, listen, recv, sendmsg, socket_with, sockopt,
};

use super::unrecorded::{Unrecorded, UnrecordedLog};
use super::{Run, process_files};

/// A process sends at once; one that does not is no process of ours.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_CLIENTS: usize = 256;

#[derive(Debug)]
pub(super) struct Requests {
    run: Run,
    listener: OwnedFd,
    clients: Vec<(OwnedFd, Instant)>,
}

impl Requests {
    pub(super) fn listen(run: &Run) -> io::Result<Requests> {
        const BACKLOG: i32 = 1024;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(&socket_name(run.run_id))?)?;
        listen(&listener, BACKLOG)?;
        Ok(Requests { run: run.clone(), listener, clients: Vec::new() })
    }

    /// What to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|(client, _)| client.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients)
    }

    /// Takes in who is there and answers who has asked. Never waits.
    pub(super) fn serve(&mut self, log: &mut UnrecordedLog) {
        while self.clients.len() < MOST_CLIENTS {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(client) => self.clients.push((client, Instant::now())),
                Err(_) => break,
            }
        }
        let run = &self.run;
        self.clients.retain(|(client, since)| {
            let mut packet = [0; REQUEST_SIZE + 1];
            match recv(client, &mut packet, RecvFlags::empty()) {
                Ok((length, _)) => {
                    answer(run, client.as_fd(), packet.get(..length).unwrap_or_default(), log);
                    false
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => since.elapsed() < PATIENCE,
                Err(_) => false,
            }
        });
    }
}

fn answer(run: &Run, client: BorrowedFd<'_>, packet: &[u8], log: &mut UnrecordedLog) {
    // Who does not know the run is told nothing.
    let Some(request) = Request::decode(packet).filter(|request| request.run_id == run.run_id) else { return };
    let Ok(peer) = sockopt::socket_peercred(client) else { return };
    let (pid, user) = (peer.pid.as_raw_nonzero().get() as u32, peer.uid.as_raw());
    let own = io::Error::from_raw_os_error(request.errno);
    let reason = match request.wish {
        Wish::Files => match process_files::create(run, pid) {
            Ok((windows, events)) => return reply(client, 0, &[windows.as_fd(), events.as_fd()]),
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
        Wish::NotRecorded(Reason::NoSpace) => format!("there is no space for its recording: {own}"),
        Wish::NotRecorded(Reason::OldKernel) => {
            format!("the kernel is too old to follow forks (4.14 is needed): {own}")
        }
    };
    // The process waits for the answer, so that it is still there to be looked at.
    log.note(Unrecorded::of_process(pid, user, reason));
    reply(client, 0, &[]);
}

/// A process that has gone needs no answer.
fn reply(client: BorrowedFd<'_>, errno: i32, files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = Reply { errno }.encode();
    let _ = sendmsg(client, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
}
