//! The watched blocks of a process: a fixed table of atomic words, without a lock.
//!
//! ```text
//! FREE ──take──► ARMED ──activate──► ACTIVE ──retire──► FREE
//!                  └──give back──► FREE
//! ```
//! Whoever moves a place on does so by an exchange. A thread that looks at a block while another retires it reads memory that may be
//! anything by then, which is seen afterwards: the place is no longer active, or of another watch.
use super::bytes::Buffers;
use super::contents::ContentsFile;
use super::{SEEN, TURNED};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64};
use memscope_format::record::{DevAddr, LogicalDevice};
use memscope_format::watch::WatchOrigin;

/// In the process's memory, which a forked child finds zeroed: it watches nothing.
pub(crate) struct Table {
    places: [Place; Table::CAPACITY],
    /// How many places were ever used.
    highest: AtomicU32,
    active: AtomicU32,
    watches: AtomicU32,
    operators: AtomicU64,
    /// The end operator that is at work; 0 for none.
    pub(super) closing: AtomicU64,
    pub(super) has_told_no_outputs: AtomicBool,
    pub(super) buffers: Buffers,
    pub(super) contents: ContentsFile,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const ARMED: u32 = 2;
const ACTIVE: u32 = 3;

/// What is watched.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) origin: WatchOrigin,
    pub(super) device: LogicalDevice,
    pub(super) address: DevAddr,
    pub(super) size: u64,
    pub(super) storage: DevAddr,
    pub(super) output: u32,
    pub(super) looks: i64,
    pub(super) flags: u8,
}

/// What of it is recorded once.
pub(super) struct Armed {
    pub(super) origin: WatchOrigin,
    pub(super) output: u32,
    pub(super) flags: u8,
}

/// One watched block.
pub(super) struct Place {
    state: AtomicU32,
    watch: AtomicU32,
    device: AtomicU32,
    output: AtomicU32,
    address: AtomicU64,
    size: AtomicU64,
    storage: AtomicU64,
    /// The operator whose end makes it active.
    operator: AtomicU64,
    looks_left: AtomicI64,
    checksum: AtomicU64,
    content: AtomicU64,
    /// The operator at work that may write into it: thread, and the low half of its number.
    owner: AtomicU64,
    /// How often that changed.
    epoch: AtomicU64,
    origin: AtomicU8,
    flags: AtomicU8,
}

impl Table {
    pub(crate) const CAPACITY: usize = 1024;

    fn used(&self) -> &[Place] {
        let highest = self.highest.load(SEEN) as usize;
        self.places.get(..highest.min(Self::CAPACITY)).unwrap_or_default()
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.active.load(SEEN) != 0
    }

    /// How many blocks are watched.
    pub(super) fn count(&self) -> u32 {
        self.active.load(SEEN)
    }

