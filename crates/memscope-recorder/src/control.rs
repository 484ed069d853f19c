//! What a program may ask of the recorder: to trace from here to there, and to note the end of a step or the
//! memory in use.
//!
//! Blocks are recorded whether tracing is on or not, so that a later free or leak of an earlier block is understood; what
//! is off costs no stacks, and what is shown is decided offline.
use crate::device::{self, LogicalDevice, SystemKind, system};
use crate::lane::event;
use crate::slot::{self, Guard};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use memscope_format::encode::Extended;

static TRACING: AtomicBool = AtomicBool::new(true);
static STEPS: AtomicU64 = AtomicU64::new(0);
/// Numbers ranges across the process; 0 is no range.
static RANGES: AtomicU64 = AtomicU64::new(1);

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

/// A number for a range that begins.
pub fn new_range() -> u64 {
    RANGES.fetch_add(1, Relaxed)
}

/// The program names this moment.
pub fn mark(text: &[u8]) {
    record(&Extended::Mark { text });
}

/// The program names a range, from here to the [`range_end`] of its number.
pub fn range_start(id: u64, text: &[u8]) {
    record(&Extended::RangeStart { id, text });
}

pub fn range_end(id: u64) {
    record(&Extended::RangeEnd { id });
}

/// Notes what memory is in use: of a device, or of the one the calling thread uses.
pub fn snapshot(device: Option<LogicalDevice>, name: &[u8]) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        device::snapshot(&guard, device, name);
    }
}

/// Notes what a framework says of a device's memory.
pub fn told_snapshot(snapshot: &Extended<'_>) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        device::note_visible_devices(&guard);
        event(&guard, snapshot);
    }
}

fn record(what: &Extended<'_>) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        event(&guard, what);
    }
}

fn note(kind: SystemKind, value: u64) {
    let mark = slot::MARK_WORD;
    if let Some(guard) = Guard::enter_at(&mark) {
        system(&guard, kind, value);
    }
}
