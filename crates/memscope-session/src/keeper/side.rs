//! The keeper as a process of its own, beside a program that began to record while it ran.
//!
//! The program starts it in a session of its own, so that neither Ctrl-C nor the end of the program's group ends it. What it
//! is given are its standard streams: a socket to the program, a descriptor of the program's process (or none, where the
//! kernel has no such thing), and a file for what it has to say. The settings come as the recorder has them, in the
//! environment.
//!
//! It is nobody's child: what is started only starts it once more, so that the program, which may wait for any child of its
//! own, does not see it.
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};

use super::oom_kills::OomKillWatch;
use super::{Family, Keeper, Run};
use crate::device_usage::DeviceUsage;
use crate::export::{ExportWishes, export_all, recorded_processes};
use crate::invocation::RunRecord;
use crate::printer::Printer;
use crate::record_config::DecodedConfig;
use crate::report::{ReportOutcome, report_run};
use crate::settings::{Format, LogLevel, Settings};
use crate::signals::Interruption;
use crate::usage_error::quoted;
use crate::windows_home;

/// The hidden command that is the keeper. Its operand is a [`Watched`].
pub const COMMAND: &str = "side-keeper";

/// What the program says, a byte each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Files of what is recorded so far.
    Export,
    /// An answer, [`DONE`] or [`UNWRITTEN`], when all that was asked for before is done.
    Answer,
    /// The program ends and waits: files and a report, to the descriptor that comes with it, then an answer.
    Report,
    /// The program is about to end and waits for nothing: files and a report, to the descriptor that comes with it, once it has.
    Leave,
}

/// What the keeper says to [`Wish::Answer`] and [`Wish::Report`].
pub const DONE: u8 = b'd';
/// What it says to [`Wish::Answer`] instead if files could not be written; its log says why.
pub const UNWRITTEN: u8 = b'u';

impl Wish {
    const ALL: [Wish; 4] = [Wish::Export, Wish::Answer, Wish::Report, Wish::Leave];

    pub const fn byte(self) -> u8 {
        match self {
            Wish::Export => b'e',
            Wish::Answer => b'a',
            Wish::Report => b'r',
            Wish::Leave => b'l',
        }
    }

    fn of_byte(byte: u8) -> Option<Wish> {
        Self::ALL.into_iter().find(|wish| wish.byte() == byte)
    }
}

/// The program, by its number and its start, which no later process of that number has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watched {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl Watched {
    pub fn of_process(pid: u32) -> Option<Watched> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The second field may hold anything, but ends with the last parenthesis.
        let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let start_time = std::str::from_utf8(&stat[after..]).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Watched { pid, start_time })
    }

    pub fn parse(text: &str) -> Option<Watched> {
        let (pid, start_time) = text.split_once(':')?;
        Some(Watched { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    }

    fn is_alive(self) -> bool {
        Watched::of_process(self.pid) == Some(self)
    }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.pid, self.start_time)
    }
}

/// What happened in or to the program.
#[derive(Debug)]
enum News {
    Wish(Wish, Option<OwnedFd>),
    Died,
}

/// How the program ended.
struct End {
    /// Where its user reads.
    terminal: Option<OwnedFd>,
    /// It waits for its files.
    is_waited_for: bool,
}

/// Keeps the run until the program has ended and its files are written. `record` is what the recorder was told.
pub fn keep(watched: Watched, record: &OsStr) -> anyhow::Result<()> {
    let config = DecodedConfig::decode(record).ok_or_else(|| anyhow::anyhow!("the settings of the run are missing"))?;
    if is_session_leader() {
        return start_once_more(watched);
    }
    let DecodedConfig { settings, run: run_id, utc_offset } = config;
    let started = SystemTime::now();
    let log = std::fs::read_link("/proc/self/fd/2").ok();
    let printer = Printer::new(settings.brand, settings.log_level);
    let usage = DeviceUsage::start(&settings, run_id, &printer);
    let run = Run { run_id, brand: settings.brand, utc_offset, output_dir: settings.output_dir.clone() };
    let keeper = Keeper::start(run, Family::Of(watched.pid))
        .inspect_err(|error| printer.note(&format_args!("processes of other users cannot be recorded: {error}")))
        .ok();
    let interruption = Interruption::default();
    let oom_kills = OomKillWatch::begin();
    let news = listen(watched, &interruption)?;
    let end = answer_wishes(&news, &settings, run_id, &interruption);
    let oom_kills = oom_kills.end();

    if let Some(terminal) = &end.terminal {
        let _ = rustix::stdio::dup2_stderr(terminal);
    }
    usage.end(&printer);
    let unrecorded = keeper.map(|keeper| keeper.end(PATIENCE)).unwrap_or_default();
    windows_home::bring(&settings.output_dir, &printer);
    let ended = SystemTime::now();
    let (output_dir, brand) = (settings.output_dir.clone(), settings.brand);
    let record =
        RunRecord { run_id, output_dir, started, ended, child_pid: watched.pid, status: None, brand, oom_kills };
    let outcome = report_run(&settings, &record, unrecorded, &Interruption::default(), &printer);
    let later = format_args!("{} export {}", settings.brand.name(), quoted(&settings.output_dir)).to_string();
    match outcome {
        Ok(ReportOutcome::Complete | ReportOutcome::Interrupted) => {}
        Ok(ReportOutcome::Unwritten) => printer
            .error(&format_args!("not all files could be written; the recording is kept, export it with: {later}")),
        Err(error) => printer.error(&format_args!("{error:#}; the recording is kept, export it with: {later}")),
    }
    if let Some(log) = log.filter(|log| log.metadata().is_ok_and(|log| log.is_file() && log.len() == 0)) {
        // All was said on the program's own stream.
        let _ = std::fs::remove_file(log);
    }
    if end.is_waited_for {
        // Whatever the program's error stream was: nobody shall wait for us because of it.
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
        let _ = nowhere.map(|nowhere| rustix::stdio::dup2_stderr(&nowhere));
        let _ = send(io::stdin(), &[DONE], SendFlags::NOSIGNAL);
        // What a process keeps elsewhere it holds as long as it lives.
        while !matches!(news.recv(), Ok(News::Died) | Err(_)) {}
        windows_home::bring(&settings.output_dir, &Printer::new(settings.brand, LogLevel::Error));
    }
    Ok(())
}