    pub(super) fn new_number(&self) -> u64 {
        self.operators.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn each_active(&self, mut visit: impl FnMut(&Place)) {
        self.used().iter().filter(|place| place.is_active()).for_each(&mut visit);
    }

    pub(super) fn has_command_blocks(&self) -> bool {
        self.used().iter().any(|place| place.is_active() && place.is_of_command())
    }

    pub(super) fn is_armed_by(&self, operator: u64) -> bool {
        operator != 0 && self.used().iter().any(|place| place.is_armed_by(operator))
    }

    pub(super) fn each_armed_by(&self, operator: u64, mut visit: impl FnMut(&Place) -> bool) {
        for place in self.used().iter().filter(|place| place.is_armed_by(operator)) {
            visit(place);
        }
    }

    /// Those of a start operator that never ended.
    pub(super) fn forget_armed(&self) {
        for place in self.used().iter().filter(|place| place.operator.load(Relaxed) != 0) {
            let _ = place.state.compare_exchange(ARMED, FREE, TURNED, Relaxed);
        }
    }

    /// A place for a block; `operator` is the one whose end it waits for. `None` if there is none left.
    pub(super) fn take(&self, chosen: &Chosen, operator: u64) -> Option<&Place> {
        let index =
            self.places.iter().position(|place| place.state.compare_exchange(FREE, TAKEN, TURNED, Relaxed).is_ok())?;
        let place = self.places.get(index)?;
        place.watch.store(self.watches.fetch_add(1, Relaxed) + 1, Relaxed);
        place.device.store(chosen.device.0, Relaxed);
        place.output.store(chosen.output, Relaxed);
        place.address.store(chosen.address.0, Relaxed);
        place.size.store(chosen.size, Relaxed);
        place.storage.store(chosen.storage.0, Relaxed);
        place.operator.store(operator, Relaxed);
        place.looks_left.store(chosen.looks, Relaxed);
        place.owner.store(0, Relaxed);
        place.origin.store(chosen.origin as u8, Relaxed);
        place.flags.store(chosen.flags, Relaxed);
        place.seen(0, 0);
        place.state.store(ARMED, Release);
        self.highest.fetch_max(index as u32 + 1, TURNED);
        Some(place)
    }

    pub(super) fn give_back(&self, place: &Place) {
        let _ = place.state.compare_exchange(ARMED, FREE, TURNED, Relaxed);
    }

    pub(super) fn activate(&self, place: &Place) {
        if place.state.compare_exchange(ARMED, ACTIVE, TURNED, Relaxed).is_ok() {
            self.active.fetch_add(1, TURNED);
        }
    }

    /// `true` for the one thread that ended it.
    pub(super) fn retire(&self, place: &Place) -> bool {
        let retired = place.state.compare_exchange(ACTIVE, FREE, TURNED, Relaxed).is_ok();
        if retired {
            self.active.fetch_sub(1, TURNED);
        }
        retired
    }
}

impl Place {
    pub(super) fn is_active(&self) -> bool {
        self.state.load(SEEN) == ACTIVE
    }

    fn is_armed_by(&self, operator: u64) -> bool {
        self.state.load(SEEN) == ARMED && self.operator.load(Relaxed) == operator
    }

    pub(super) fn is_of_command(&self) -> bool {
        self.origin.load(Relaxed) == WatchOrigin::StartOperator as u8
    }

    pub(super) fn armed(&self) -> Armed {
        let origin = WatchOrigin::from_code(self.origin.load(Relaxed)).unwrap_or(WatchOrigin::Program);
        Armed { origin, output: self.output.load(Relaxed), flags: self.flags.load(Relaxed) }
    }

    pub(super) fn watch(&self) -> u32 {
        self.watch.load(Relaxed)
    }

    pub(super) fn device(&self) -> LogicalDevice {
        LogicalDevice(self.device.load(Relaxed))
    }

    pub(super) fn set_device(&self, device: LogicalDevice) {
        self.device.store(device.0, Relaxed);
    }

    pub(super) fn address(&self) -> DevAddr {
        DevAddr(self.address.load(Relaxed))
    }

    pub(super) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    pub(super) fn storage(&self) -> u64 {
        self.storage.load(Relaxed)
    }

    /// What it held when it was last looked at.
    pub(super) fn last_seen(&self) -> (u64, u64) {
        (self.checksum.load(Relaxed), self.content.load(Relaxed))
    }

    pub(super) fn seen(&self, checksum: u64, content: u64) {
        self.checksum.store(checksum, Relaxed);
        self.content.store(content, Relaxed);
    }

    /// One look less; `false` if there is none left.
    pub(super) fn count_look(&self) -> bool {
        let take = |left: i64| match left {
            0 => None,
            1.. => Some(left - 1),
            unlimited => Some(unlimited),
        };
        self.looks_left.fetch_update(TURNED, Relaxed, take).is_ok()
    }

    pub(super) fn looks_used_up(&self) -> bool {
        self.looks_left.load(Relaxed) == 0
    }

    fn owner_word(thread: u32, operator: u64) -> u64 {
        u64::from(thread) << 32 | operator & 0xffff_ffff
    }

    /// An operator that may write into it begins; within another such one nothing changes.
    pub(super) fn own(&self, thread: u32, operator: u64) {
        if self.owner.compare_exchange(0, Self::owner_word(thread, operator), TURNED, Relaxed).is_ok() {
            self.epoch.fetch_add(1, TURNED);
        }
    }

