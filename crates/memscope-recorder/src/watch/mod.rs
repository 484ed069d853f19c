//! Watched blocks: what they hold before and after each operator.
//!
//! A block is watched because the start operator put it out, or because the program asked. At both ends of every operator, while something is
//! watched, its hook calls [`begins`] or [`ends`]: each block is read, and its checksum, or its bytes, are written down. Who changed
//! it, and whether that was right, is found out offline.
//!
//! What it costs when nothing is watched: one load of [`is_on`]. While something is, this module is outside the law of the hot path: it
//! reads memory by system calls and, through [`Memory`], lets the runtime wait for the device. It still allocates nothing, takes no
//! lock and never faults: the table of blocks has a fixed size and consists of atomic words.
mod bytes;
mod contents;
mod spec;
mod table;

use crate::control;
use crate::lane::{event, event_with_stack, record};
use crate::process::{self, Process};
use crate::slot::{self, Guard};
use bytes::{Buffer, Read};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
pub use memscope_format::record::{DevAddr, LogicalDevice, Phase};
pub use memscope_format::watch::{GivenFor, WatchSource};
use memscope_format::watch::{WatchEnding, WatchOrigin, WatchTrouble, watch_flags};
use memscope_sys as sys;
pub(crate) use spec::Spec;
pub(crate) use table::Table;
use table::{Armed, Chosen, Place};

use memscope_format::encode::Extended;

/// Why hooks have to call: bits of [`WHY`].
const COMMAND: u32 = 1;
const BLOCKS: u32 = 2;
/// A forked child inherits it and finds an empty table.
static WHY: AtomicU32 = AtomicU32::new(0);

/// Whether operators concern us at all.
#[inline(always)]
pub fn is_on() -> bool {
    WHY.load(Relaxed) != 0
}

/// Whether operators, and kernels, are looked at.
pub fn at_operators() -> bool {
    is_on() && process::watch_spec().is_some_and(|spec| spec.operators)
}

/// Operators of torch tell whose a block is, also where only kernels are looked at, which do not say it.
pub fn at_operators_of_torch() -> bool {
    is_on() && process::watch_spec().is_some_and(|spec| spec.operators || spec.kernels)
}

pub fn at_kernels() -> bool {
    is_on() && process::watch_spec().is_some_and(|spec| spec.kernels)
}

/// The settings name a start operator.
pub(crate) fn expect_start() {
    WHY.fetch_or(COMMAND, Relaxed);
}

/// Why memory cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// Not from this thread: it uses another device, or none.
    NotFromHere,
    /// There is none.
    NoMemory,
}

/// How memory of devices is reached; that of the host is read here.
pub trait Memory {
    /// Waits for what was launched before.
    fn settle(&self);

    /// A graph is being captured: until that ends nobody may wait for the device or copy from it.
    fn is_captured(&self) -> bool;

    fn read(&self, device: LogicalDevice, address: DevAddr, into: &mut [u8]) -> Result<(), Unread>;

    /// The device of the calling thread.
    fn device(&self) -> Option<LogicalDevice>;
}

/// An operator or kernel at one of its ends.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    pub source: WatchSource,
    /// The same at both ends, and of no other of its source.
    pub number: u64,
    /// The hash of a kernel's name where the name itself is not known.
    pub kernel: u64,
    /// Empty where it is not known, or was told at the beginning.
    pub name: &'a [u8],
    /// Another name the user may mean it by.
    pub short_name: &'a [u8],
}

impl Operator<'_> {
    /// A number that operators of no other source have.
    fn key(&self) -> u64 {
        self.number << 2 | self.source as u64
    }
}

/// A tensor of an operator.
#[derive(Clone, Copy)]
pub struct Tensor {
    pub given: GivenFor,
    /// `UNKNOWN`: that of the calling thread.
    pub device: LogicalDevice,
    pub address: DevAddr,
    pub size: u64,
}

/// Calls back with each tensor of an operator, in order.
pub type EachTensor<'a> = &'a dyn Fn(&mut dyn FnMut(Tensor));

