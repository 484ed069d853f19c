//! Encoding into a window: straight stores, no allocation.
//!
//! ```text
//! event      | size:2 address:2 time:2 kind:2 | time | address | size (alloc) | stack (alloc; free if size code = 1) |
//! extended   |    0      0     time:2   0:2   | type | time | length:u16 | payload |
//! ```
//! The two-bit codes say how long a field is ([`crate::record`]). The usual event, soon after the last and near it, is one
//! word; in any other a field is stored as eight bytes and the cursor advanced by its length. So every event needs
//! [`MAX_EVENT`] bytes of room although it keeps four to nine.
use crate::followers::Followers;
use crate::record::{
    ADDRESS_ABSOLUTE, AccessMode, Execution, FrameRecord, MOST_DIMENSIONS, MOST_EXECUTIONS, Phase, Space, StackRef,
    SystemKind, TensorOwner, execution, extended, frame, free_stack, kind, node_parent, stack_field,
};

/// Room an event may need: 1 + 8 + 8 + 8 bytes, the stack's 10, and the overshoot of the last store.
pub const MAX_EVENT: usize = 48;
/// First bytes, time and length of an extended record, and the overshoot of their stores.
const EXTENDED_OVERHEAD: usize = 20;

/// What the next record is encoded against. A generation begins with `Deltas::at(base_ticks)`.
#[derive(Clone, Copy, Debug)]
pub struct Deltas {
    pub ticks: u64,
    pub address: u64,
    pub device_address: u64,
    /// The last C part and the last Python part of a stack that were not 0.
    pub stack: StackRef,
}

impl Deltas {
    pub const fn at(base_ticks: u64) -> Deltas {
        Deltas { ticks: base_ticks, address: 0, device_address: 0, stack: StackRef::NONE }
    }
}

/// What the next node is encoded against; apart from [`Deltas`], which every event touches. Zeroed memory is where a
/// generation begins.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct NodeDeltas {
    pub(crate) node: u32,
    /// The code object of the last Python frame.
    pub(crate) code: u32,
    /// Module and offset of the last C frame, and of the last one that did not hang below its predecessor.
    pub(crate) c_frame: (u32, u64),
    branch: (u32, u64),
    pub(crate) followers: Followers,
}

impl NodeDeltas {
    pub const fn new() -> NodeDeltas {
        NodeDeltas { node: 0, code: 0, c_frame: (0, 0), branch: (0, 0), followers: Followers::new() }
    }

    /// Back to where a generation begins. In place: a value of this size must not go over the stack of a recorded program.
    pub fn forget(&mut self) {
        (self.node, self.code) = (0, 0);
        (self.c_frame, self.branch) = ((0, 0), (0, 0));
        self.followers.forget();
    }

    /// The frame that a C frame is expected near.
    pub(crate) fn neighbour(&self, below: u8) -> (u32, u64) {
        if below == node_parent::PREVIOUS { self.c_frame } else { self.branch }
    }

    pub(crate) fn note_c_frame(&mut self, below: u8, frame: (u32, u64)) {
        self.c_frame = frame;
        if below != node_parent::PREVIOUS {
            self.branch = frame;
        }
    }
}

impl Default for NodeDeltas {
    fn default() -> Self {
        NodeDeltas::new()
    }
}

/// An allocation of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_alloc(
    out: *mut u8,
    last: &mut Deltas,
    ticks: u64,
    address: u64,
    size: u64,
    stack: StackRef,
) -> *mut u8 {
    let time = ticks.wrapping_sub(last.ticks);
    let zigzag = zigzag(last.address, address);
    if time | size > 0xff || !is_near(zigzag, address) {
        // SAFETY: passed on.
        return unsafe { any_host_alloc(out, last, ticks, address, size, stack) };
    }
    // The usual event is one word: kind, one byte of time, two or three of address, one of size.
    let wide = u64::from(zigzag > 0xffff);
    let head = u64::from(kind::HOST_ALLOC) | wide << 4;
    let word = head | time << 8 | zigzag << 16 | size << (32 + 8 * wide);
    last.ticks = ticks;
    last.address = address;
    // SAFETY: eight bytes of the word, at most ten of the stack.
    unsafe {
        out.cast::<u64>().write_unaligned(word.to_le());
        store_stack(out.add(5 + wide as usize), last, stack)
    }
}

/// A free of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, stack: StackRef) -> *mut u8 {
    let time = ticks.wrapping_sub(last.ticks);
    let zigzag = zigzag(last.address, address);
    if time > 0xff || stack != StackRef::NONE || !is_near(zigzag, address) {
        // SAFETY: passed on.
        return unsafe { any_host_free(out, last, ticks, address, stack) };
    }
    let wide = u64::from(zigzag > 0xffff);
    let word = u64::from(kind::HOST_FREE) | wide << 4 | time << 8 | zigzag << 16;
    last.ticks = ticks;
    last.address = address;
    // SAFETY: eight bytes of the word.
    unsafe {
        out.cast::<u64>().write_unaligned(word.to_le());
        out.add(4 + wide as usize)
    }
}

