//! What a program says of itself: marks, ranges, steps, labels, snapshots, and which calls it makes.
use super::{DevAddr, Extended, LabelLevel, LaneNumber, LogicalDevice, SpoolBuilder, SystemKind};
use memscope_format::layout;

impl SpoolBuilder {
    pub fn visible_devices(&mut self, lane: LaneNumber, list: &str) -> &mut Self {
        self.definition(lane, &Extended::VisibleDevices { text: list.as_bytes() })
    }

    pub fn system(&mut self, lane: LaneNumber, ticks: u64, kind: SystemKind, value: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::System { kind, value })
    }

    pub fn snapshot(&mut self, lane: LaneNumber, ticks: u64, device: u32, name: &str) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::Snapshot { device: LogicalDevice(device), name: name.as_bytes() })
    }

    pub fn mark(&mut self, lane: LaneNumber, ticks: u64, text: &str) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::Mark { text: text.as_bytes() })
    }

    pub fn range_start(&mut self, lane: LaneNumber, ticks: u64, id: u64, text: &str) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::RangeStart { id, text: text.as_bytes() })
    }

    pub fn range_end(&mut self, lane: LaneNumber, ticks: u64, id: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::RangeEnd { id })
    }

    pub fn label_name(&mut self, lane: LaneNumber, id: u32, text: &str) -> &mut Self {
        self.definition(lane, &Extended::LabelName { id, text: text.as_bytes() })
    }

    /// `label` is the number of a name that was defined before, here and below.
    pub fn label_start(&mut self, lane: LaneNumber, ticks: u64, level: LabelLevel, label: u32) -> &mut Self {
        self.record(lane, ticks, &Extended::LabelStart { level, label })
    }

    pub fn label_end(&mut self, lane: LaneNumber, ticks: u64, level: LabelLevel, label: u32) -> &mut Self {
        self.record(lane, ticks, &Extended::LabelEnd { level, label })
    }

    pub fn label_block(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        level: LabelLevel,
        label: u32,
        address: u64,
    ) -> &mut Self {
        self.note(layout::notes::BLOCK_LABELS);
        self.record(lane, ticks, &Extended::LabelBlock { level, label, address: DevAddr(address) })
    }

    /// A function written in C, or a class of modules.
    pub fn call_name(&mut self, lane: LaneNumber, id: u32, text: &str, owner: &str) -> &mut Self {
        self.definition(lane, &Extended::CallName { id, text: text.as_bytes(), owner: owner.as_bytes() })
    }

    /// Calls of Python functions were traced.
    pub fn calls_traced(&mut self) -> &mut Self {
        self.note(layout::notes::CALLS_TRACED);
        self
    }

    /// The program installed a seccomp filter that forbids what recording needs.
    pub fn sandboxed(&mut self) -> &mut Self {
        self.note(layout::notes::SANDBOXED)
    }
}
