//! Signals while a program runs under us: the command must be as transparent as if the program had been started alone.
//!
//! The terminal sends SIGINT, SIGQUIT and SIGTSTP to the whole process group, so the program has its own copy: we let
//! the first two pass without effect on us, and stop and continue together with it by the default action of the third.
//! What is sent to our process id alone is relayed.
//!
//! Handlers are used even where "ignore" is meant: an ignored signal stays ignored across `exec`, a handled one goes
//! back to the default in the program.
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

const RELAYED: [i32; 6] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH];

/// What ends the program may come to us, too, and twice: `timeout` sends it to its child and then to the process group. For so
/// long after the end it was meant for the program.
const LATE: Duration = Duration::from_secs(1);

/// Whether the user wants the work after the program's end to be left. Long work asks now and then.
#[derive(Clone, Debug, Default)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same, for work that takes a flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// For work of its own, without a program: Ctrl-C asks for the end of the work.
    pub fn on_interrupt() -> io::Result<Self> {
        let interruption = Self::default();
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if !ignored.contains(signal) {
                signal_hook::flag::register(signal, Arc::clone(&interruption.0))?;
            }
        }
        Ok(interruption)
    }
}

/// Where relayed signals go.
#[derive(Debug)]
enum Target {
    /// Kept until there is somebody to send them to.
    Starting(Vec<i32>),
    Running(Pid),
    /// Since when.
    Ended(Instant),
}

/// From before the start of the program to the end of our work for it.
#[derive(Debug)]
pub struct SignalRelay {
    target: Arc<Mutex<Target>>,
    interruption: Interruption,
}

impl SignalRelay {
    /// Call before the program is started, so that no signal ends us in between.
    pub fn install() -> io::Result<Self> {
        let ignored = ignored_signals();
        let interruption = Interruption::default();
        for signal in [SIGINT, SIGQUIT] {
            // A signal ignored already (nohup, a background job) must stay ignored in the program, too.
            if !ignored.contains(signal) {
                signal_hook::flag::register(signal, Arc::clone(&interruption.0))?;
            }
        }
        let mut signals = Signals::new(RELAYED.iter().filter(|signal| !ignored.contains(**signal)))?;
        let target = Arc::new(Mutex::new(Target::Starting(Vec::new())));
        let relay = Self { target: Arc::clone(&target), interruption: interruption.clone() };
        std::thread::Builder::new().name(String::from("signals")).spawn(move || {
            for signal in signals.forever() {
                deliver(&target, &interruption, signal, Instant::now());
            }
        })?;
        Ok(relay)
    }

    pub fn program_started(&self, pid: Pid) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Target::Starting(kept) = &*target {
            for signal in kept {
                send(pid, *signal);
            }
        }
        *target = Target::Running(pid);
    }

    /// Call while the program is a zombie: once it is reaped its process id may belong to somebody else. From here on
    /// an interrupt is for us.
    pub fn program_ended(&self) -> Interruption {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Target::Ended(Instant::now());
        // The Ctrl-C that ended the program reached us, too, before the program could become a zombie.
        self.interruption.0.store(false, Ordering::Relaxed);
        self.interruption.clone()
    }
}

fn deliver(target: &Mutex<Target>, interruption: &Interruption, signal: i32, now: Instant) {
    match &mut *target.lock().unwrap_or_else(PoisonError::into_inner) {
        Target::Starting(kept) => kept.push(signal),
        Target::Running(pid) => send(*pid, signal),
        Target::Ended(since) if matches!(signal, SIGTERM | SIGHUP) && now.duration_since(*since) >= LATE => {
            interruption.request();
        }
        Target::Ended(_) => {}
    }
}

fn send(pid: Pid, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // A zombie or a program of another user: nothing can be done, and nothing would be gained by a message.
        let _ = kill_process(pid, signal);
    }
}

/// The signals that were ignored when we were started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IgnoredSignals(u64);

impl IgnoredSignals {
    fn contains(self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }

    fn parse(status: &str) -> Option<Self> {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        u64::from_str_radix(mask.trim(), 16).ok().map(Self)
    }
}

/// `/proc` tells it without the system call that safe Rust does not have.
fn ignored_signals() -> IgnoredSignals {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    IgnoredSignals::parse(&status).unwrap_or(IgnoredSignals(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_counts_from_one() {
        let ignored = IgnoredSignals::parse("Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t0\n").unwrap();
        assert!(ignored.contains(SIGHUP) && ignored.contains(SIGINT) && !ignored.contains(SIGQUIT));
        assert_eq!(IgnoredSignals::parse("nothing"), None);
    }

    #[test]
    fn signals_from_before_the_start_are_kept_and_after_the_end_mean_us() {
        let target = Mutex::new(Target::Starting(Vec::new()));
        let interruption = Interruption::default();
        let now = Instant::now();
        deliver(&target, &interruption, SIGTERM, now);
        assert!(matches!(&*target.lock().unwrap(), Target::Starting(kept) if kept == &[SIGTERM]));
        assert!(!interruption.requested());
        *target.lock().unwrap() = Target::Ended(now);
        deliver(&target, &interruption, SIGWINCH, now + LATE);
        assert!(!interruption.requested());
        deliver(&target, &interruption, SIGTERM, now + LATE);
        assert!(interruption.requested());
    }

    #[test]
    fn what_ended_the_program_and_comes_a_second_time_does_not_mean_us() {
        let now = Instant::now();
        let target = Mutex::new(Target::Ended(now));
        let interruption = Interruption::default();
        for signal in [SIGTERM, SIGHUP] {
            deliver(&target, &interruption, signal, now);
            deliver(&target, &interruption, signal, now + LATE / 2);
        }
        assert!(!interruption.requested());
    }
}
