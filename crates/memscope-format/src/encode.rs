//! Encoding into a window: straight stores, no allocation.
//!
//! ```text
//! event      | size:2 address:2 time:2 kind:2 | time | address | size (alloc) | stack (alloc; free if size code = 2) |
//! extended   |    0      0     time:2   0:2   | type | time | length:u16 | payload |
//! ```
//! The two-bit codes say how long a field is ([`crate::record`]). The usual event, soon after the last and near it, is one
//! word; in any other a field is stored as eight bytes and the cursor advanced by its length. So every event needs
//! [`MAX_EVENT`] bytes of room although it keeps four to nine.
use crate::record::{
    ADDRESS_ABSOLUTE, AccessMode, MOST_DIMENSIONS, Phase, Space, SystemKind, TensorOwner, extended, frame, kind,
    node_parent, stack_reference,
};

/// Room an event may need: 1 + 8 + 8 + 8 + 5 bytes and the overshoot of the last store.
pub const MAX_EVENT: usize = 40;
/// First bytes, time and length of an extended record, and the overshoot of their stores.
const EXTENDED_OVERHEAD: usize = 20;

/// What the next record is encoded against. A generation begins with `Deltas::at(base_ticks)`.
#[derive(Clone, Copy, Debug)]
pub struct Deltas {
    pub ticks: u64,
    pub address: u64,
    pub device_address: u64,
    pub stack: u32,
    /// The last node, and the module, offset and code of the last frames.
    pub node: u32,
    pub module: u32,
    pub offset: u64,
    pub code: u32,
}

impl Deltas {
    pub const fn at(base_ticks: u64) -> Deltas {
        Deltas { ticks: base_ticks, address: 0, device_address: 0, stack: 0, node: 0, module: 0, offset: 0, code: 0 }
    }
}

impl Deltas {
    /// The module or code object that a frame of this kind is expected in.
    pub(crate) fn container(&self, frame_kind: u8) -> u32 {
        if frame_kind == frame::PYTHON { self.code } else { self.module }
    }

    pub(crate) fn note_node(&mut self, id: u32, frame_kind: u8, first: u32, second: u64) {
        self.node = id;
        match frame_kind {
            frame::C => (self.module, self.offset) = (first, second),
            frame::PYTHON => self.code = first,
            _ => {}
        }
    }
}

/// An allocation of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_alloc(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, size: u64, stack: u32) -> *mut u8 {
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
    let stack_field = stack_field(last, stack);
    // SAFETY: eight bytes of the word, at most five of the varint.
    unsafe {
        out.cast::<u64>().write_unaligned(word.to_le());
        varint(out.add(5 + wide as usize), stack_field)
    }
}

