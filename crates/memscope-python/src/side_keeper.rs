//! The process beside this one that exports and reports: how it is started, asked, and waited for at the end.
use std::ffi::{CString, OsStr, c_char, c_int};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

use memscope_session::brand::Brand;
use memscope_session::environment;
use memscope_session::keeper::side::{COMMAND, DONE, UNWRITTEN, Watched, Wish};
use memscope_session::line::Escaped;
use pyo3::prelude::*;

/// Our end of the socket, -1 if there is no keeper. Never closed: a process that was forked must find no file of its own there.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// Whose keeper it is: not that of a forked child.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The socket, in the process that started the keeper.
fn own_socket() -> Option<RawFd> {
    let socket = SOCKET.load(Acquire);
    (socket >= 0 && OWNER.load(Acquire) == std::process::id()).then_some(socket)
}

/// Starts the keeper, for a recording in this directory.
pub(crate) fn start(command: &Path, brand: Brand, record: &OsStr, output_dir: &Path) -> io::Result<()> {
    let watched = Watched::of_process(std::process::id()).ok_or_else(|| io::Error::other("/proc cannot be read"))?;
    let (ours, theirs) = socket_pair()?;
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_path(brand, output_dir))
        .and_then(|file| above_streams(file.into()))?;
    let process = match process_descriptor() {
        Some(process) => process,
        None => std::fs::File::open("/dev/null")?.into(),
    };
    let process = above_streams(process)?;
    let child = spawn(command, brand, record, watched, [theirs.as_raw_fd(), process.as_raw_fd(), log.as_raw_fd()])?;
    // It starts the keeper and ends.
    let mut status: c_int = 0;
    // SAFETY: our own child, and a place for its status. A program that ignores its children has none to wait for.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            _ => break,
        }
    }
    if status != 0 {
        return Err(io::Error::other(format!("{} ended with wait status {status:#x}", command.display())));
    }
    let _ = RECORDING.set((brand, output_dir.to_path_buf()));
    OWNER.store(std::process::id(), Release);
    SOCKET.store(ours.into_raw_fd(), Release);
    Ok(())
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: a place for two descriptors, which nobody else has.
    let (ours, theirs) = unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    Ok((above_streams(ours)?, above_streams(theirs)?))
}

/// A program may have closed its standard streams: our descriptors must not take their place.
fn above_streams(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > 2 {
        return Ok(file);
    }
    // SAFETY: a descriptor of ours; the new one is nobody else's.
    unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

/// By which the keeper hears of our end, whoever gets our number then; `None` before Linux 5.3.
fn process_descriptor() -> Option<OwnedFd> {
    // SAFETY: takes two numbers; the descriptor is nobody else's.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor as RawFd))
    }
}