/// An operator is about to begin. `tensors` are those it is given, its outputs among them if they are there already.
pub fn begins(guard: &Guard<'_>, operator: &Operator<'_>, tensors: EachTensor<'_>, memory: &impl Memory) {
    let (Some(process), Some(spec)) = (process::ensure(), process::watch_spec()) else { return };
    if !control::is_tracing() {
        return;
    }
    let table = &process.watches;
    let opens = spec.start_is(operator) && !table.has_command_blocks();
    if (opens || table.is_in_use()) && memory.is_captured() {
        return not_looked(guard, table);
    }
    if opens || table.is_in_use() {
        note_moment(guard, operator, Phase::Start);
    }
    if table.is_in_use() {
        memory.settle();
        let thread = sys::gettid();
        table.each_active(|place| {
            let given = given(place, tensors);
            look(guard, process, place, given, memory);
            if given >= GivenFor::Unknown {
                place.own(thread, operator.key());
            }
        });
    }
    if opens {
        // Operators of torch say what they put out when they have ended.
        if operator.source != WatchSource::Aten {
            arm(guard, process, spec, operator.key(), tensors);
        }
    } else if spec.end_is(operator) {
        table.closing.store(operator.key(), Relaxed);
    }
}

/// It has ended, or will not go on. `tensors` are those that it put out, where its beginning did not know them.
pub fn ends(guard: &Guard<'_>, operator: &Operator<'_>, tensors: EachTensor<'_>, memory: &impl Memory) {
    let (Some(process), Some(spec)) = (process::ensure(), process::watch_spec()) else { return };
    let table = &process.watches;
    let key = operator.key();
    let is_armed = table.is_armed_by(key);
    let opens = !is_armed && control::is_tracing() && spec.start_is(operator) && !table.has_command_blocks();
    if !(table.is_in_use() || is_armed || opens) {
        return;
    }
    let thread = sys::gettid();
    if memory.is_captured() {
        not_looked(guard, table);
        table.each_active(|place| place.disown(thread, key));
    } else {
        memory.settle();
        if opens {
            arm(guard, process, spec, key, tensors);
        }
        if is_armed || opens {
            table.each_armed_by(key, |place| begin_watch(guard, process, place, spec.start(), memory));
        }
        if table.is_in_use() && control::is_tracing() {
            note_moment(guard, operator, Phase::End);
            table.each_active(|place| {
                look(guard, process, place, given(place, tensors), memory);
                place.disown(thread, key);
            });
        }
    }
    // An operator that is both start and end ends with its next call.
    let closes = table.closing.load(Relaxed) == key || spec.end_is(operator);
    if closes && !(is_armed || opens) {
        table.closing.store(0, Relaxed);
        table.each_active(|place| {
            if place.is_of_command() {
                end_watch(guard, table, place, WatchEnding::EndOperator);
            }
        });
    }
}

/// What a captured operator launches runs when the graph is replayed: it is not even a suspect now.
fn not_looked(guard: &Guard<'_>, table: &Table) {
    trouble(guard, WatchTrouble::Captured, u64::from(table.count()));
}

/// A block the program wants watched.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    /// `UNKNOWN`: of the thread's device, or else of the host.
    pub device: LogicalDevice,
    pub address: DevAddr,
    pub size: u64,
    /// Where the memory it is a part of begins; 0 if nobody knows.
    pub storage: DevAddr,
    /// How often it is looked at; negative for no limit.
    pub looks: i64,
    pub name: &'a [u8],
}

/// Why a wish is not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Nothing is recorded in this process.
    NotRecording,
    NoMemory,
    TooMany,
    /// A graph is being captured.
    Captured,
}

/// Watches a block from here on.
pub fn watch(guard: &Guard<'_>, wish: &Wish<'_>, memory: &impl Memory) -> Result<u32, Refused> {
    let process = process::ensure().ok_or(Refused::NotRecording)?;
    if !memory.is_captured() {
        memory.settle();
    } else if wish.device != LogicalDevice::HOST {
        return Err(Refused::Captured);
    }
    let chosen = Chosen {
        origin: WatchOrigin::Program,
        device: wish.device,
        address: wish.address,
        size: wish.size,
        storage: wish.storage,
        output: 0,
        looks: wish.looks,
        flags: 0,
    };
    let devices = match wish.device {
        LogicalDevice::UNKNOWN => [memory.device(), Some(LogicalDevice::HOST)],
        device => [Some(device), None],
    };
    for device in devices.into_iter().flatten() {
        let place = process.watches.take(&Chosen { device, ..chosen }, 0).ok_or(Refused::TooMany)?;
        if begin_watch(guard, process, place, wish.name, memory) {
            return Ok(place.watch());
        }
    }
    Err(Refused::NoMemory)
}

