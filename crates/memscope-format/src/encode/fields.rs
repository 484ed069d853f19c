//! How fields of extended records are written.
//!
//! The reading half of each encoding and tail is in `decode/fields.rs`.
use super::extended::Path;
use super::output::Output;
use super::{Deltas, stack_fields, to_zigzag};
use crate::record::{
    AccessMode, DevAddr, HostAddr, HostCall, LabelLevel, LogicalDevice, MOST_DIMENSIONS, MOST_EXECUTIONS, Phase,
    PhysicalDevice, Protection, Space, SpaceAddr, SpaceDevice, StackRef, SystemKind, TaskLogLine, TensorOwner,
    execution,
};
use crate::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};

/// The way one field is written.
pub(crate) trait Encode<T: Copy> {
    /// Bytes this value needs at most.
    fn room(value: T) -> usize;

    /// Writes it behind what was written; there is room for it.
    fn put(out: &mut Output, last: &mut Deltas, value: T);
}

const LONGEST_VARINT: usize = 10;
/// Of two numbers of 35 and 33 bits.
const LONGEST_STACK: usize = 10;
/// Lengths of texts are below 2^21.
const LONGEST_LENGTH: usize = 3;

/// LEB128.
pub(crate) struct Varint;

/// An unsigned number.
pub(crate) trait Number: Copy {
    const LONGEST: usize;

    fn widened(self) -> u64;
}

macro_rules! numbers {
    ($($number:ty: $longest:expr),*) => {
        $(impl Number for $number {
            const LONGEST: usize = $longest;

            #[inline(always)]
            fn widened(self) -> u64 {
                u64::from(self)
            }
        })*
    };
}
numbers!(u16: 3, u32: 5, u64: LONGEST_VARINT);

macro_rules! devices {
    ($($device:ty),*) => {
        $(impl Number for $device {
            const LONGEST: usize = u32::LONGEST;

            #[inline(always)]
            fn widened(self) -> u64 {
                u64::from(self.0)
            }
        })*
    };
}
devices!(PhysicalDevice, LogicalDevice, SpaceDevice);

impl<T: Number> Encode<T> for Varint {
    #[inline(always)]
    fn room(_: T) -> usize {
        T::LONGEST
    }

    #[inline(always)]
    fn put(out: &mut Output, _: &mut Deltas, value: T) {
        out.varint(value.widened());
    }
}

macro_rules! addresses {
    ($($address:ty),*) => {
        $(impl Number for $address {
            const LONGEST: usize = u64::LONGEST;

            #[inline(always)]
            fn widened(self) -> u64 {
                self.0
            }
        })*
    };
}
addresses!(HostAddr, DevAddr, SpaceAddr);

/// Eight bytes.
pub(crate) struct Word;

impl<T: Number> Encode<T> for Word {
    #[inline(always)]
    fn room(_: T) -> usize {
        8
    }

    #[inline(always)]
    fn put(out: &mut Output, _: &mut Deltas, value: T) {
        out.word(value.widened());
    }
}

/// One byte: a small number, flags, or the code of a choice.
pub(crate) struct Byte;

pub(crate) trait InByte: Copy {
    fn to_byte(self) -> u8;
}

impl InByte for u8 {
    #[inline(always)]
    fn to_byte(self) -> u8 {
        self
    }
}

impl InByte for Protection {
    #[inline(always)]
    fn to_byte(self) -> u8 {
        self.0
    }
}

macro_rules! choices {
    ($($choice:ty),*) => {
        $(impl InByte for $choice {
            #[inline(always)]
            fn to_byte(self) -> u8 {
                self as u8
            }
        })*
    };
}
choices!(Space, HostCall, SystemKind, Phase, AccessMode, TensorOwner, LabelLevel);
choices!(GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble);

impl<T: InByte> Encode<T> for Byte {
    #[inline(always)]
    fn room(_: T) -> usize {
        1
    }

    #[inline(always)]
    fn put(out: &mut Output, _: &mut Deltas, value: T) {
        out.byte(value.to_byte());
    }
}

/// The zigzag difference to the lane's last device address: pools hand out neighbours.
pub(crate) struct DeviceAddress;

impl<T: Number> Encode<T> for DeviceAddress {
    #[inline(always)]
    fn room(_: T) -> usize {
        LONGEST_VARINT
    }

    #[inline(always)]
    fn put(out: &mut Output, last: &mut Deltas, address: T) {
        let address = address.widened();
        out.varint(to_zigzag(address.wrapping_sub(last.device_address)));
        last.device_address = address;
    }
}

/// Length as a varint, then the bytes, cut at the limit: a cut name is still a name.
pub(crate) struct Text<const LIMIT: usize>;

/// A path, file, function, or what a program calls something.
pub(crate) type Name = Text<4096>;
pub(crate) type BuildId = Text<64>;
pub(crate) type LineTable = Text<{ 48 * 1024 }>;

impl<const LIMIT: usize> Text<LIMIT> {
    #[inline(always)]
    pub(crate) fn kept(bytes: &[u8]) -> &[u8] {
        bytes.get(..bytes.len().min(LIMIT)).unwrap_or_default()
    }
}

impl<const LIMIT: usize> Encode<&[u8]> for Text<LIMIT> {
    #[inline(always)]
    fn room(bytes: &[u8]) -> usize {
        LONGEST_LENGTH + bytes.len().min(LIMIT)
    }