/// How long the end waits for threads that look after processes.
const PATIENCE: Duration = Duration::from_secs(1);

fn is_session_leader() -> bool {
    rustix::process::getsid(None).is_ok_and(|session| session == rustix::process::getpid())
}

/// With the same streams.
fn start_once_more(watched: Watched) -> anyhow::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND).arg(watched.to_string());
    // Not in the program's directory, which may be on a disk that is to be taken out.
    command.current_dir("/").stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit()).spawn()?;
    Ok(())
}

/// Answers the program until it ends.
fn answer_wishes(news: &Receiver<News>, settings: &Settings, run_id: u64, interruption: &Interruption) -> End {
    let mut answer = DONE;
    let mut left = None;
    loop {
        let first = news.recv().unwrap_or(News::Died);
        let (mut export, mut answers, mut next) = (false, 0, Some(first));
        // Whatever was asked for meanwhile is asked for once.
        while let Some(one) = next {
            match one {
                News::Wish(Wish::Export, _) => export = true,
                News::Wish(Wish::Answer, _) => answers += 1,
                News::Wish(Wish::Leave, terminal) => left = terminal,
                News::Wish(Wish::Report, terminal) => return End { terminal, is_waited_for: true },
                News::Died => return End { terminal: left, is_waited_for: false },
            }
            next = news.try_recv().ok();
        }
        if export {
            answer = if export_so_far(settings, run_id, interruption) { DONE } else { UNWRITTEN };
        }
        for _ in 0..answers {
            let _ = send(io::stdin(), &[answer], SendFlags::NOSIGNAL);
        }
    }
}

/// Says whether all files were written. Why not is said in the log, everything else at the end.
fn export_so_far(settings: &Settings, run_id: u64, interruption: &Interruption) -> bool {
    let printer = Printer::new(settings.brand, LogLevel::Error);
    if settings.data_format == Format::NoFiles {
        return true;
    }
    let recordings = match recorded_processes(&settings.output_dir, Some(run_id), &printer) {
        Ok(recordings) => recordings,
        Err(error) => {
            printer.error(&error);
            return false;
        }
    };
    let wishes =
        ExportWishes { format: Some(settings.data_format), stacks: settings.stacks, ..ExportWishes::default() };
    // Interrupted, it is done once more at the end.
    let Some(batch) = export_all(&recordings, &wishes, interruption, &printer) else { return true };
    for failure in batch.reports.iter().flat_map(|report| &report.unwritten) {
        printer.error(failure);
    }
    batch.unwritten() == 0
}

/// Threads that wait for the program's words and for its end; the end interrupts an export of a part.
fn listen(watched: Watched, interruption: &Interruption) -> io::Result<Receiver<News>> {
    let (sender, news) = mpsc::channel();
    let (words, heard) = (sender.clone(), interruption.clone());
    thread::Builder::new().name("words".to_owned()).spawn(move || hear_words(&words, &heard))?;
    let died = interruption.clone();
    thread::Builder::new().name("end".to_owned()).spawn(move || {
        wait_for_end(watched);
        died.request();
        let _ = sender.send(News::Died);
    })?;
    Ok(news)
}

/// Until nobody can say anything any more: that is no sign of the program's end, which may have closed what it had.
fn hear_words(words: &Sender<News>, interruption: &Interruption) {
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(io::stdin(), &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC);
        match received {
            Ok(received) if received.bytes > 0 => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => return,
        }
        let mut files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file = files.next().and_then(|mut files| files.next());
        if let Some(wish) = Wish::of_byte(byte[0]) {
            if wish == Wish::Report {
                interruption.request();
            }
            if words.send(News::Wish(wish, file)).is_err() {
                return;
            }
        }
    }
}

fn wait_for_end(watched: Watched) {
    /// From one look to the next, where the kernel cannot tell.
    const INTERVAL: Duration = Duration::from_millis(100);
    let output = io::stdout();
    let link = std::fs::read_link(Path::new("/proc/self/fd/1")).unwrap_or_default();
    if link.to_string_lossy().contains("pidfd") {
        loop {
            match poll(&mut [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)], None) {
                Ok(1..) => return,
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
    while watched.is_alive() {
        thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = Watched::of_process(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert_eq!(Watched::parse(&own.to_string()), Some(own));
        assert!(!Watched { start_time: own.start_time + 1, ..own }.is_alive());
        assert_eq!(Watched::parse("12"), None);
    }

    #[test]
    fn every_wish_has_a_byte_of_its_own() {
        for wish in Wish::ALL {
            assert_eq!(Wish::of_byte(wish.byte()), Some(wish));
        }
        assert_eq!([DONE, UNWRITTEN].map(Wish::of_byte), [None; 2]);
    }
}