/// The program wants a block watched no more; how many there were of exactly this place.
pub fn remove(guard: &Guard<'_>, address: DevAddr, size: u64) -> u32 {
    let Some(process) = process::current() else { return 0 };
    let mut removed = 0;
    process.watches.each_active(|place| {
        if !place.is_of_command() && (place.address(), place.size()) == (address, size) {
            end_watch(guard, &process.watches, place, WatchEnding::Removed);
            removed += 1;
        }
    });
    removed
}

/// The block that begins there is about to be freed, or is.
#[inline(always)]
pub fn freed(guard: &Guard<'_>, address: u64) {
    if WHY.load(Relaxed) & BLOCKS != 0 {
        end_those(guard, WatchEnding::Freed, |place| place.address().0 == address || place.storage() == address);
    }
}

/// A range of the host's memory goes.
#[inline(always)]
pub fn unmapped(guard: &Guard<'_>, address: u64, size: u64) {
    if WHY.load(Relaxed) & BLOCKS != 0 {
        let end = address.saturating_add(size);
        end_those(guard, WatchEnding::Freed, |place| {
            let start = place.address().0;
            place.device() == LogicalDevice::HOST && start < end && start.saturating_add(place.size()) > address
        });
    }
}

/// `realloc` made it another length, or moved it.
#[inline(always)]
pub fn moved(guard: &Guard<'_>, address: u64) {
    if WHY.load(Relaxed) & BLOCKS != 0 {
        end_those(guard, WatchEnding::Resized, |place| place.address().0 == address || place.storage() == address);
    }
}

#[cold]
fn end_those(guard: &Guard<'_>, reason: WatchEnding, is_one: impl Fn(&Place) -> bool) {
    let Some(process) = process::current() else { return };
    process.watches.each_active(|place| {
        if is_one(place) {
            end_watch(guard, &process.watches, place, reason);
        }
    });
}

/// While the runtime is called on behalf of a watch, what it tells a profiler is still to be recorded.
pub struct Calling(());

impl Calling {
    pub fn begin() -> Calling {
        // SAFETY: the slot is the thread's own.
        unsafe { (*slot::current()).calling_runtime = true };
        Calling(())
    }

    pub fn is_under_way() -> bool {
        // SAFETY: the slot is the thread's own.
        unsafe { (*slot::current()).calling_runtime }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // SAFETY: the slot is the thread's own.
        unsafe { (*slot::current()).calling_runtime = false };
    }
}

/// The hash of the kernel that the runtime reported last on this thread. Taken away with it.
pub fn take_kernel() -> u64 {
    // SAFETY: the slot is the thread's own.
    unsafe { core::mem::take(&mut (*slot::current()).kernel_reported) }
}

pub fn kernel_reported(hash: u64) {
    // SAFETY: the slot is the thread's own.
    unsafe { (*slot::current()).kernel_reported = hash };
}

/// The stream that an operator goes to; for its end, which is not told.
pub fn remember_stream(operator: u64, stream: Option<usize>) {
    // SAFETY: the slot is the thread's own. No stream has this address.
    unsafe {
        (*slot::current()).stream_of = operator;
        (*slot::current()).last_stream = stream.unwrap_or(usize::MAX);
    }
}

/// `None`: it did not say, or has begun others meanwhile.
pub fn stream_of(operator: u64) -> Option<usize> {
    // SAFETY: the slot is the thread's own.
    let (of, stream) = unsafe { ((*slot::current()).stream_of, (*slot::current()).last_stream) };
    (of == operator && stream != usize::MAX).then_some(stream)
}

/// A kernel that was announced with its name is at work on this thread: what the runtime launches now is that one.
pub fn enter_named_kernel() {
    // SAFETY: the slot is the thread's own, here and below.
    unsafe { (*slot::current()).in_named_kernel = true };
}

