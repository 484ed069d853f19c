//! Injected errors.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::settings;

/// A kind of call that can be made to fail.
///
/// `SIM_FAIL_<KIND>_AT=n` fails the n-th call (from 1) once, `SIM_FAIL_<KIND>_AFTER=n` every call after the n-th.
pub struct Fault {
    kind: &'static str,
    calls: AtomicU64,
    plan: OnceLock<Plan>,
}

struct Plan {
    at: Option<u64>,
    after: Option<u64>,
}

impl Plan {
    fn fails(&self, call: u64) -> bool {
        self.at == Some(call) || self.after.is_some_and(|after| call > after)
    }
}

impl Fault {
    /// A kind of call; `kind` is the middle of the variables' names.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, calls: AtomicU64::new(0), plan: OnceLock::new() }
    }

    /// Counts one call and says whether it is to fail.
    pub fn strikes(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let plan = self.plan.get_or_init(|| Plan {
            at: settings::number(&format!("SIM_FAIL_{}_AT", self.kind)),
            after: settings::number(&format!("SIM_FAIL_{}_AFTER", self.kind)),
        });
        plan.fails(call)
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn at_fails_one_call_and_after_all_later_ones() {
        let at = Plan { at: Some(2), after: None };
        assert_eq!([1, 2, 3].map(|call| at.fails(call)), [false, true, false]);
        let after = Plan { at: None, after: Some(2) };
        assert_eq!([1, 2, 3, 4].map(|call| after.fails(call)), [false, false, true, true]);
    }
}
