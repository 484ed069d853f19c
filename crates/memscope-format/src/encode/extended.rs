//! Extended records: whatever is rarer than an allocation.
use super::output::Output;
use super::{Deltas, advance, log_code, store, to_zigzag};
use crate::record::{
    AccessMode, Execution, MOST_DIMENSIONS, MOST_EXECUTIONS, Phase, Protection, Space, StackRef, SystemKind,
    TensorOwner, extended, kind,
};

/// An extended record, and what it says. The mirror of [`crate::decode::Definition`] and of the mapping events.
#[derive(Clone, Copy, Debug)]
pub enum Extended<'a> {
    /// From here on the lane belongs to this thread.
    Thread(u32),
    Module {
        id: u32,
        start: u64,
        end: u64,
        bias: u64,
        build_id: &'a [u8],
        path: &'a [u8],
    },
    Code {
        id: u32,
        python_version: u16,
        first_line: u32,
        file: &'a [u8],
        function: &'a [u8],
        line_table: &'a [u8],
    },
    HostMap {
        address: u64,
        size: u64,
        protection: Protection,
        stack: StackRef,
    },
    /// Another protection for whatever is mapped there; whether that is anonymous memory, only its history tells.
    HostProtect {
        address: u64,
        size: u64,
        protection: Protection,
        stack: StackRef,
    },
    HostUnmap {
        address: u64,
        size: u64,
        stack: StackRef,
    },
    /// A mapping was moved or resized; whether it was one of anonymous memory, only its history tells.
    HostRemap {
        old: u64,
        old_size: u64,
        new: u64,
        new_size: u64,
        stack: StackRef,
    },
    /// `attributes`: for driver memory the low 8 bits are the module, the next 2 the page type (normal, huge, giant).
    DeviceAlloc {
        space: Space,
        device: u32,
        address: u64,
        size: u64,
        attributes: u32,
        stack: StackRef,
    },
    DeviceFree {
        space: Space,
        address: u64,
        stack: StackRef,
    },
    /// What a pool has reserved from now on.
    PoolTotal {
        space: Space,
        device: u32,
        total: u64,
    },
    /// The driver refused an allocation for want of memory.
    OutOfMemory {
        space: Space,
        device: u32,
        size: u64,
        flag: u64,
        stack: StackRef,
    },
    /// `ASCEND_RT_VISIBLE_DEVICES` as it stood at the first event of a device.
    VisibleDevices(&'a [u8]),
    System {
        kind: SystemKind,
        value: u64,
    },
    Mark {
        text: &'a [u8],
    },
    RangeStart {
        id: u64,
        text: &'a [u8],
    },
    RangeEnd {
        id: u64,
    },
    /// The program asks what the memory of a device is at this moment.
    Snapshot {
        device: u32,
        name: &'a [u8],
    },
    /// A kernel is about to be launched by the lane's thread.
    Launch,
    /// The runtime gave a task its number. `task` is the word it reports, `name` the hash of the kernel's, 0 for none.
    Task {
        device: u32,
        stream: u32,
        task: u32,
        name: u64,
    },
    KernelName {
        hash: u64,
        text: &'a [u8],
    },
    /// Which way stream and task numbers are packed in the task log.
    StreamExpansion {
        status: u8,
    },
    /// The device's counter at the record's time, give or take half of `width` ticks.
    DeviceClock {
        device: u32,
        /// 0 if the device does not say.
        frequency_khz: u64,
        counter: u64,
        width: u64,
    },
    /// Lines of a device's task log, at most [`MOST_EXECUTIONS`].
    Executions {
        device: u32,
        /// Whether the device tells the stream.
        streams: bool,
        lines: &'a [Execution],
    },
    /// `launch` is the process's own count.
    AtbOperatorStart {
        launch: u64,
        device: u32,
        workspace: u64,
        workspace_size: u64,
        stack: StackRef,
        path: Path<'a>,
        /// Empty if it is not known.
        name: &'a [u8],
    },
    AtbOperatorEnd {
        launch: u64,
    },
    AtbKernel {
        phase: Phase,
        device: u32,
        path: Path<'a>,
    },
    /// Of a tensor of the operator or kernel that began last in this lane. Dimensions beyond the eighth are left out.
    Access {
        mode: AccessMode,
        owner: TensorOwner,
        device: u32,
        address: u64,
        size: u64,
        dtype: i32,
        format: i32,
        dimensions: &'a [i64],
    },
    /// A pool took a range of memory to hand out, and gave it up.
    Heap {
        space: Space,
        device: u32,
        address: u64,
        size: u64,
    },
    HeapEnd {
        space: Space,
        address: u64,
    },
}

