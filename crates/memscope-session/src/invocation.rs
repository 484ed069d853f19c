//! Starts the program with the recording libraries, waits for it, and lets its end be ours.
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::SystemTime;

use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, setrlimit, waitid};

use crate::brand::Brand;
use crate::environment;
use crate::keeper::oom_kills::OomKills;
use crate::program::{Program, ProgramKind};
use crate::program_end::ProgramEnd;
use crate::signals::{Interruption, SignalRelay};

/// What is known of a run when it has ended.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// In the configuration of every process of the run, and in what those wrote.
    pub run_id: u64,
    pub output_dir: PathBuf,
    pub started: SystemTime,
    pub ended: SystemTime,
    pub child_pid: u32,
    /// `None`: only a program's parent is told.
    pub status: Option<ExitStatus>,
    pub brand: Brand,
    /// Whom the kernel killed meanwhile for want of memory.
    pub oom_kills: OomKills,
}

impl RunRecord {
    pub fn end(&self) -> Option<ProgramEnd> {
        self.status.map(|status| ProgramEnd { run_id: self.run_id, pid: self.child_pid, status })
    }
}

/// A program with its arguments, and what the recording libraries are to find in its environment.
pub struct Invocation<'a> {
    pub program: &'a Program,
    /// What the user called it: the program's `argv[0]`.
    pub typed: &'a OsString,
    pub arguments: &'a [OsString],
    pub preload: OsString,
    pub record: OsString,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub pid: u32,
    pub started: SystemTime,
    pub ended: SystemTime,
    pub status: ExitStatus,
    pub interruption: Interruption,
}

impl Invocation<'_> {
    /// With our own terminal, standard streams and process group: the program is in the foreground if we are.
    pub fn run_to_end(&self) -> anyhow::Result<Ended> {
        let relay = SignalRelay::install().context("signal handlers cannot be installed")?;
        let started = SystemTime::now();
        let mut child = self.command().spawn().map_err(|source| StartError { source })?;
        let pid = Pid::from_child(&child);
        relay.program_started(pid);
        wait_until_zombie(pid)?;
        let interruption = relay.program_ended();
        let status = child.wait().context("the program's end status is lost")?;
        Ok(Ended { pid: child.id(), started, ended: SystemTime::now(), status, interruption })
    }

    fn command(&self) -> Command {
        let mut command = match self.program.kind {
            ProgramKind::Executable => {
                let mut command = Command::new(&self.program.path);
                command.arg0(self.typed);
                command
            }
            ProgramKind::ShellText => {
                let mut command = Command::new("/bin/sh");
                command.arg(&self.program.path);
                command
            }
        };
        command.args(self.arguments);
        command.env(environment::PRELOAD, &self.preload).env(environment::RECORD, &self.record);
        if let Some(options) = sanitizer_options(std::env::var_os(environment::SANITIZER)) {
            command.env(environment::SANITIZER, options);
        }
        command
    }
}

/// Programs built with gcc's AddressSanitizer end at once if any library was loaded before its own, and work well with
/// ours if they are told not to look. `None` if the user has an opinion on that.
fn sanitizer_options(own: Option<OsString>) -> Option<OsString> {
    const KEY: &[u8] = b"verify_asan_link_order";
    let mut options = own.unwrap_or_default();
    if options.as_bytes().windows(KEY.len()).any(|window| window == KEY) {
        return None;
    }
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    Some(options)
}

/// The program was found, and yet did not start.
#[derive(Debug, thiserror::Error)]
#[error("the program cannot be started: {source}")]
pub struct StartError {
    source: std::io::Error,
}

impl StartError {
    /// As a shell would.
    pub fn exit_code(&self) -> u8 {
        if self.source.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

fn wait_until_zombie(pid: Pid) -> anyhow::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the program failed"),
        }
    }
}

/// Ends as the program did. For a death by signal this does not return: whoever started us must see that signal, not
/// only a number.
pub fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // The program has left its own core file; one of ours would only replace it.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Returns for signals it has no name for (the real-time ones).
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
