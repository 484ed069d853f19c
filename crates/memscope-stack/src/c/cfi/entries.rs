//! The entries of `.eh_frame`: what functions share, and each function.
use super::bytes::Bytes;
use super::machine::Machine;
use super::{Registers, Tables};
use crate::c::row::Row;

/// A record of `.eh_frame` of either kind.
pub(super) struct Record {
    /// 0 in a common entry (CIE); in a function's entry (FDE) how far before this very field its common entry begins.
    pub(super) back_offset: usize,
    back_offset_at: usize,
    pub(super) body: Bytes,
}

impl Record {
    /// `None` at the terminator.
    pub(super) fn parse(tables: &Tables, at: usize) -> Option<Record> {
        let mut bytes = Bytes::new(tables, at)?;
        let length = match bytes.u32()? {
            0 => return None,
            u32::MAX => bytes.u64()? as usize,
            length => length as usize,
        };
        let mut body = bytes.split(length)?;
        let back_offset_at = body.at();
        Some(Record { back_offset: body.u32()? as usize, back_offset_at, body })
    }
}

/// What the functions of one compilation unit share (CIE).
#[derive(Clone, Copy)]
pub(super) struct Common {
    pub(super) code_alignment: u64,
    pub(super) data_alignment: i64,
    pub(super) pointer_encoding: u8,
    has_augmentation_data: bool,
    pub(super) is_signal_frame: bool,
    instructions: Bytes,
}

impl Common {
    pub(super) fn parse(tables: &Tables, at: usize) -> Option<Common> {
        let record = Record::parse(tables, at)?;
        if record.back_offset != 0 {
            return None;
        }
        let mut bytes = record.body;
        let version = bytes.u8()?;
        let mut augmentation = bytes;
        while bytes.u8()? != 0 {}
        if version == 4 {
            bytes.u16()?;
        } else if version != 1 && version != 3 {
            return None;
        }
        let code_alignment = bytes.uleb()?;
        let data_alignment = bytes.sleb()?;
        if version == 1 {
            bytes.u8()?;
        } else {
            bytes.uleb()?;
        }
        let mut common = Common {
            code_alignment,
            data_alignment,
            pointer_encoding: 0,
            has_augmentation_data: false,
            is_signal_frame: false,
            instructions: bytes,
        };
        match augmentation.u8()? {
            0 => return Some(common),
            b'z' => common.has_augmentation_data = true,
            _ => return None,
        }
        let length = bytes.uleb()? as usize;
        let mut data = bytes.split(length)?;
        common.instructions = bytes;
        loop {
            match augmentation.u8()? {
                0 => return Some(common),
                b'R' => common.pointer_encoding = data.u8()?,
                b'L' => drop(data.u8()?),
                b'P' => {
                    let encoding = data.u8()?;
                    data.encoded_value(encoding)?;
                }
                b'S' => common.is_signal_frame = true,
                _ => return None,
            }
        }
    }
}

/// One function (FDE).
pub(super) struct Function {
    pub(super) common: Common,
    pub(super) begin: usize,
    length: usize,
    instructions: Bytes,
}

impl Function {
    pub(super) fn parse(tables: &Tables, at: usize) -> Option<Function> {
        Function::of_record(tables, &Record::parse(tables, at)?)
    }

    pub(super) fn of_record(tables: &Tables, record: &Record) -> Option<Function> {
        if record.back_offset == 0 {
            return None;
        }
        let common = Common::parse(tables, record.back_offset_at.checked_sub(record.back_offset)?)?;
        let mut bytes = record.body;
        let begin = bytes.encoded(common.pointer_encoding, tables.header)?;
        let length = bytes.encoded_value(common.pointer_encoding)?;
        if common.has_augmentation_data {
            let length = bytes.uleb()? as usize;
            bytes.split(length)?;
        }
        Some(Function { common, begin, length, instructions: bytes })
    }

    pub(super) fn contains(&self, pc: usize) -> bool {
        pc.wrapping_sub(self.begin) < self.length
    }

    pub(super) fn row_at(&self, pc: usize, registers: Registers) -> Option<Row> {
        let mut machine = Machine::new(&self.common, registers, self.begin);
        machine.begin_with(self.common.instructions)?;
        machine.run(self.instructions, pc)?.to_row(pc, registers)
    }
}
