//! Whether recordings hold all that happened: decided here once, from what is known, so that no line can contradict another.
use super::process::{Life, ProcessReport};
use super::quantity::count;
use crate::export::Batch;

/// What is known to be missing of one recording, or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Missing {
    /// Events that the processes counted and could not record.
    pub(super) lost_events: u64,
    /// Recording stopped before its process did: a limit, a full disk, a filter of the program's.
    pub(super) stopped: bool,
    /// Something that was written cannot be read.
    pub(super) damaged: bool,
    /// Some of what happened was not seen, or cannot be told by this version, and nobody knows how much.
    pub(super) unseen: bool,
    /// Processes without a recording, or whose recording cannot be read.
    pub(super) processes: bool,
    /// Who says what was recorded does not say what was not: dump files.
    pub(super) not_told: bool,
    /// A process goes on, and may yet lose events.
    pub(super) running: bool,
}

impl Missing {
    pub(super) fn of_process(report: &ProcessReport) -> Missing {
        let outcome = &report.outcome;
        Missing {
            lost_events: outcome.lost_events,
            stopped: outcome.stopped.is_some(),
            damaged: !outcome.damage.is_empty() || outcome.implausible_events > 0,
            unseen: report.unseen || outcome.unknown_records > 0 || outcome.interrupted,
            processes: false,
            not_told: report.life == Life::NotTold,
            running: report.life == Life::Running,
        }
    }

    pub(super) fn of_batch(batch: &Batch, unrecorded: usize) -> Missing {
        let none = Missing { processes: batch.unreadable > 0 || unrecorded > 0, ..Missing::default() };
        batch.reports.iter().map(Missing::of_process).fold(none, Missing::and)
    }

    fn and(self, other: Missing) -> Missing {
        Missing {
            lost_events: self.lost_events.saturating_add(other.lost_events),
            stopped: self.stopped || other.stopped,
            damaged: self.damaged || other.damaged,
            unseen: self.unseen || other.unseen,
            processes: self.processes || other.processes,
            not_told: self.not_told || other.not_told,
            running: self.running || other.running,
        }
    }

    /// Whether there is anything of which it is known that it is missing.
    pub(super) fn is_anything(self) -> bool {
        let Missing { lost_events, stopped, damaged, unseen, processes, not_told: _, running: _ } = self;
        lost_events > 0 || stopped || damaged || unseen || processes
    }

    /// For after the number of events. `None`: nothing is claimed; that processes are missing is said beside it.
    pub(super) fn verdict(self) -> Option<String> {
        if !self.is_anything() {
            return match (self.not_told, self.running) {
                (true, _) => None,
                (false, true) => Some("none lost so far".to_owned()),
                (false, false) => Some("none lost".to_owned()),
            };
        }
        let mut words = Vec::new();
        if self.stopped {
            words.push("STOPPED EARLY".to_owned());
        }
        if self.damaged {
            words.push("DAMAGED".to_owned());
        }
        if self.unseen {
            words.push("INCOMPLETE".to_owned());
        }
        if self.lost_events > 0 {
            words.push(format!("{} LOST", count(self.lost_events)));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination.
    fn all() -> impl Iterator<Item = Missing> {
        (0..128_u32).map(|bits| {
            let bit = |number: u32| bits & (1 << number) != 0;
            Missing {
                lost_events: if bit(0) { 1234 } else { 0 },
                stopped: bit(1),
                damaged: bit(2),
                unseen: bit(3),
                processes: bit(4),
                not_told: bit(5),
                running: bit(6),
            }
        })
    }

    #[test]
    fn none_lost_is_said_only_where_nothing_is_missing() {
        let mut claims = 0;
        for missing in all() {
            let verdict = missing.verdict().unwrap_or_default();
            let Missing { lost_events, stopped, damaged, unseen, processes, not_told, running } = missing;
            let is_whole = lost_events == 0 && !(stopped || damaged || unseen || processes || not_told);
            assert_eq!(verdict.contains("none lost"), is_whole, "{missing:?}");
            assert_eq!(verdict.ends_with("so far"), is_whole && running, "{missing:?}");
            assert_eq!(verdict.contains("1,234 LOST"), lost_events > 0, "{missing:?}");
            assert_eq!(verdict.contains("STOPPED EARLY"), stopped, "{missing:?}");
            assert_eq!(verdict.contains("DAMAGED"), damaged, "{missing:?}");
            assert_eq!(verdict.contains("INCOMPLETE"), unseen, "{missing:?}");
            claims += usize::from(is_whole);
        }
        assert_eq!(claims, 2, "of a process that has ended, and of one that runs");
    }

    #[test]
    fn several_recordings_lack_what_any_of_them_lacks() {
        for one in all() {
            for other in all() {
                let both = one.and(other);
                assert_eq!(both.lost_events, one.lost_events + other.lost_events);
                assert_eq!(both.is_anything(), one.is_anything() || other.is_anything());
                let claims = |missing: Missing| missing.verdict().is_some_and(|words| words.contains("none lost"));
                assert_eq!(claims(both), claims(one) && claims(other), "{one:?} {other:?}");
            }
        }
    }
}
