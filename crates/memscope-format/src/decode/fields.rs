//! How fields of extended records are read: the other half of `encode/fields.rs`. Nothing in the bytes is trusted.
use super::text::Line;
use super::{Definition, u64_at};
use crate::encode::fields::{
    Byte, Called, DeviceAddress, InByte, Kernel, Label, Lines, Number, Operator, Stack, Tensor, Text, Varint, Word,
};
use crate::encode::{Deltas, Path};
use crate::record::{
    ADDRESS_ABSOLUTE, ADDRESS_LENGTHS, AccessMode, HostAddr, HostCall, LabelLevel, MOST_DIMENSIONS, Phase, Protection,
    Space, StackRef, SystemKind, TaskLogLine, TensorOwner, execution, stack_field,
};
use crate::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};

/// The bytes make no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Nonsense;

/// The way one field is read, and shown as text.
pub(super) trait Decode<'a, T> {
    fn get(fields: &mut Fields<'a>, last: &mut Deltas) -> Result<T, Nonsense>;

    fn show(line: &mut Line<'_>, name: &str, value: T);
}

impl<'a, T: Number + TryFrom<u64>> Decode<'a, T> for Varint {
    fn get(fields: &mut Fields<'a>, _: &mut Deltas) -> Result<T, Nonsense> {
        T::try_from(fields.varint()?).map_err(|_| Nonsense)
    }

    fn show(line: &mut Line<'_>, name: &str, value: T) {
        line.number(name, value.widened());
    }
}

impl<'a, T: Number + From<u64>> Decode<'a, T> for Word {
    fn get(fields: &mut Fields<'a>, _: &mut Deltas) -> Result<T, Nonsense> {
        fields.integer(8).map(T::from)
    }

    fn show(line: &mut Line<'_>, name: &str, value: T) {
        line.word(name, value.widened());
    }
}

/// Not every byte is a choice.
pub(super) trait FromByte: InByte {
    fn from_byte(byte: u8) -> Option<Self>;
}

impl FromByte for u8 {
    fn from_byte(byte: u8) -> Option<u8> {
        Some(byte)
    }
}

impl FromByte for Protection {
    fn from_byte(byte: u8) -> Option<Protection> {
        Some(Protection(byte))
    }
}

macro_rules! choices {
    ($($choice:ty),*) => {
        $(impl FromByte for $choice {
            fn from_byte(byte: u8) -> Option<$choice> {
                <$choice>::from_code(byte)
            }
        })*
    };
}
choices!(Space, HostCall, SystemKind, Phase, AccessMode, TensorOwner, LabelLevel);
choices!(GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble);

impl<'a, T: FromByte> Decode<'a, T> for Byte {
    fn get(fields: &mut Fields<'a>, _: &mut Deltas) -> Result<T, Nonsense> {
        T::from_byte(fields.byte()?).ok_or(Nonsense)
    }

    fn show(line: &mut Line<'_>, name: &str, value: T) {
        line.number(name, value.to_byte());
    }
}

impl<'a, T: Number + From<u64>> Decode<'a, T> for DeviceAddress {
    fn get(fields: &mut Fields<'a>, last: &mut Deltas) -> Result<T, Nonsense> {
        last.device_address = last.device_address.wrapping_add(from_zigzag(fields.varint()?));
        Ok(T::from(last.device_address))
    }

    fn show(line: &mut Line<'_>, name: &str, value: T) {
        line.word(name, value.widened());
    }
}

impl<'a, const LIMIT: usize> Decode<'a, &'a [u8]> for Text<LIMIT> {
    fn get(fields: &mut Fields<'a>, _: &mut Deltas) -> Result<&'a [u8], Nonsense> {
        fields.text()
    }

    fn show(line: &mut Line<'_>, name: &str, value: &'a [u8]) {
        line.text(name, value);
    }
}

/// What follows an event's own fields, besides its stack. What is large, or needs the
/// records before it, is left to the cursor to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail<'a> {
    Nothing,
    Label(&'a [u8]),
    /// For [`names`]: a path, and a name.
    Operator(&'a [u8]),
    /// For [`names`]: a path.
    Kernel(&'a [u8]),
    /// For [`tensor`].
    Tensor(&'a [u8]),
    /// To be read one by one with [`execution_line`].
    Lines {
        streams: bool,
        lines: &'a [u8],
    },
}

/// Stack and rest of an event.
type Read<'a> = Result<(StackRef, Tail<'a>), Nonsense>;

impl Stack {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, last: &mut Deltas) -> Read<'a> {
        Ok((fields.stack(last)?, Tail::Nothing))
    }
}

impl Label {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, _: &mut Deltas) -> Read<'a> {
        Ok((StackRef::NONE, Tail::Label(fields.text()?)))
    }
}

impl Called {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, last: &mut Deltas) -> Read<'a> {
        Ok((fields.stack(last)?, Tail::Label(fields.text()?)))
    }
}

impl Operator {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, last: &mut Deltas) -> Read<'a> {
        Ok((fields.stack(last)?, Tail::Operator(fields.rest())))
    }
}

impl Kernel {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, _: &mut Deltas) -> Read<'a> {
        Ok((StackRef::NONE, Tail::Kernel(fields.rest())))
    }
}

impl Tensor {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, _: &mut Deltas) -> Read<'a> {
        Ok((StackRef::NONE, Tail::Tensor(fields.rest())))
    }
}