/// The child in a session of its own, with these streams, no other descriptor where the C library can see to that, and
/// without what is preloaded here.
fn spawn(
    command: &Path,
    brand: Brand,
    record: &OsStr,
    watched: Watched,
    streams: [RawFd; 3],
) -> io::Result<libc::pid_t> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let path = text(command.as_os_str().as_bytes())?;
    let words = [text(brand.name().as_bytes())?, text(COMMAND.as_bytes())?, text(watched.to_string().as_bytes())?];
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        if name != environment::PRELOAD && name != environment::RECORD {
            variables.push(text(&[name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
    }
    variables.push(text(&[environment::RECORD.as_bytes(), b"=", record.as_bytes()].concat())?);
    let pointers = |texts: &[CString]| -> Vec<*mut c_char> {
        texts.iter().map(|text| text.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    };
    let (words, variables) = (pointers(&words), (pointers(&variables)));
    // SAFETY: all pointers live until the call returns; the two structures are initialised before they are used, and
    // destroyed after.
    unsafe {
        let mut files: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        libc::posix_spawn_file_actions_init(&raw mut files);
        libc::posix_spawnattr_init(&raw mut attributes);
        for (stream, file) in (0..).zip(streams) {
            libc::posix_spawn_file_actions_adddup2(&raw mut files, file, stream);
        }
        let close_from = libc::dlsym(libc::RTLD_DEFAULT, c"posix_spawn_file_actions_addclosefrom_np".as_ptr());
        if !close_from.is_null() {
            let close_from: extern "C" fn(*mut libc::posix_spawn_file_actions_t, c_int) -> c_int =
                std::mem::transmute(close_from);
            close_from(&raw mut files, 3);
        }
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::posix_spawnattr_setsigmask(&raw mut attributes, &raw const signals);
        libc::sigfillset(&raw mut signals);
        libc::posix_spawnattr_setsigdefault(&raw mut attributes, &raw const signals);
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID;
        libc::posix_spawnattr_setflags(&raw mut attributes, flags as libc::c_short);
        let mut child = 0;
        let error = libc::posix_spawn(
            &raw mut child,
            path.as_ptr(),
            &raw const files,
            &raw const attributes,
            words.as_ptr(),
            variables.as_ptr(),
        );
        libc::posix_spawn_file_actions_destroy(&raw mut files);
        libc::posix_spawnattr_destroy(&raw mut attributes);
        if error == 0 { Ok(child) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

/// Of glibc 2.26 and later.
const POSIX_SPAWN_SETSID: c_int = 0x80;

/// Files of what is recorded so far, in the background.
pub(crate) fn export() {
    if let Some(socket) = own_socket() {
        // A keeper that is gone, or has not looked for long, is missed by whoever waits for it.
        let _ = say(socket, Wish::Export, None, libc::MSG_DONTWAIT);
    }
}

/// What became of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    /// Done, but not all files could be written.
    Unwritten,
    NotYet,
    /// The keeper is gone.
    Gone,
}

/// Asks for an answer when all is done. `NotYet`: it will come; `Done`: this process has no keeper to wait for.
pub(crate) fn ask() -> Answer {
    match own_socket() {
        None => Answer::Done,
        Some(socket) if say(socket, Wish::Answer, None, 0).is_ok() => Answer::NotYet,
        Some(_) => Answer::Gone,
    }
}

/// Waits for the answer, for so many milliseconds at most; negative is for ever.
pub(crate) fn hear(milliseconds: c_int) -> Answer {
    let Some(socket) = own_socket() else { return Answer::Gone };
    let mut wait = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    let mut byte = 0u8;
    // SAFETY: one descriptor, and a place for one byte.
    unsafe {
        match libc::poll(&raw mut wait, 1, milliseconds) {
            0 => return Answer::NotYet,
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => return Answer::NotYet,
            -1 => return Answer::Gone,
            _ => {}
        }
        match libc::recv(socket, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) {
            1 if byte == DONE => Answer::Done,
            1 if byte == UNWRITTEN => Answer::Unwritten,
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) => Answer::NotYet,
            1 => Answer::NotYet,
            _ => Answer::Gone,
        }
    }
}

/// Says it, with a file of ours if there is one to pass on.
fn say(socket: RawFd, wish: Wish, file: Option<RawFd>, flags: c_int) -> io::Result<()> {
    let mut byte = wish.byte();
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Room for one header and one descriptor, aligned as a header is.
    let mut control = [0u64; 4];
    // SAFETY: one part and, if there is a file, one control message in the room for it, all alive until the call returns.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(file) = file {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(file);
        }
        loop {
            if libc::sendmsg(socket, &raw const message, flags | libc::MSG_NOSIGNAL) >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINTR) {
                return Err(error);
            }
        }
    }
}

/// Whether the end of the process is not to be held up: its Python has threads that go on while the interpreter is torn down.
static HURRIES: AtomicBool = AtomicBool::new(false);

/// The process is to end without waiting for the keeper, which goes on without it; it is told now, and nothing is done at the end.
#[pyfunction]
pub(crate) fn hurry() {
    let Some(socket) = own_socket() else { return };
    if say(socket, Wish::Leave, own_errors(), 0).is_ok() {
        HURRIES.store(true, Release);
        let name = RECORDING.get().map_or("", |(brand, _)| brand.name());
        let _ = writeln!(
            io::stderr(),
            "[{name}] the files are written after the program's end: threads of it are at work still"
        );
    }
}

/// Our error stream, if there is one.
fn own_errors() -> Option<RawFd> {
    // SAFETY: asks whether there is such a descriptor.
    let has_errors = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFD) } >= 0;
    has_errors.then_some(libc::STDERR_FILENO)
}

/// The process ends: everything has been freed that is freed at an end, and nothing of Python is left. The keeper is told,
/// shows what it has to say on our error stream, and is waited for, so that files are there when the command is over.
extern "C" fn end() {
    if HURRIES.load(Acquire) {
        return;
    }
    let Some(socket) = own_socket() else { return };
    if let Some(api) = crate::table::find() {
        (api.end)();
    }
    let mut answer = match say(socket, Wish::Report, own_errors(), 0) {
        Ok(()) => Answer::NotYet,
        Err(_) => Answer::Gone,
    };
    while answer == Answer::NotYet {
        answer = hear(-1);
    }
    OWNER.store(0, Release);
    if answer == Answer::Gone {
        // Where nobody hears it, it is lost.
        let name = RECORDING.get().map_or("", |(brand, _)| brand.name());
        let _ = writeln!(io::stderr(), "[{name}] error: {}", Escaped(complaint(answer)));
    }
}

/// Who is told how files are written without the keeper: the name of the command, and the recording.
static RECORDING: OnceLock<(Brand, PathBuf)> = OnceLock::new();

/// Why there are no files, and how they are written nevertheless.
pub(crate) fn complaint(answer: Answer) -> String {
    let Some((brand, output_dir)) = RECORDING.get() else { return String::new() };
    let (name, directory) = (brand.name(), output_dir.display());
    match answer {
        Answer::Unwritten => format!(
            "not all files could be written ({} says why); the recording is kept, write them to another place with: {name} \
             export {directory} --output DIR",
            log_path(*brand, output_dir).display()
        ),
        _ => format!(
            "the process that writes the files has ended; the recording is kept, write them with: {name} export {directory}"
        ),
    }
}

/// Where the keeper says what nobody waits for.
fn log_path(brand: Brand, output_dir: &Path) -> PathBuf {
    output_dir.join(format!("{}_{}.log", brand.name(), std::process::id()))
}

/// Not an `atexit` of Python's: live objects are freed after the last of those.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
