//! What call stacks are made of.
use super::{Extended, FrameRecord, LaneBuilder, LaneNumber, SpoolBuilder, StackRef};
use memscope_format::encode;

impl SpoolBuilder {
    /// What was defined so far is not referred to again.
    pub fn forget(&mut self, lane: LaneNumber) -> &mut Self {
        self.definition(lane, &Extended::Forget {})
    }

    /// A module that is mapped for 16 MiB from `bias` on.
    pub fn module(&mut self, lane: LaneNumber, id: u32, bias: u64, path: &[u8], build_id: &[u8]) -> &mut Self {
        let end = bias.saturating_add(16 << 20);
        self.definition(lane, &Extended::Module { id, start: bias, end, bias, build_id, path })
    }

    pub fn code(&mut self, lane: LaneNumber, id: u32, file: &str, function: &str, first_line: u32) -> &mut Self {
        const PYTHON: u16 = 0x030b;
        self.code_with_lines(lane, id, PYTHON, file, function, first_line, &[])
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn code_with_lines(
        &mut self,
        lane: LaneNumber,
        id: u32,
        python_version: u16,
        file: &str,
        function: &str,
        first_line: u32,
        line_table: &[u8],
    ) -> &mut Self {
        let (file, function) = (file.as_bytes(), function.as_bytes());
        self.definition(lane, &Extended::Code { id, python_version, first_line, file, function, line_table })
    }

    pub fn c_node(&mut self, lane: LaneNumber, id: u32, parent: u32, module: u32, offset: u64) -> &mut Self {
        self.node(lane, id, parent, FrameRecord::C { module, offset })
    }

    pub fn unknown_node(&mut self, lane: LaneNumber, id: u32, parent: u32, address: u64) -> &mut Self {
        self.node(lane, id, parent, FrameRecord::Unknown { address })
    }

    pub fn python_node(&mut self, lane: LaneNumber, id: u32, parent: u32, code: u32, instruction: u32) -> &mut Self {
        self.lane_mut(lane).stacks.insert(id, StackRef { c: 0, python: id });
        self.node(lane, id, parent, FrameRecord::Python { code, instruction })
    }

    /// From here on `name`, which must be no node's number, stands for a stack of both parts.
    pub fn both(&mut self, lane: LaneNumber, name: u32, c: u32, python: u32) -> &mut Self {
        self.lane_mut(lane).stacks.insert(name, StackRef { c, python });
        self
    }

    pub(super) fn stack(&self, lane: LaneNumber, node: u32) -> StackRef {
        let known = self.lanes[lane.0 as usize].stacks.get(&node);
        known.copied().unwrap_or(StackRef { c: node, python: 0 })
    }

    fn node(&mut self, lane: LaneNumber, id: u32, parent: u32, frame: FrameRecord) -> &mut Self {
        let ticks = self.lane_mut(lane).last.ticks;
        self.make_room(lane, ticks, encode::MAX_NODE);
        let LaneBuilder { last_node, payload, .. } = self.lane_mut(lane);
        let mut bytes = [0u8; encode::MAX_NODE];
        let start = bytes.as_mut_ptr();
        // SAFETY: `bytes` has room for a node.
        let end = unsafe { encode::node(start, last_node, id, parent, frame) };
        payload.extend_from_slice(&bytes[..end as usize - start as usize]);
        self
    }
}