impl Lines {
    pub(super) fn get<'a>(fields: &mut Fields<'a>, _: &mut Deltas) -> Read<'a> {
        let flags = fields.byte()?;
        Ok((StackRef::NONE, Tail::Lines { streams: flags & 1 != 0, lines: fields.rest() }))
    }
}

/// What a tensor is made of, in the codes of its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TensorShape {
    pub dtype: i32,
    pub format: i32,
    dimensions: [i64; MOST_DIMENSIONS],
    rank: usize,
}

impl TensorShape {
    pub fn dimensions(&self) -> &[i64] {
        self.dimensions.get(..self.rank).unwrap_or_default()
    }
}

/// Reads the line of a task log at the start of `bytes`, which follows `last`; returns its length too.
pub(super) fn execution_line(bytes: &[u8], streams: bool, last: TaskLogLine) -> Result<(TaskLogLine, usize), Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let first = fields.byte()?;
    let mut line = last;
    line.end = first & execution::END != 0;
    line.unit = first >> execution::UNIT_SHIFT & execution::UNIT_MASK;
    if first & execution::SAME_TASK == 0 {
        // Only the low bits count: a difference that leaves the range wraps.
        line.task = u64::from(last.task).wrapping_add(from_zigzag(fields.varint()?)) as u32;
        if streams {
            line.stream = u64::from(last.stream).wrapping_add(from_zigzag(fields.varint()?)) as u16;
        }
    }
    line.counter = last.counter.wrapping_add(from_zigzag(fields.varint()?));
    Ok((line, fields.at))
}

pub(super) fn tensor(bytes: &[u8]) -> Result<TensorShape, Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let mut shape = TensorShape { dtype: fields.code()?, format: fields.code()?, ..TensorShape::default() };
    shape.rank = fields.small()? as usize;
    for place in shape.dimensions.get_mut(..shape.rank).ok_or(Nonsense)? {
        *place = from_zigzag(fields.varint()?) as i64;
    }
    Ok(shape)
}

/// Turns `path`, the lane's last one, into that of the operator or kernel, and reads the name, which is empty if there is none.
pub(super) fn names<'a>(bytes: &'a [u8], has_name: bool, path: &'a mut Vec<u8>) -> Result<Definition<'a>, Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let shared = fields.small()? as usize;
    if shared > path.len() {
        return Err(Nonsense);
    }
    path.truncate(shared);
    path.extend_from_slice(fields.text()?);
    if path.len() > Path::LIMIT {
        return Err(Nonsense);
    }
    if !has_name {
        return Ok(Definition::AtbNames { path, name: b"" });
    }
    let name = match fields.small()? as usize {
        0 => fields.text()?,
        length => path.get(path.len().wrapping_sub(length)..).ok_or(Nonsense)?,
    };
    Ok(Definition::AtbNames { path, name })
}

/// The node number at a zigzag distance from another.
fn number_at(from: u32, distance: u64) -> Result<u32, Nonsense> {
    u32::try_from(u64::from(from).wrapping_add(from_zigzag(distance))).map_err(|_| Nonsense)
}

pub(super) fn from_zigzag(field: u64) -> u64 {
    (field >> 1) ^ (field & 1).wrapping_neg()
}

/// Bytes, taken field by field.
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Nonsense> {
        let end = self.at.checked_add(length).ok_or(Nonsense)?;
        let taken = self.bytes.get(self.at..end).ok_or(Nonsense)?;
        self.at = end;
        Ok(taken)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Nonsense> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian integer of at most eight bytes.
    pub(super) fn integer(&mut self, length: usize) -> Result<u64, Nonsense> {
        // Away from the end of the payload one unaligned load does it.
        if let Some(word) = u64_at(self.bytes, self.at) {
            self.at += length;
            return Ok(if length == 8 { word } else { word & ((1 << (8 * length)) - 1) });
        }
        let taken = self.take(length)?;
        Ok(taken.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, Nonsense> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Nonsense)
    }

    #[inline]
    pub(super) fn small(&mut self) -> Result<u32, Nonsense> {
        u32::try_from(self.varint()?).map_err(|_| Nonsense)
    }

    pub(super) fn text(&mut self) -> Result<&'a [u8], Nonsense> {
        let length = self.small()? as usize;
        self.take(length)
    }

    pub(super) fn stack(&mut self, last: &mut Deltas) -> Result<StackRef, Nonsense> {
        let field = self.varint()?;
        let python_code = field & 3;
        if python_code == stack_field::NO_STACK {
            return Ok(StackRef::NONE);
        }
        let c = number_at(last.stack.c, field >> 2)?;
        last.stack.c = c;
        let python = match python_code {
            stack_field::NO_PYTHON => 0,
            stack_field::SAME_PYTHON => last.stack.python,
            _ => {
                last.stack.python = number_at(last.stack.python, self.varint()?)?;
                last.stack.python
            }
        };
        Ok(StackRef { c, python })
    }

    /// What is left.
    fn rest(&mut self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// A small number of either sign.
    fn code(&mut self) -> Result<i32, Nonsense> {
        i32::try_from(from_zigzag(self.varint()?) as i64).map_err(|_| Nonsense)
    }

    pub(super) fn address(&mut self, code: u8, last: &mut Deltas) -> Result<HostAddr, Nonsense> {
        let field = self.integer(ADDRESS_LENGTHS[code as usize])?;
        last.address = HostAddr(match code {
            ADDRESS_ABSOLUTE => field,
            _ => (last.address.0 >> 4).wrapping_add(from_zigzag(field)) << 4,
        });
        Ok(last.address)
    }
}
