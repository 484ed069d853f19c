//! What a program may ask of the recorder: to trace from here to there, and to note the end of a step or the
//! memory in use.
//!
//! Blocks are recorded whether tracing is on or not, so that a later free or leak of an earlier block is understood; what
//! is off costs no stacks, and what is shown is decided offline.
use crate::device::{self, SystemKind, system};
use crate::slot::{self, Guard};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

static TRACING: AtomicBool = AtomicBool::new(true);
static STEPS: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
pub(crate) fn is_tracing() -> bool {
    TRACING.load(Relaxed)
}

/// The user asked for nothing before `start`.
pub(crate) fn defer() {
    TRACING.store(false, Relaxed);
}

/// Tracing begins.
pub fn start() {
    TRACING.store(true, Relaxed);
    note(SystemKind::StartTrace, 0);
}

/// Tracing ends, until the next `start`.
pub fn stop() {
    note(SystemKind::StopTrace, 0);
    TRACING.store(false, Relaxed);
}

/// A step ends, and the next begins.
pub fn step() {
    note(SystemKind::Step, STEPS.fetch_add(1, Relaxed) + 1);
}

/// Notes what memory is in use: of a device, or of the one the calling thread uses.
pub fn snapshot(device: Option<u32>, name: &[u8]) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        device::snapshot(&guard, device, name);
    }
}

fn note(kind: SystemKind, value: u64) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        system(&guard, kind, value);
    }
}