    pub(super) fn disown(&self, thread: u32, operator: u64) {
        if self.owner.compare_exchange(Self::owner_word(thread, operator), 0, TURNED, Relaxed).is_ok() {
            self.epoch.fetch_add(1, TURNED);
        }
    }

    /// `None` while an operator of another thread may write into it. The same number before and after a look: there was none in between.
    pub(super) fn quiet_epoch(&self, thread: u32) -> Option<u64> {
        let epoch = self.epoch.load(SEEN);
        let owner = self.owner.load(SEEN);
        (owner == 0 || owner >> 32 == u64::from(thread)).then_some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Box<Table> {
        // SAFETY: zeroes are an empty table, as in the memory of a process.
        unsafe { Box::<Table>::new_zeroed().assume_init() }
    }

    fn chosen(origin: WatchOrigin, looks: i64) -> Chosen {
        let (device, address, storage) = (LogicalDevice::HOST, DevAddr(0x1000), DevAddr(0x800));
        Chosen { origin, device, address, size: 64, storage, output: 0, looks, flags: 0 }
    }

    #[test]
    fn a_block_is_watched_from_its_operators_end_and_its_place_is_used_again() {
        let table = table();
        let place = table.take(&chosen(WatchOrigin::StartOperator, -1), 8).unwrap();
        assert!(!table.is_in_use() && table.is_armed_by(8) && !table.is_armed_by(9) && !table.is_armed_by(0));
        table.activate(place);
        assert!(table.is_in_use() && table.has_command_blocks() && !table.is_armed_by(8));
        assert_eq!(place.watch(), 1);
        assert!(table.retire(place) && !table.retire(place), "one thread ends it");
        assert!(!table.is_in_use());
        let again = table.take(&chosen(WatchOrigin::Program, -1), 0).unwrap();
        assert!(std::ptr::eq(place, again) && again.watch() == 2 && !again.is_of_command());
    }

    #[test]
    fn an_operator_that_never_ended_leaves_no_block_behind() {
        let table = table();
        table.take(&chosen(WatchOrigin::StartOperator, -1), 8).unwrap();
        let asked = table.take(&chosen(WatchOrigin::Program, -1), 0).unwrap();
        table.forget_armed();
        assert!(!table.is_armed_by(8));
        table.activate(asked);
        assert!(table.is_in_use(), "what the program asks for waits for nobody");
    }

    #[test]
    fn looks_are_counted_down_and_without_a_limit_are_not() {
        let table = table();
        let place = table.take(&chosen(WatchOrigin::Program, 2), 0).unwrap();
        assert!(place.count_look() && !place.looks_used_up());
        assert!(place.count_look() && place.looks_used_up() && !place.count_look());
        let unlimited = table.take(&chosen(WatchOrigin::Program, -1), 0).unwrap();
        assert!((0..10).all(|_| unlimited.count_look()) && !unlimited.looks_used_up());
    }

    #[test]
    fn while_an_operator_may_write_other_threads_do_not_look() {
        let table = table();
        let place = table.take(&chosen(WatchOrigin::Program, -1), 0).unwrap();
        let before = place.quiet_epoch(7);
        assert!(before.is_some());
        place.own(9, 5);
        // Within it another one.
        place.own(9, 6);
        place.disown(9, 6);
        assert!(place.quiet_epoch(7).is_none() && place.quiet_epoch(9).is_some());
        place.disown(9, 5);
        assert!(place.quiet_epoch(7).is_some_and(|epoch| Some(epoch) != before), "it was there in between");
    }

    #[test]
    fn there_is_an_end_to_places() {
        let table = table();
        for _ in 0..Table::CAPACITY {
            table.activate(table.take(&chosen(WatchOrigin::Program, -1), 0).unwrap());
        }
        assert!(table.take(&chosen(WatchOrigin::Program, -1), 0).is_none());
        let mut count = 0;
        table.each_active(|_| count += 1);
        assert_eq!(count, Table::CAPACITY);
    }
}
