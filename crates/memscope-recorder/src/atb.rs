//! Operators and kernels of ATB, and the tensors they are given.
//!
//! The records of one operator or kernel follow each other in the lane: its start, then the accesses to its tensors,
//! which so need not name it.
use crate::aten::tell_stream;
use crate::control;
use crate::device::{LogicalDevice, note_visible_devices};
use crate::lane::{Lane, record};
use crate::slot::Guard;
use memscope_format::encode::{Extended, Path};
pub use memscope_format::record::{AccessMode, DevAddr, MOST_DIMENSIONS, Phase, TensorOwner};

/// The path in the newest record of a lane that has one. In the lane's zeroed memory it is of no generation.
#[repr(C)]
pub(crate) struct LastPath {
    generation: u32,
    length: u32,
    text: [u8; Path::LIMIT],
}

impl LastPath {
    /// What the next path may be encoded against.
    fn of_generation(&self, generation: u32) -> &[u8] {
        let length = if self.generation == generation { self.length as usize } else { 0 };
        self.text.get(..length).unwrap_or_default()
    }

    fn keep(&mut self, generation: u32, path: &[u8]) {
        self.generation = generation;
        // Every path kept is as long as the text at most; one that were not would leave the old text in its place.
        if let Some(place) = self.text.get_mut(..path.len()) {
            place.copy_from_slice(path);
            self.length = path.len() as u32;
        }
    }
}

/// An operator about to run. What is empty is not known.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    /// Never used for another in this process.
    pub number: u64,
    pub device: LogicalDevice,
    pub workspace: DevAddr,
    pub workspace_size: u64,
    /// The handle of the stream that its kernels go to, 0 if that is not known.
    pub stream: u64,
    pub path: &'a [u8],
    pub name: &'a [u8],
}

/// A tensor about to be used.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub mode: AccessMode,
    pub owner: TensorOwner,
    pub device: LogicalDevice,
    pub address: DevAddr,
    pub size: u64,
    pub dtype: i32,
    pub format: i32,
    pub dimensions: &'a [i64],
}

/// Operators and accesses outside of tracing explain nothing within it, unlike blocks: they are not recorded.
pub fn is_traced() -> bool {
    control::is_tracing()
}

pub fn operator_start(guard: &Guard<'_>, operator: &Operator<'_>) {
    note_visible_devices(guard);
    let Operator { number, device, workspace, workspace_size, stream, path, name } = *operator;
    record(guard.entry(), 1, |lane, ticks, stack| {
        if !tell_stream(lane, ticks, stream) {
            return lane.writer.lose(1);
        }
        write_with_path(lane, ticks, path, |path| Extended::AtbOperatorStart {
            launch: number,
            device,
            workspace,
            workspace_size,
            stack,
            path,
            name,
        });
    });
}

pub fn kernel(guard: &Guard<'_>, phase: Phase, device: LogicalDevice, path: &[u8]) {
    note_visible_devices(guard);
    record(guard.no_stack(), 1, |lane, ticks, _| {
        write_with_path(lane, ticks, path, |path| Extended::AtbKernel { phase, device, path });
    });
}

/// By the operator or kernel whose start was recorded last on this thread.
pub fn access(guard: &Guard<'_>, access: &Access<'_>) {
    let Access { mode, owner, device, address, size, dtype, format, dimensions } = *access;
    record(guard.no_stack(), 1, |lane, ticks, _| {
        let record = Extended::Access { mode, owner, device, address, size, dtype, format, dimensions };
        lane.writer.extended_event(ticks, &record);
    });
}

/// Writes a record with a path, against the last one if that is in the same generation when it is written.
fn write_with_path<'p>(lane: &mut Lane, ticks: u64, path: &'p [u8], make: impl Fn(Path<'p>) -> Extended<'p>) {
    // With the room made first, the generation is the one the record goes into.
    if !lane.writer.make_room(make(Path::after(b"", path)).room()) {
        lane.writer.lose(1);
        return;
    }
    let generation = lane.writer.generation();
    let last = lane.last_path().map_or(b"".as_slice(), |last| last.of_generation(generation));
    let coded = Path::after(last, path);
    lane.writer.extended_event(ticks, &make(coded));
    if let Some(last) = lane.last_path() {
        last.keep(generation, coded.kept());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_counts_within_its_generation_only() {
        let mut last = LastPath { generation: 0, length: 0, text: [0; Path::LIMIT] };
        last.keep(3, b"/a/before");
        last.keep(3, b"/b");
        assert_eq!(last.of_generation(3), b"/b");
        assert_eq!(last.of_generation(4), b"");
        last.keep(4, &[b'x'; Path::LIMIT]);
        assert_eq!(last.of_generation(4).len(), Path::LIMIT);
    }
}
