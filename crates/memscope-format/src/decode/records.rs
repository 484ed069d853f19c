//! One record after the other out of the payload of a spool block: what the table says, and the records of its own kind.
use super::fields::{Decode, Fields, Nonsense, Tail, TensorShape};
use super::nodes::node;
use super::text::Line;
use crate::encode::fields::{
    BuildId, Byte, Called, DeviceAddress, Kernel, Label, LineTable, Lines, Name, Operator, Stack, Tensor, Varint, Word,
};
use crate::encode::{Deltas, NodeDeltas};
use crate::record::{
    AccessMode, DevAddr, FrameRecord, HostAddr, HostCall, LabelLevel, LogicalDevice, Phase, PhysicalDevice, Protection,
    SIZE_LENGTHS, Space, SpaceAddr, SpaceDevice, StackRef, SystemKind, TIME_LENGTHS, TaskLogLine, TensorOwner,
    free_stack, kind,
};
use crate::records::records;
use crate::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};

/// Something that happened in the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    pub ticks: u64,
    pub thread: u32,
    /// Nodes of the event's lane.
    pub stack: StackRef,
    pub kind: EventKind,
}

/// What the record at hand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    Event {
        stack: StackRef,
        kind: EventKind,
        tail: Tail<'a>,
    },
    Definition(Definition<'a>),
    Lane {
        record: LaneRecord,
        tail: Tail<'a>,
    },
    /// A type of a later version; skipped.
    Unknown,
}