    #[inline(always)]
    fn put(out: &mut Output, _: &mut Deltas, bytes: &[u8]) {
        let kept = Self::kept(bytes);
        out.varint(kept.len() as u64);
        out.copy(kept);
    }
}

/// The tail of an event whose stack is recorded.
pub(crate) struct Stack;

impl Stack {
    #[inline(always)]
    pub(super) fn room(_: StackRef) -> usize {
        LONGEST_STACK
    }

    #[inline(always)]
    pub(super) fn put(out: &mut Output, last: &mut Deltas, stack: StackRef) {
        let (field, python) = stack_fields(last, stack);
        out.varint(field);
        if let Some(python) = python {
            out.varint(python);
        }
    }
}

/// The tail of an event that the program named.
pub(crate) struct Label;

impl Label {
    #[inline(always)]
    pub(super) fn room(text: &[u8]) -> usize {
        Name::room(text)
    }

    #[inline(always)]
    pub(super) fn put(out: &mut Output, last: &mut Deltas, text: &[u8]) {
        Name::put(out, last, text);
    }
}

/// The tail of an event with a stack and a name.
pub(crate) struct Called;

impl Called {
    #[inline(always)]
    pub(super) fn room(stack: StackRef, name: &[u8]) -> usize {
        Stack::room(stack) + Name::room(name)
    }

    #[inline(always)]
    pub(super) fn put(out: &mut Output, last: &mut Deltas, stack: StackRef, name: &[u8]) {
        Stack::put(out, last, stack);
        Name::put(out, last, name);
    }
}

/// The tail of a kernel of ATB: its path.
pub(crate) struct Kernel;

impl Kernel {
    #[inline(always)]
    pub(super) fn room(path: Path<'_>) -> usize {
        2 * LONGEST_LENGTH + path.rest().len()
    }

    /// How much of the lane's last path it begins with, and the rest.
    #[inline(always)]
    pub(super) fn put(out: &mut Output, last: &mut Deltas, path: Path<'_>) {
        out.varint(path.shared as u64);
        Text::<{ Path::LIMIT }>::put(out, last, path.rest());
    }
}

/// The tail of the start of an operator of ATB: stack, path, and a name, which is usually how the path ends.
pub(crate) struct Operator;

impl Operator {
    #[inline(always)]
    pub(super) fn room(stack: StackRef, path: Path<'_>, name: &[u8]) -> usize {
        Stack::room(stack) + Kernel::room(path) + LONGEST_LENGTH + Name::room(name)
    }

    #[inline(always)]
    pub(super) fn put(out: &mut Output, last: &mut Deltas, stack: StackRef, path: Path<'_>, name: &[u8]) {
        Stack::put(out, last, stack);
        Kernel::put(out, last, path);
        let in_path = !name.is_empty() && path.kept().ends_with(name);
        out.varint(if in_path { name.len() as u64 } else { 0 });
        if !in_path {
            Name::put(out, last, name);
        }
    }
}

/// The tail of an access: what the tensor is made of, in its owner's codes.
pub(crate) struct Tensor;

impl Tensor {
    #[inline(always)]
    pub(super) fn room(_: i32, _: i32, _: &[i64]) -> usize {
        (3 + MOST_DIMENSIONS) * LONGEST_VARINT
    }

    #[inline(always)]
    pub(super) fn put(out: &mut Output, _: &mut Deltas, dtype: i32, format: i32, dimensions: &[i64]) {
        let kept = dimensions.get(..dimensions.len().min(MOST_DIMENSIONS)).unwrap_or_default();
        out.varint(to_zigzag(i64::from(dtype) as u64));
        out.varint(to_zigzag(i64::from(format) as u64));
        out.varint(kept.len() as u64);
        for dimension in kept {
            out.varint(to_zigzag(*dimension as u64));
        }
    }
}

/// The tail of executions: flags, and lines up to the end of the record.
pub(crate) struct Lines;

impl Lines {
    /// First byte, task, stream and counter.
    const LONGEST_LINE: usize = 1 + 3 * LONGEST_VARINT;

    #[inline(always)]
    pub(super) fn room(_: bool, lines: &[TaskLogLine]) -> usize {
        1 + lines.len().min(MOST_EXECUTIONS) * Self::LONGEST_LINE
    }

    /// Each line against the one before; the first against zeroes, so that a record is understood by itself.
    #[inline(always)]
    pub(super) fn put(out: &mut Output, _: &mut Deltas, streams: bool, lines: &[TaskLogLine]) {
        out.byte(u8::from(streams));
        let mut last = TaskLogLine::default();
        for line in lines.iter().take(MOST_EXECUTIONS) {
            let same = line.task == last.task && (line.stream == last.stream || !streams);
            let unit = (line.unit & execution::UNIT_MASK) << execution::UNIT_SHIFT;
            out.byte(u8::from(line.end) | unit | if same { execution::SAME_TASK } else { 0 });
            if !same {
                out.varint(to_zigzag(u64::from(line.task).wrapping_sub(u64::from(last.task))));
                if streams {
                    out.varint(to_zigzag(u64::from(line.stream).wrapping_sub(u64::from(last.stream))));
                }
            }
            out.varint(to_zigzag(line.counter.wrapping_sub(last.counter)));
            last = *line;
        }
    }
}