pub fn leave_named_kernel() {
    // SAFETY: as above.
    unsafe { (*slot::current()).in_named_kernel = false };
}

pub fn is_in_named_kernel() -> bool {
    // SAFETY: as above.
    unsafe { (*slot::current()).in_named_kernel }
}

/// A number for an operator whose hook has none.
pub fn new_number() -> u64 {
    process::ensure().map_or(0, |process| process.watches.new_number())
}

fn note_moment(guard: &Guard<'_>, operator: &Operator<'_>, phase: Phase) {
    let Operator { source, number, kernel, name, .. } = *operator;
    let name = spec::cut(name);
    let entry = match (source, phase) {
        (_, Phase::End) => guard.no_stack(),
        // Their hooks are entered where no C stack can be taken.
        (WatchSource::Aten | WatchSource::Kernel, _) => guard.python_only(),
        _ => guard.entry(),
    };
    record(entry, 1, |lane, ticks, stack| {
        let moment = Extended::WatchMoment { source, phase, operator: number, kernel, stack, name };
        lane.writer.extended_event(ticks, &moment);
    });
}

/// What an operator with these tensors may do with a block.
fn given(place: &Place, tensors: EachTensor<'_>) -> GivenFor {
    let (start, end) = (place.address().0, place.address().0.saturating_add(place.size()));
    let mut most = GivenFor::Nothing;
    tensors(&mut |tensor| {
        if tensor.address.0 < end && tensor.address.0.saturating_add(tensor.size) > start {
            most = most.max(tensor.given);
        }
    });
    most
}

/// Chooses the outputs that are to be watched once the operator has ended.
fn arm(guard: &Guard<'_>, process: &Process, spec: &Spec, operator: u64, tensors: EachTensor<'_>) {
    let table = &process.watches;
    table.forget_armed();
    let outputs = |visit: &mut dyn FnMut(u32, Tensor)| {
        let mut number = 0;
        tensors(&mut |tensor| {
            if tensor.given == GivenFor::Writing {
                visit(number, tensor);
                number += 1;
            }
        });
    };
    let mut has_chosen = spec.output.is_none();
    outputs(&mut |number, _| has_chosen |= spec.output == Some(number));
    let flags = if has_chosen { 0 } else { watch_flags::NO_SUCH_OUTPUT };
    let (mut armed, mut refused) = (0, false);
    outputs(&mut |number, Tensor { device, address, size, .. }| {
        let is_chosen = !has_chosen || spec.output.is_none_or(|chosen| chosen == number);
        if is_chosen && address.0 != 0 && size != 0 {
            let chosen = Chosen {
                origin: WatchOrigin::StartOperator,
                device,
                address,
                size,
                storage: DevAddr(0),
                output: number,
                looks: -1,
                flags,
            };
            match table.take(&chosen, operator) {
                Some(_) => armed += 1,
                None => refused = true,
            }
        }
    });
    if refused {
        trouble(guard, WatchTrouble::TooManyBlocks, Table::CAPACITY as u64);
    } else if armed == 0 {
        without_outputs(guard, table);
    }
}

/// Said once: the next call of the operator will be no better.
fn without_outputs(guard: &Guard<'_>, table: &Table) {
    if !table.has_told_no_outputs.swap(true, Relaxed) {
        trouble(guard, WatchTrouble::NoOutputs, 0);
    }
}

fn trouble(guard: &Guard<'_>, problem: WatchTrouble, value: u64) {
    event(guard, &Extended::WatchProblem { problem, value });
}