/// A path that is written as what it does not have in common with the lane's last path of the same generation: paths of
/// operators and kernels differ in their last components.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    whole: &'a [u8],
    pub(super) shared: usize,
}

impl<'a> Path<'a> {
    /// Longer ones are cut.
    pub const LIMIT: usize = 1024;

    /// `last` is the path of the record before, empty at the beginning of a generation.
    pub fn after(last: &[u8], path: &'a [u8]) -> Path<'a> {
        let whole = path.get(..path.len().min(Path::LIMIT)).unwrap_or_default();
        let shared = whole.iter().zip(last).take_while(|(one, other)| one == other).count();
        Path { whole, shared }
    }

    /// As it is read again.
    pub fn kept(self) -> &'a [u8] {
        self.whole
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.whole.get(self.shared..).unwrap_or_default()
    }
}

/// First bytes, time and length of an extended record, and the overshoot of their stores.
const EXTENDED_OVERHEAD: usize = 20;
/// Longest kept build id, name (path, file, function) and line table.
const BUILD_ID_LIMIT: usize = 64;
const NAME_LIMIT: usize = 4096;
const LINE_TABLE_LIMIT: usize = 48 * 1024;
/// First byte, task, stream and counter of a line of the task log.
const MOST_BYTES_A_LINE: usize = 1 + 10 + 10 + 10;