macro_rules! make_decoder {
    (
        lane { $(
            $(#[$lane_meta:meta])*
            $lane_code:literal $lane_name:ident $lane_variant:ident
            { $($lane_field:ident: $lane_type:ty as $lane_encoding:ident),* $(,)? } $(with $lane_tail:ident($($lane_part:tt)*))?;
        )* }
        definitions { $(
            $(#[$definition_meta:meta])*
            $definition_code:literal $definition_name:ident $definition:ident
            { $($definition_field:ident: $definition_type:ty as $definition_encoding:ident),* $(,)? };
        )* }
        events { $(
            $(#[$event_meta:meta])*
            $event_code:literal $event_name:ident $event:ident
            $({ $($field:ident: $type:ty as $encoding:ident),* $(,)? } $(with $tail:ident($($part:tt)*))?)?;
        )* }
        superseded { $(
            $(#[$old_meta:meta])*
            $old_code:literal $old_name:ident $old:ident
            { $($old_field:ident: $old_type:ty as $old_encoding:ident),* $(,)? } with $old_tail:ident($($old_part:tt)*),
            without { $($missing:ident: $value:expr),* };
        )* }
    ) => {
        /// What a cursor needs to read the lane itself.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum LaneRecord {
            $($(#[$lane_meta])* $lane_variant { $($lane_field: $lane_type),* },)*
        }

        /// Something later records of the same lane refer to, or the next event does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Definition<'a> {
            $($(#[$definition_meta])* $definition { $($definition_field: $definition_type),* },)*
            Node { id: u32, parent: u32, frame: FrameRecord },
            /// The text of the mark, range or snapshot that follows.
            Text { text: &'a [u8] },
            /// Of the operator or kernel of ATB that follows; what is empty is not known. A kernel has a path only.
            AtbNames { path: &'a [u8], name: &'a [u8] },
            /// Of the access that follows.
            Tensor(TensorShape),
        }

        /// What happened. Texts, paths, names and tensors are in the [`Definition`] that comes just before the event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum EventKind {
            HostAlloc { address: HostAddr, size: u64 },
            HostFree { address: HostAddr },
            $($(#[$event_meta])* $event $({ $($field: $type),* })?,)*
            /// A line of a device's task log. The event's time is when it was read; `streams` says whether it has a stream.
            Execution { device: PhysicalDevice, streams: bool, line: TaskLogLine },
        }

        fn extended_record<'a>(record_type: u8, payload: &'a [u8], last: &mut Deltas) -> Result<Record<'a>, Nonsense> {
            let fields = &mut Fields { bytes: payload, at: 0 };
            Ok(match record_type {
                $($lane_code => {
                    let record = LaneRecord::$lane_variant { $($lane_field: $lane_encoding::get(fields, last)?),* };
                    let (_, tail) = tail!(fields, last $(, $lane_tail)?);
                    Record::Lane { record, tail }
                })*
                $($definition_code => Record::Definition(Definition::$definition {
                    $($definition_field: $definition_encoding::get(fields, last)?),*
                }),)*
                $($event_code => {
                    let kind = EventKind::$event $({ $($field: $encoding::get(fields, last)?),* })?;
                    let (stack, tail) = tail!(fields, last $($(, $tail)?)?);
                    Record::Event { stack, kind, tail }
                })*
                $($old_code => {
                    let kind = EventKind::$old {
                        $($old_field: $old_encoding::get(fields, last)?,)*
                        $($missing: $value),*
                    };
                    let (stack, tail) = tail!(fields, last, $old_tail);
                    Record::Event { stack, kind, tail }
                })*
                _ => Record::Unknown,
            })
        }

        impl<'a> Definition<'a> {
            /// The definition's fields as text, and what it is called.
            pub(super) fn show(self, line: &mut Line<'_>) -> &'static str {
                match self {
                    $(Definition::$definition { $($definition_field),* } => {
                        $(<$definition_encoding as Decode<'a, $definition_type>>::show(
                            line, stringify!($definition_field), $definition_field,
                        );)*
                        stringify!($definition_name)
                    })*
                    Definition::Node { id, parent, frame } => {
                        line.number("id", id);
                        line.number("parent", parent);
                        line.frame(frame);
                        "NODE"
                    }
                    Definition::Text { text } => {
                        line.text("text", text);
                        "TEXT"
                    }
                    Definition::AtbNames { path, name } => {
                        line.text("path", path);
                        line.text("name", name);
                        "NAMES"
                    }
                    Definition::Tensor(shape) => {
                        line.number("dtype", shape.dtype);
                        line.number("format", shape.format);
                        for dimension in shape.dimensions() {
                            line.number("dimension", dimension);
                        }
                        "TENSOR"
                    }
                }
            }
        }

        impl EventKind {
            /// The event's fields as text, and what it is called.
            pub(super) fn show(self, line: &mut Line<'_>) -> &'static str {
                match self {
                    EventKind::HostAlloc { address, size } => {
                        line.word("address", address.0);
                        line.number("size", size);
                        "HOST_ALLOC"
                    }
                    EventKind::HostFree { address } => {
                        line.word("address", address.0);
                        "HOST_FREE"
                    }
                    EventKind::Execution { device, streams, line: log } => {
                        line.number("device", device.0);
                        line.number("streams", u8::from(streams));
                        line.execution(log);
                        "EXECUTION"
                    }
                    $(EventKind::$event $({ $($field),* })? => {
                        $($(<$encoding as Decode<'_, $type>>::show(line, stringify!($field), $field);)*)?
                        stringify!($event_name)
                    })*
                }
            }
        }
    };
}

/// Stack and rest of a record that may have none.
macro_rules! tail {
    ($fields:ident, $last:ident) => {
        (StackRef::NONE, Tail::Nothing)
    };
    ($fields:ident, $last:ident, $tail:ident) => {
        $tail::get($fields, $last)?
    };
}

records!(make_decoder);

/// Reads the record at the start of `bytes`; returns it, its time and its length.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    last: &mut Deltas,
    last_node: &mut NodeDeltas,
) -> Result<(u64, Record<'a>, usize), Nonsense> {
    let mut fields = Fields { bytes, at: 0 };
    let first = fields.byte()?;
    let (time_code, address_code, last_code) = (first >> 2 & 3, first >> 4 & 3, first >> 6);
    let record = match first & 3 {
        kind::EXTENDED => {
            let record_type = fields.byte()?;
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let length = fields.integer(2)? as usize;
            extended_record(record_type, fields.take(length)?, last)?
        }
        kind::HOST_ALLOC => {
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let address = fields.address(address_code, last)?;
            let size = fields.integer(SIZE_LENGTHS[last_code as usize])?;
            let kind = EventKind::HostAlloc { address, size };
            Record::Event { stack: fields.stack(last)?, kind, tail: Tail::Nothing }
        }
        kind::HOST_FREE => {
            last.ticks = last.ticks.wrapping_add(fields.integer(TIME_LENGTHS[time_code as usize])?);
            let address = fields.address(address_code, last)?;
            let stack = match last_code {
                free_stack::NONE => StackRef::NONE,
                free_stack::GIVEN => fields.stack(last)?,
                _ => return Err(Nonsense),
            };
            Record::Event { stack, kind: EventKind::HostFree { address }, tail: Tail::Nothing }
        }
        _ => Record::Definition(node(&mut fields, first, last_node)?),
    };
    Ok((last.ticks, record, fields.at))
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
