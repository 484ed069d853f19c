//! A payload, byte by byte.
use super::{Deltas, Path, stack_fields, to_zigzag};
use crate::record::{Execution, MOST_EXECUTIONS, StackRef, execution};

/// Where the next byte of a payload goes. Only [`super::extended`] and [`super::node`] make one, over room they were promised.
pub(super) struct Output(pub(super) *mut u8);

impl Output {
    pub(super) fn byte(&mut self, value: u8) {
        self.copy(&[value]);
    }

    pub(super) fn word(&mut self, value: u64) {
        self.copy(&value.to_le_bytes());
    }

    /// LEB128.
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// The zigzag difference to the lane's last device address: pools hand out neighbours.
    pub(super) fn device_address(&mut self, last: &mut Deltas, address: u64) {
        self.varint(to_zigzag(address.wrapping_sub(last.device_address)));
        last.device_address = address;
    }

    pub(super) fn stack(&mut self, last: &mut Deltas, stack: StackRef) {
        let (field, python) = stack_fields(last, stack);
        self.varint(field);
        if let Some(python) = python {
            self.varint(python);
        }
    }

    /// Each line against the one before; the first against zeroes, so that a record is understood by itself.
    pub(super) fn executions(&mut self, lines: &[Execution], streams: bool) {
        let mut last = Execution::default();
        for line in lines.iter().take(MOST_EXECUTIONS) {
            let same = line.task == last.task && (line.stream == last.stream || !streams);
            let unit = (line.unit & execution::UNIT_MASK) << execution::UNIT_SHIFT;
            self.byte(u8::from(line.end) | unit | if same { execution::SAME_TASK } else { 0 });
            if !same {
                self.varint(to_zigzag(u64::from(line.task).wrapping_sub(u64::from(last.task))));
                if streams {
                    self.varint(to_zigzag(u64::from(line.stream).wrapping_sub(u64::from(last.stream))));
                }
            }
            self.varint(to_zigzag(line.counter.wrapping_sub(last.counter)));
            last = *line;
        }
    }

    /// Length as a varint, then the bytes, cut at `limit`: a cut name is still a name.
    pub(super) fn text(&mut self, bytes: &[u8], limit: usize) {
        let kept = bytes.get(..bytes.len().min(limit)).unwrap_or_default();
        self.varint(kept.len() as u64);
        self.copy(kept);
    }

    pub(super) fn path(&mut self, path: Path<'_>) {
        self.varint(path.shared as u64);
        self.text(path.rest(), Path::LIMIT);
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        // SAFETY: `Extended::room` counts every byte that `Extended::fill` writes, and the caller of `extended` keeps it.
        unsafe {
            self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.0 = self.0.add(bytes.len());
        }
    }
}