/// A free of host memory.
///
/// # Safety
/// `out` must be valid for writes of [`MAX_EVENT`] bytes.
#[inline(always)]
pub unsafe fn host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, stack: u32) -> *mut u8 {
    let time = ticks.wrapping_sub(last.ticks);
    let zigzag = zigzag(last.address, address);
    if time > 0xff || stack != 0 || !is_near(zigzag, address) {
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
unsafe fn any_host_alloc(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, size: u64, stack: u32) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let size_code = log_code(size);
    // SAFETY: 1 + 8 + 8 + 8 + 5 bytes at most, and a store reaches at most 7 further.
    unsafe {
        out.write(kind::HOST_ALLOC | time_code << 2 | address_code << 4 | size_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        at = store(at, size, 1 << size_code);
        varint(at, stack_field(last, stack))
    }
}

/// Every free, whatever its fields need.
///
/// # Safety
/// As for [`host_free`].
#[inline(never)]
unsafe fn any_host_free(out: *mut u8, last: &mut Deltas, ticks: u64, address: u64, stack: u32) -> *mut u8 {
    let time = advance(last, ticks);
    let time_code = log_code(time);
    let (address_code, address_field) = address_field(last, address);
    let stack_field = stack_field(last, stack);
    let stack_code = stack_field.min(stack_reference::EXPLICIT) as u8;
    // SAFETY: as in `any_host_alloc`.
    unsafe {
        out.write(kind::HOST_FREE | time_code << 2 | address_code << 4 | stack_code << 6);
        let mut at = store(out.add(1), time, 1 << time_code);
        at = store(at, address_field, address_length(address_code));
        if stack_field >= stack_reference::EXPLICIT { varint(at, stack_field) } else { at }
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
    /// The frame's two numbers are, by kind: module and offset; 0 and address; code and instruction; 0 and node.
    Node {
        id: u32,
        parent: u32,
        frame_kind: u8,
        first: u32,
        second: u64,
    },
    HostMap {
        address: u64,
        size: u64,
        stack: u32,
    },
    HostUnmap {
        address: u64,
        size: u64,
        stack: u32,
    },
    /// A mapping was moved or resized; whether it was one of anonymous memory, only its history tells.
    HostRemap {
        old: u64,
        old_size: u64,
        new: u64,
        new_size: u64,
        stack: u32,
    },
    /// `attributes`: for driver memory the low 8 bits are the module, the next 2 the page type (normal, huge, giant).
    DeviceAlloc {
        space: Space,
        device: u32,
        address: u64,
        size: u64,
        attributes: u32,
        stack: u32,
    },
    DeviceFree {
        space: Space,
        address: u64,
        stack: u32,
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
        stack: u32,
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
    /// `launch` is the process's own count.
    AtbOperatorStart {
        launch: u64,
        device: u32,
        workspace: u64,
        workspace_size: u64,
        stack: u32,
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
            Extended::Node { .. } => 0,
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
            // A kind of its own, not an extended record.
            Extended::Node { .. } => {}
            Extended::HostMap { address, size, stack } | Extended::HostUnmap { address, size, stack } => {
                out.word(address);
                out.varint(size);
                out.varint(u64::from(stack));
            }
            Extended::HostRemap { old, old_size, new, new_size, stack } => {
                out.word(old);
                out.varint(old_size);
                out.word(new);
                out.varint(new_size);
                out.varint(u64::from(stack));
            }
            Extended::DeviceAlloc { space, device, address, size, attributes, stack } => {
                out.byte(space as u8);
                out.varint(u64::from(device));
                out.device_address(last, address);
                out.varint(size);
                out.varint(u64::from(attributes));
                out.varint(u64::from(stack_field(last, stack)));
            }
            Extended::DeviceFree { space, address, stack } => {
                out.byte(space as u8);
                out.device_address(last, address);
                out.varint(u64::from(stack_field(last, stack)));
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
                out.varint(u64::from(stack_field(last, stack)));
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
            Extended::AtbOperatorStart { launch, device, workspace, workspace_size, stack, path, name } => {
                out.varint(launch);
                out.varint(u64::from(device));
                out.device_address(last, workspace);
                out.varint(workspace_size);
                out.varint(u64::from(stack_field(last, stack)));
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
    if let Extended::Node { id, parent, frame_kind, first, second } = *record {
        // SAFETY: a node needs less than the room of an extended record.
        return unsafe { node(out, last, id, parent, frame_kind, first, second) };
    }
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
/// number, hang below the one before, and lie in the same module.
///
/// ```text
/// | number:1 same:1 below:2 frame:2 3:2 | number? | number - parent? | module or code? | offset |
/// ```
///
/// # Safety
/// `out` must be valid for writes of [`MAX_NODE`] bytes.
unsafe fn node(
    out: *mut u8,
    last: &mut Deltas,
    id: u32,
    parent: u32,
    frame_kind: u8,
    first: u32,
    second: u64,
) -> *mut u8 {
    let follows = id == last.node.wrapping_add(1);
    let below = match parent {
        0 => node_parent::NONE,
        parent if parent == id.wrapping_sub(1) => node_parent::PREVIOUS,
        _ => node_parent::EARLIER,
    };
    let has_container = matches!(frame_kind, frame::C | frame::PYTHON);
    let known = has_container && last.container(frame_kind) == first;
    let mut payload = Output(out);
    payload.byte(kind::NODE | frame_kind << 2 | below << 4 | u8::from(known) << 6 | u8::from(!follows) << 7);
    if !follows {
        payload.varint(u64::from(id));
    }
    if below == node_parent::EARLIER {
        payload.varint(u64::from(id.wrapping_sub(parent)));
    }
    if has_container && !known {
        payload.varint(u64::from(first));
    }
    match frame_kind {
        frame::C => payload.varint(to_zigzag(second.wrapping_sub(last.offset))),
        frame::PAIR => payload.varint(u64::from(id.wrapping_sub(second as u32))),
        _ => payload.varint(second),
    }
    last.note_node(id, frame_kind, first, second);
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

#[inline(always)]
fn stack_field(last: &mut Deltas, stack: u32) -> u32 {
    if stack == 0 {
        stack_reference::NONE
    } else if stack == last.stack {
        stack_reference::SAME_AS_LAST
    } else {
        last.stack = stack;
        stack + 1
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
unsafe fn varint(mut out: *mut u8, mut value: u32) -> *mut u8 {
    // SAFETY: a 32-bit value takes at most five bytes of seven bits.
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
