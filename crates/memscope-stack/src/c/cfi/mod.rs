//! `.eh_frame_hdr` and `.eh_frame` of a loaded object: the unwind row that holds at an address.
//!
//! The tables are read in place and trusted in nothing: every read is checked against the segment they lie in,
//! every loop is bounded by bytes consumed, and what is not understood is [`Row::UNKNOWN`].
mod bytes;
mod entries;
mod machine;
mod rules;

use self::bytes::{Bytes, encoding};
use self::entries::{Function, Record};
use super::row::Row;

/// The tables of one object.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    /// Run-time address of `.eh_frame_hdr`, 0 if the object has none.
    pub(super) header: usize,
    /// The readable segment that holds both tables.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What the tables say about an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Row(Row),
    /// The frame was made by the kernel, not by a call.
    SignalFrame,
    /// The address is in no function the tables describe.
    Nothing,
}

/// DWARF register numbers of the architecture.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) frame_pointer: u64,
    pub(super) stack_pointer: u64,
    pub(super) return_address: u64,
    /// Where a call leaves the return address, relative to the CFA.
    pub(super) return_address_at: i64,
}

impl Tables {
    pub(super) fn find(&self, pc: usize, registers: Registers) -> Found {
        match self.function_at(pc) {
            None => Found::Nothing,
            Some(function) if function.common.is_signal_frame => Found::SignalFrame,
            Some(function) => Found::Row(function.row_at(pc, registers).unwrap_or(Row::UNKNOWN)),
        }
    }

    /// Whether the tables describe a function that begins at `pc`.
    pub(super) fn begins_function(&self, pc: usize) -> bool {
        self.function_at(pc).is_some_and(|function| function.begin == pc)
    }

    fn function_at(&self, pc: usize) -> Option<Function> {
        if self.header == 0 {
            return None;
        }
        let mut header = Bytes::new(self, self.header)?;
        if header.u8()? != 1 {
            return None;
        }
        let (frames_encoding, count_encoding, table_encoding) = (header.u8()?, header.u8()?, header.u8()?);
        let frames = header.encoded(frames_encoding, self.header)?;
        if count_encoding == encoding::OMIT || table_encoding != encoding::DATA_RELATIVE_I32 {
            return self.function_by_scan(frames, pc);
        }
        let count = header.encoded(count_encoding, self.header)?;
        let entry = self.sorted_entry(header.at(), count, pc)?;
        Function::parse(self, entry).filter(|function| function.contains(pc))
    }

    /// The description of the last function that begins at or below `pc`, by binary search.
    fn sorted_entry(&self, table: usize, count: usize, pc: usize) -> Option<usize> {
        const ENTRY: usize = 8;
        if count == 0 || count > (self.end - table) / ENTRY {
            return None;
        }
        let begin_of = |index: usize| -> Option<usize> {
            let offset = Bytes::new(self, table + index * ENTRY)?.i32()?;
            Some(self.header.wrapping_add_signed(offset as isize))
        };
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if begin_of(middle)? <= pc {
                low = middle;
            } else {
                high = middle;
            }
        }
        if begin_of(low)? > pc {
            return None;
        }
        let offset = Bytes::new(self, table + low * ENTRY + 4)?.i32()?;
        Some(self.header.wrapping_add_signed(offset as isize))
    }

    /// The linker leaves out the sorted table where it could not read some `.eh_frame` itself.
    fn function_by_scan(&self, frames: usize, pc: usize) -> Option<Function> {
        let mut at = frames;
        loop {
            let record = Record::parse(self, at)?;
            if record.back_offset != 0
                && let Some(function) = Function::of_record(self, &record)
                && function.contains(pc)
            {
                return Some(function);
            }
            at = record.body.end();
        }
    }
}