impl Extended<'_> {
    /// Room to keep before [`extended`]: no encoding of this record needs more.
    pub fn room(&self) -> usize {
        // Numbers are at most ten bytes each, lengths three.
        const NUMBERS: usize = 64;
        const LONGEST_VARINT: usize = 10;
        let texts = match self {
            Extended::Module { build_id, path, .. } => build_id.len().min(BUILD_ID_LIMIT) + path.len().min(NAME_LIMIT),
            Extended::Code { file, function, line_table, .. } => {
                file.len().min(NAME_LIMIT) + function.len().min(NAME_LIMIT) + line_table.len().min(LINE_TABLE_LIMIT)
            }
            Extended::VisibleDevices(text) | Extended::Mark { text } | Extended::RangeStart { text, .. } => {
                text.len().min(NAME_LIMIT)
            }
            Extended::Snapshot { name, .. } => name.len().min(NAME_LIMIT),
            Extended::KernelName { text, .. } => text.len().min(NAME_LIMIT),
            Extended::Executions { lines, .. } => lines.len().min(MOST_EXECUTIONS) * MOST_BYTES_A_LINE,
            Extended::AtbOperatorStart { path, name, .. } => path.rest().len() + name.len().min(NAME_LIMIT),
            Extended::AtbKernel { path, .. } => path.rest().len(),
            // Not texts, but as many numbers again.
            Extended::Access { .. } => MOST_DIMENSIONS * LONGEST_VARINT,
            _ => 0,
        };
        EXTENDED_OVERHEAD + NUMBERS + texts
    }

    fn record_type(&self) -> u8 {
        match self {
            Extended::Thread(_) => extended::THREAD,
            Extended::Module { .. } => extended::MODULE,
            Extended::Code { .. } => extended::CODE,
            Extended::HostMap { .. } => extended::HOST_MAP_PROTECTED,
            Extended::HostProtect { .. } => extended::HOST_PROTECT,
            Extended::HostUnmap { .. } => extended::HOST_UNMAP,
            Extended::HostRemap { .. } => extended::HOST_REMAP,
            Extended::DeviceAlloc { .. } => extended::DEVICE_ALLOC,
            Extended::DeviceFree { .. } => extended::DEVICE_FREE,
            Extended::PoolTotal { .. } => extended::POOL_TOTAL,
            Extended::OutOfMemory { .. } => extended::OUT_OF_MEMORY,
            Extended::VisibleDevices(_) => extended::VISIBLE_DEVICES,
            Extended::System { .. } => extended::SYSTEM,
            Extended::Mark { .. } => extended::MARK,
            Extended::RangeStart { .. } => extended::RANGE_START,
            Extended::RangeEnd { .. } => extended::RANGE_END,
            Extended::Snapshot { .. } => extended::SNAPSHOT,
            Extended::Launch => extended::LAUNCH,
            Extended::Task { .. } => extended::TASK,
            Extended::KernelName { .. } => extended::KERNEL_NAME,
            Extended::StreamExpansion { .. } => extended::STREAM_EXPANSION,
            Extended::DeviceClock { .. } => extended::DEVICE_CLOCK,
            Extended::Executions { .. } => extended::EXECUTIONS,
            Extended::AtbOperatorStart { .. } => extended::ATB_OPERATOR_START,
            Extended::AtbOperatorEnd { .. } => extended::ATB_OPERATOR_END,
            Extended::AtbKernel { .. } => extended::ATB_KERNEL,
            Extended::Access { .. } => extended::ACCESS,
            Extended::Heap { .. } => extended::HEAP,
            Extended::HeapEnd { .. } => extended::HEAP_END,
        }
    }

    /// # Safety
    /// There is room for [`Extended::room`] bytes less the overhead at the output.
    unsafe fn fill(&self, out: &mut Output, last: &mut Deltas) {
        match *self {
            Extended::Thread(thread) => out.varint(u64::from(thread)),
            Extended::Module { id, start, end, bias, build_id, path } => {
                out.varint(u64::from(id));
                for word in [start, end, bias] {
                    out.word(word);
                }
                out.text(build_id, BUILD_ID_LIMIT);
                out.text(path, NAME_LIMIT);
            }
            Extended::Code { id, python_version, first_line, file, function, line_table } => {
                for number in [id, u32::from(python_version), first_line] {
                    out.varint(u64::from(number));
                }
                out.text(file, NAME_LIMIT);
                out.text(function, NAME_LIMIT);
                out.text(line_table, LINE_TABLE_LIMIT);
            }
            Extended::HostMap { address, size, protection, stack }
            | Extended::HostProtect { address, size, protection, stack } => {
                out.word(address);
                out.varint(size);
                out.byte(protection.0);
                out.stack(last, stack);
            }
            Extended::HostUnmap { address, size, stack } => {
                out.word(address);
                out.varint(size);
                out.stack(last, stack);
            }
            Extended::HostRemap { old, old_size, new, new_size, stack } => {
                out.word(old);
                out.varint(old_size);
                out.word(new);
                out.varint(new_size);
                out.stack(last, stack);
            }
            Extended::DeviceAlloc { space, device, address, size, attributes, stack } => {
                out.byte(space as u8);
                out.varint(u64::from(device));
                out.device_address(last, address);
                out.varint(size);
                out.varint(u64::from(attributes));
                out.stack(last, stack);
            }
            Extended::DeviceFree { space, address, stack } => {
                out.byte(space as u8);
                out.device_address(last, address);
                out.stack(last, stack);
            }
            Extended::PoolTotal { space, device, total } => {
                out.byte(space as u8);
                out.varint(u64::from(device));
                out.varint(total);
            }
            Extended::OutOfMemory { space, device, size, flag, stack } => {
                out.byte(space as u8);
                out.varint(u64::from(device));
                out.varint(size);
                out.varint(flag);
                out.stack(last, stack);
            }
            Extended::VisibleDevices(text) | Extended::Mark { text } => out.text(text, NAME_LIMIT),
            Extended::System { kind, value } => {
                out.byte(kind as u8);
                out.varint(value);
            }
            Extended::RangeStart { id, text } => {
                out.varint(id);
                out.text(text, NAME_LIMIT);
            }
            Extended::RangeEnd { id } => out.varint(id),
            Extended::Snapshot { device, name } => {
                out.varint(u64::from(device));
                out.text(name, NAME_LIMIT);
            }
            Extended::Launch => {}
            Extended::Task { device, stream, task, name } => {
                for number in [device, stream, task] {
                    out.varint(u64::from(number));
                }
                out.word(name);
            }
            Extended::KernelName { hash, text } => {
                out.word(hash);
                out.text(text, NAME_LIMIT);
            }
            Extended::StreamExpansion { status } => out.byte(status),
            Extended::DeviceClock { device, frequency_khz, counter, width } => {
                out.varint(u64::from(device));
                out.varint(frequency_khz);
                out.word(counter);
                out.varint(width);
            }
            Extended::Executions { device, streams, lines } => {
                out.varint(u64::from(device));
                out.byte(u8::from(streams));
                out.executions(lines, streams);
            }
            Extended::AtbOperatorStart { launch, device, workspace, workspace_size, stack, path, name } => {
                out.varint(launch);
                out.varint(u64::from(device));
                out.device_address(last, workspace);
                out.varint(workspace_size);
                out.stack(last, stack);
                out.path(path);
                // The last component of the path ends with the name.
                let in_path = !name.is_empty() && path.kept().ends_with(name);
                out.varint(if in_path { name.len() as u64 } else { 0 });
                if !in_path {
                    out.text(name, NAME_LIMIT);
                }
            }
            Extended::AtbOperatorEnd { launch } => out.varint(launch),
            Extended::AtbKernel { phase, device, path } => {
                out.byte(phase as u8);
                out.varint(u64::from(device));
                out.path(path);
            }
            Extended::Access { mode, owner, device, address, size, dtype, format, dimensions } => {
                out.byte(mode as u8);
                out.byte(owner as u8);
                out.varint(u64::from(device));
                out.device_address(last, address);
                out.varint(size);
                let kept = dimensions.get(..dimensions.len().min(MOST_DIMENSIONS)).unwrap_or_default();
                out.varint(to_zigzag(i64::from(dtype) as u64));
                out.varint(to_zigzag(i64::from(format) as u64));
                out.varint(kept.len() as u64);
                for dimension in kept {
                    out.varint(to_zigzag(*dimension as u64));
                }
            }
            Extended::Heap { space, device, address, size } => {
                out.byte(space as u8);
                out.varint(u64::from(device));
                out.device_address(last, address);
                out.varint(size);
            }
            Extended::HeapEnd { space, address } => {
                out.byte(space as u8);
                out.device_address(last, address);
            }
        }
    }
}

/// Writes an extended record and returns its end.
///
/// # Safety
/// `out` must be valid for writes of `record.room()` bytes that overlap nothing the record refers to.
pub unsafe fn extended(out: *mut u8, last: &mut Deltas, ticks: u64, record: &Extended<'_>) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    // SAFETY: the caller keeps the room for overhead and payload.
    unsafe {
        out.write(kind::EXTENDED | time_code << 2);
        out.add(1).write(record.record_type());
        let length_at = store(out.add(2), time, 1 << time_code);
        let mut payload = Output(length_at.add(2));
        record.fill(&mut payload, last);
        let length = payload.0 as usize - length_at as usize - 2;
        length_at.cast::<[u8; 2]>().write((length as u16).to_le_bytes());
        payload.0
    }
}