/// Every allocation, whatever its fields need. Out of the way of the usual one.
///
/// # Safety
/// As for [`host_alloc`].
#[inline(never)]
unsafe fn any_host_alloc(
    out: *mut u8,
    last: &mut Deltas,
    ticks: u64,
    address: u64,
    size: u64,
    stack: StackRef,
) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let size_code = log_code(size);
    // SAFETY: 1 + 8 + 8 + 8 + 10 bytes at most, and a store reaches at most 7 further.
    unsafe {
        out.write(kind::HOST_ALLOC | time_code << 2 | address_code << 4 | size_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        at = store(at, size, 1 << size_code);
        store_stack(at, last, stack)
    }
}

/// Every free, whatever its fields need.
///
/// # Safety
/// As for [`host_free`].
#[inline(never)]
unsafe fn any_host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, stack: StackRef) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let stack_code = if stack == StackRef::NONE { free_stack::NONE } else { free_stack::GIVEN };
    // SAFETY: as in `any_host_alloc`.
    unsafe {
        out.write(kind::HOST_FREE | time_code << 2 | address_code << 4 | stack_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        if stack_code == free_stack::GIVEN { store_stack(at, last, stack) } else { at }
    }
}

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
    shared: usize,
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

    fn rest(self) -> &'a [u8] {
        self.whole.get(self.shared..).unwrap_or_default()
    }
}

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
            Extended::HostMap { .. } => extended::HOST_MAP,
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
            Extended::HostMap { address, size, stack } | Extended::HostUnmap { address, size, stack } => {
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

/// A node of the stack tree. The most frequent definition by far, so it has a kind of its own: nodes follow each other in
/// number, hang below the one before, and are frames met before.
///
/// ```text
/// | number:1 same:1 below:2 frame:2 3:2 | number? | number - parent? | module or code? | offset |
/// | number:1    0   place:2     3:2 3:2 | number? |                 a follower, below the last node
/// ```
///
/// # Safety
/// `out` must be valid for writes of [`MAX_NODE`] bytes.
pub unsafe fn node(out: *mut u8, last: &mut NodeDeltas, id: u32, parent: u32, frame: FrameRecord) -> *mut u8 {
    let follows = id == last.node.wrapping_add(1);
    last.node = id;
    let below = match parent {
        0 => node_parent::NONE,
        parent if parent == id.wrapping_sub(1) => node_parent::PREVIOUS,
        _ => node_parent::EARLIER,
    };
    let mut payload = Output(out);
    let mut begin = |frame_kind: u8, below: u8, known: bool| {
        payload.byte(kind::NODE | frame_kind << 2 | below << 4 | u8::from(known) << 6 | u8::from(!follows) << 7);
        if !follows {
            payload.varint(u64::from(id));
        }
        if frame_kind != frame::FOLLOWER && below == node_parent::EARLIER {
            payload.varint(u64::from(id.wrapping_sub(parent)));
        }
    };
    match frame {
        FrameRecord::C { module, offset } => {
            let neighbour = last.neighbour(below);
            last.note_c_frame(below, (module, offset));
            if below == node_parent::PREVIOUS
                && let Some(place) = last.followers.note(neighbour, (module, offset))
            {
                begin(frame::FOLLOWER, place, false);
                return payload.0;
            }
            begin(frame::C, below, module == neighbour.0);
            if module != neighbour.0 {
                payload.varint(u64::from(module));
            }
            payload.varint(to_zigzag(offset.wrapping_sub(neighbour.1)));
        }
        FrameRecord::Unknown { address } => {
            begin(frame::UNKNOWN, below, false);
            payload.varint(address);
        }
        FrameRecord::Python { code, instruction } => {
            let known = core::mem::replace(&mut last.code, code) == code;
            begin(frame::PYTHON, below, known);
            if !known {
                payload.varint(u64::from(code));
            }
            payload.varint(u64::from(instruction));
        }
    }
    payload.0
}

/// Room a node may need: five numbers and the first byte.
pub const MAX_NODE: usize = 40;

/// Where the next byte of a payload goes. Only [`extended`] makes one, over room it was promised.
struct Output(*mut u8);

impl Output {
    fn byte(&mut self, value: u8) {
        self.copy(&[value]);
    }

    fn word(&mut self, value: u64) {
        self.copy(&value.to_le_bytes());
    }

    /// LEB128.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// The zigzag difference to the lane's last device address: pools hand out neighbours.
    fn device_address(&mut self, last: &mut Deltas, address: u64) {
        self.varint(to_zigzag(address.wrapping_sub(last.device_address)));
        last.device_address = address;
    }

    fn stack(&mut self, last: &mut Deltas, stack: StackRef) {
        let (field, python) = stack_fields(last, stack);
        self.varint(field);
        if let Some(python) = python {
            self.varint(python);
        }
    }

    /// Each line against the one before; the first against zeroes, so that a record is understood by itself.
    fn executions(&mut self, lines: &[Execution], streams: bool) {
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
    fn text(&mut self, bytes: &[u8], limit: usize) {
        let kept = bytes.get(..bytes.len().min(limit)).unwrap_or_default();
        self.varint(kept.len() as u64);
        self.copy(kept);
    }

    fn path(&mut self, path: Path<'_>) {
        self.varint(path.shared as u64);
        self.text(path.rest(), Path::LIMIT);
    }

    fn copy(&mut self, bytes: &[u8]) {
        // SAFETY: `Extended::room` counts every byte that `Extended::fill` writes, and the caller of `extended` keeps it.
        unsafe {
            self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.0 = self.0.add(bytes.len());
        }
    }
}

/// Time since the last record. Counters of two cores may differ by a tick or two: never backwards within a lane.
#[inline(always)]
fn advance(last: &mut Deltas, ticks: u64) -> u64 {
    let now = ticks.max(last.ticks);
    let time = now - last.ticks;
    last.ticks = now;
    time
}

/// 0, 1, 2, 3 for a value of one, two, four, eight bytes.
#[inline(always)]
fn log_code(value: u64) -> u8 {
    u8::from(value > 0xff) + u8::from(value > 0xffff) + u8::from(value > 0xffff_ffff)
}

/// The difference of two addresses in units of 16 bytes, small for neighbours on either side.
#[inline(always)]
fn zigzag(last: u64, address: u64) -> u64 {
    to_zigzag((address >> 4).wrapping_sub(last >> 4))
}

/// A difference as an unsigned number that is small for small differences of either sign.
#[inline(always)]
fn to_zigzag(difference: u64) -> u64 {
    let difference = difference as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Whether the address fits the two or three bytes of the usual event.
#[inline(always)]
fn is_near(zigzag: u64, address: u64) -> bool {
    zigzag <= 0xff_ffff && address & 15 == 0
}

fn address_field(last: &mut Deltas, address: u64) -> (u8, u64) {
    let zigzag = zigzag(last.address, address);
    last.address = address;
    let code = u8::from(zigzag > 0xffff) + u8::from(zigzag > 0xff_ffff) + u8::from(zigzag > 0xffff_ffff);
    if address & 15 != 0 || code == ADDRESS_ABSOLUTE { (ADDRESS_ABSOLUTE, address) } else { (code, zigzag) }
}

#[inline(always)]
fn address_length(code: u8) -> usize {
    2 + code as usize + if code == ADDRESS_ABSOLUTE { 3 } else { 0 }
}

/// The stack's number, and the one that follows it if the Python part changed.
#[inline(always)]
fn stack_fields(last: &mut Deltas, stack: StackRef) -> (u64, Option<u64>) {
    if stack == StackRef::NONE {
        return (stack_field::NO_STACK, None);
    }
    let c = difference(last.stack.c, stack.c) << 2;
    last.stack.c = stack.c;
    if stack.python == 0 {
        return (c | stack_field::NO_PYTHON, None);
    }
    if stack.python == last.stack.python {
        return (c | stack_field::SAME_PYTHON, None);
    }
    let python = difference(last.stack.python, stack.python);
    last.stack.python = stack.python;
    (c | stack_field::OTHER_PYTHON, Some(python))
}

/// From one node's number to another's.
#[inline(always)]
fn difference(from: u32, to: u32) -> u64 {
    to_zigzag(u64::from(to).wrapping_sub(u64::from(from)))
}

/// # Safety
/// `out` must be valid for writes of ten bytes.
#[inline(always)]
unsafe fn store_stack(out: *mut u8, last: &mut Deltas, stack: StackRef) -> *mut u8 {
    let (field, python) = stack_fields(last, stack);
    // SAFETY: the first number has 35 bits at most, the second 33: five bytes of seven bits each.
    unsafe {
        let out = varint(out, field);
        match python {
            Some(python) => varint(out, python),
            None => out,
        }
    }
}

/// # Safety
/// `out` must be valid for writes of eight bytes, whatever `length` is kept.
#[inline(always)]
unsafe fn store(out: *mut u8, value: u64, length: usize) -> *mut u8 {
    // SAFETY: the caller has room for the whole word.
    unsafe {
        out.cast::<u64>().write_unaligned(value.to_le());
        out.add(length)
    }
}

/// # Safety
/// `out` must be valid for writes of five bytes.
#[inline(always)]
unsafe fn varint(mut out: *mut u8, mut value: u64) -> *mut u8 {
    // SAFETY: the caller's value has at most 35 bits: five bytes of seven bits.
    unsafe {
        while value >= 0x80 {
            out.write(value as u8 | 0x80);
            out = out.add(1);
            value >>= 7;
        }
        out.write(value as u8);
        out.add(1)
    }
}
