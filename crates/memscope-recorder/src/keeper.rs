//! The command that started the run, asked for help: it makes the files of a process that may not (another user, another
//! root directory), and is told of one that cannot be recorded.
//!
//! Every wait has an end: a keeper that is stopped, or gone, costs [`SILENCE_MS`] at most, once in a process's life; one that
//! is busy with hundreds of processes says so, and is waited for longer.
use crate::config::Config;
use memscope_format::keeper::{DESCRIPTORS, IN_PROGRESS, REPLY_SIZE, Reason, Reply, Request, Wish, socket_name};
use memscope_sys::{self as sys, Errno, Fd, clock_ns};

/// Without a sign of life.
const SILENCE_MS: u64 = 1500;
/// In all.
const PATIENCE_MS: u64 = 20_000;

/// Has the keeper make the files: `windows.spool` and `events.spool`. `errno` is the error the process had itself.
#[cold]
pub(crate) fn ask_for_files(config: &Config, errno: Errno) -> Result<(Fd, Fd), Errno> {
    let mut files = [None; DESCRIPTORS];
    let answer = converse(config, Wish::Files, errno, b"", &mut files);
    match (answer, files) {
        (Ok(()), [Some(windows), Some(events)]) => Ok((windows, events)),
        (answer, files) => {
            files.into_iter().flatten().for_each(sys::close);
            Err(answer.err().unwrap_or(Errno::EINVAL))
        }
    }
}

/// Has the process named in the summary.
#[cold]
pub(crate) fn tell_not_recorded(config: &Config, reason: Reason, errno: Errno) {
    tell_of_program(config, reason, errno, b"");
}

/// The same of a program that the process is about to become, or, with an empty name, is.
#[cold]
pub(crate) fn tell_of_program(config: &Config, reason: Reason, errno: Errno, program: &[u8]) {
    let mut files = [None; DESCRIPTORS];
    // Nobody to tell: nothing more can be done.
    let _ = converse(config, Wish::NotRecorded(reason), errno, program, &mut files);
    files.into_iter().flatten().for_each(sys::close);
}

fn converse(
    config: &Config,
    wish: Wish,
    errno: Errno,
    program: &[u8],
    files: &mut [Option<Fd>; DESCRIPTORS],
) -> Result<(), Errno> {
    let Some(owner) = config.owner else { return Err(Errno::ENOENT) };
    let socket = sys::packet_socket()?;
    let request = Request { wish, run_id: config.run_id, errno: errno.0, program };
    let answer = converse_over(socket, config, owner, request, files);
    sys::close(socket);
    answer
}

fn converse_over(
    socket: Fd,
    config: &Config,
    owner: u32,
    request: Request<'_>,
    files: &mut [Option<Fd>; DESCRIPTORS],
) -> Result<(), Errno> {
    let deadline = clock_ns(sys::Clock::Monotonic) + PATIENCE_MS * 1_000_000;
    sys::limit_waits(socket, SILENCE_MS)?;
    again(deadline, || sys::connect_abstract(socket, &socket_name(config.run_id)))?;
    // When the command has ended, its name is free for anybody, who would get a recording that is not theirs.
    if sys::peer_user(socket)? != owner {
        return Err(Errno::EPERM);
    }
    let (packet, length) = request.encode();
    again(deadline, || sys::send(socket, packet.get(..length).unwrap_or_default()))?;
    let mut reply = [0; REPLY_SIZE];
    loop {
        let length = again(deadline, || sys::receive(socket, &mut reply, files))?;
        match reply.get(..length).and_then(Reply::decode) {
            Some(Reply { errno: 0 }) => return Ok(()),
            Some(Reply { errno: IN_PROGRESS }) if clock_ns(sys::Clock::Monotonic) < deadline => {}
            Some(Reply { errno }) => return Err(Errno(errno)),
            None => return Err(Errno::EINVAL),
        }
    }
}

/// Signals of the program interrupt a wait; its end stays where it was.
fn again<T>(deadline: u64, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) if clock_ns(sys::Clock::Monotonic) < deadline => {}
            answer => return answer,
        }
    }
}