/// Reads an armed block for the first time; `false` if it cannot be, and is not watched.
fn begin_watch(guard: &Guard<'_>, process: &Process, place: &Place, name: &[u8], memory: &impl Memory) -> bool {
    let table = &process.watches;
    let Armed { origin, output, flags } = place.armed();
    if place.device() == LogicalDevice::UNKNOWN {
        place.set_device(memory.device().unwrap_or(LogicalDevice::HOST));
    }
    let Some((checksum, content)) = read(guard, process, place, memory) else {
        if origin == WatchOrigin::StartOperator {
            without_outputs(guard, table);
        }
        table.give_back(place);
        return false;
    };
    let spec = process::watch_spec();
    let mut flags = flags;
    flags |= if spec.is_some_and(|spec| spec.full_content) { watch_flags::FULL_CONTENT } else { 0 };
    flags |= if is_blocking() { watch_flags::BLOCKING } else { 0 };
    let (watch, device, address, size) = (place.watch(), place.device(), place.address(), place.size());
    let name = spec::cut(name);
    event_with_stack(guard, |stack| Extended::WatchBegin {
        watch,
        origin,
        flags,
        device,
        address,
        size,
        output,
        checksum,
        content,
        stack,
        name,
    });
    place.seen(checksum, content);
    table.activate(place);
    WHY.fetch_or(BLOCKS, Relaxed);
    true
}

fn end_watch(guard: &Guard<'_>, table: &Table, place: &Place, reason: WatchEnding) {
    // Of two threads that end it the first does.
    let watch = place.watch();
    if !table.retire(place) {
        return;
    }
    event(guard, &Extended::WatchEnd { watch, reason });
    if !table.is_in_use() {
        WHY.fetch_and(!BLOCKS, Relaxed);
        // One may have begun in between.
        if table.is_in_use() {
            WHY.fetch_or(BLOCKS, Relaxed);
        }
    }
}

/// Looks at a block and writes down what it holds.
fn look(guard: &Guard<'_>, process: &Process, place: &Place, given: GivenFor, memory: &impl Memory) {
    let thread = sys::gettid();
    // An operator of another thread that may write into it is at work: what is read now is neither before nor after it.
    let Some(epoch) = place.quiet_epoch(thread) else { return };
    let watch = place.watch();
    let Some((checksum, content)) = read(guard, process, place, memory) else { return };
    if place.quiet_epoch(thread) != Some(epoch) || place.watch() != watch || !place.is_active() {
        return;
    }
    if !place.count_look() {
        return;
    }
    event(guard, &Extended::WatchLook { watch, given, checksum, content });
    place.seen(checksum, content);
    if place.looks_used_up() {
        end_watch(guard, &process.watches, place, WatchEnding::LooksUsedUp);
    }
}

/// Checksum and content of a block now. `None` if it cannot be read from here; if from nowhere, its watch ends.
fn read(guard: &Guard<'_>, process: &Process, place: &Place, memory: &impl Memory) -> Option<(u64, u64)> {
    let keeps = process::watch_spec().is_some_and(|spec| spec.full_content) && !process.watches.contents.is_closed();
    let mut buffer = Buffer::take(&process.watches.buffers)?;
    match bytes::checksum(place, memory, &mut buffer) {
        Read::Whole(checksum) if !keeps => Some((checksum, 0)),
        Read::Whole(checksum) => Some(keep(guard, process, place, memory, &mut buffer, checksum)),
        Read::Not(Unread::NotFromHere) => None,
        Read::Not(Unread::NoMemory) => {
            if place.is_active() {
                end_watch(guard, &process.watches, place, WatchEnding::Unreadable);
            }
            None
        }
    }
}

/// Keeps the bytes, unless they are what they were; gives the checksum of what was kept.
fn keep(
    guard: &Guard<'_>,
    process: &Process,
    place: &Place,
    memory: &impl Memory,
    buffer: &mut Buffer<'_>,
    checksum: u64,
) -> (u64, u64) {
    let (last, content) = place.last_seen();
    if content != 0 && last == checksum {
        return (checksum, content);
    }
    let contents = &process.watches.contents;
    match contents.append(process, place, memory, buffer, checksum) {
        Ok(kept) => kept,
        Err(trouble_met) => {
            // Checksums go on.
            if contents.close() {
                trouble(guard, trouble_met.0, trouble_met.1);
            }
            (checksum, 0)
        }
    }
}

/// Whether launches wait for their end.
fn is_blocking() -> bool {
    crate::config::variable(b"ASCEND_LAUNCH_BLOCKING=") == Some(b"1")
}

/// Ordering of what hooks on other threads see of a place.
const SEEN: core::sync::atomic::Ordering = Acquire;
const TURNED: core::sync::atomic::Ordering = AcqRel;
