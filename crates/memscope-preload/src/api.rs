//! The C table, filled.
use crate::deliberate_lock;
use crate::hooks::atb::KeptErrno;
use crate::recording::hidden;
use crate::torch;
use crate::watched_memory::Runtime;
use core::ffi::{CStr, c_char};
use memscope_hook::{API_VERSION, Api, ToldMemory, WatchedBlock, host_call, label_level};
use memscope_recorder::device::{DevAddr, LogicalDevice};
use memscope_recorder::labels::{self, LabelLevel};
use memscope_recorder::slot::{self, Guard};
use memscope_recorder::watch::{Refused, Wish};
use memscope_recorder::{Beginning, Extended, HostCall, Protection, control, watch as watching};

static API: ApiCell = ApiCell(core::cell::UnsafeCell::new(Api {
    size: size_of::<Api>() as u32,
    version: API_VERSION,
    guard_offset: 0,
    second_guard: slot::SECOND_GUARD,
    nested,
    now,
    host_alloc,
    host_free,
    host_moved,
    host_map,
    host_unmap,
    host_remapped,
    start,
    stop,
    step,
    snapshot,
    host_protect,
    host_refused,
    begin,
    end: crate::lifecycle::end,
    mark,
    range_start,
    range_end,
    label_start,
    label_end,
    label_block,
    function_start,
    function_end,
    told_snapshot,
    calls_begin: crate::python_calls::begin,
    calls_end: crate::python_calls::end,
    watch,
    unwatch,
}));

struct ApiCell(core::cell::UnsafeCell<Api>);

// SAFETY: the only change is the same word stored again by each call of [`table`].
unsafe impl Sync for ApiCell {}

/// `msmemscope_api()`, found by `dlsym` or a weak reference; never null.
pub(crate) extern "C" fn table() -> *const Api {
    let api = API.0.get();
    // SAFETY: the offset is the same for every thread and call; see `ApiCell`.
    unsafe { (*api).guard_offset = slot::offset() };
    api
}

unsafe extern "C" fn nested(stack: usize, frame: usize) -> u32 {
    // SAFETY: the caller is a hook on its entry.
    unsafe { slot::nested(stack, frame) as u32 }
}

unsafe extern "C" fn now() -> u64 {
    // SAFETY: the caller holds the guard.
    let guard = unsafe { Guard::lent(0, 0) };
    memscope_recorder::ticks_now(&guard)
}

unsafe extern "C" fn host_alloc(address: usize, size: usize, stack: usize, frame: usize) {
    let _held = deliberate_lock::hold();
    // SAFETY: the caller holds the guard and passes its own entry, here and below.
    let guard = unsafe { Guard::lent(stack, frame) };
    memscope_recorder::host_alloc(&guard, address, size);
}

unsafe extern "C" fn host_free(address: usize) {
    let _held = deliberate_lock::hold();
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(0, 0) };
    watching::freed(&guard, address as u64);
    memscope_recorder::host_free(&guard, address);
}

unsafe extern "C" fn host_moved(old: usize, new: usize, size: usize, began: u64, stack: usize, frame: usize) {
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(stack, frame) };
    watching::moved(&guard, old as u64);
    memscope_recorder::host_moved(&guard, old, new, size, began);
}

unsafe extern "C" fn host_map(address: usize, size: usize, protection: u8, stack: usize, frame: usize) {
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(stack, frame) };
    memscope_recorder::host_map(&guard, address, size, Protection(protection));
}

unsafe extern "C" fn host_protect(address: usize, size: usize, protection: u8, stack: usize, frame: usize) {
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(stack, frame) };
    memscope_recorder::host_protect(&guard, address, size, Protection(protection));
}

unsafe extern "C" fn host_refused(call: u8, size: usize, flag: u8, stack: usize, frame: usize) {
    let Some(call) = HostCall::from_code(call) else { return };
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(stack, frame) };
    memscope_recorder::host_refused(&guard, call, size, u64::from(flag));
}

/// The table's numbers are the recording's.
const _: () = {
    assert!(host_call::MALLOC == HostCall::Malloc as u8 && host_call::CALLOC == HostCall::Calloc as u8);
    assert!(host_call::REALLOC == HostCall::Realloc as u8 && host_call::REALLOCARRAY == HostCall::Reallocarray as u8);
    assert!(host_call::POSIX_MEMALIGN == HostCall::PosixMemalign as u8);
    assert!(
        host_call::ALIGNED_ALLOC == HostCall::AlignedAlloc as u8 && host_call::MEMALIGN == HostCall::Memalign as u8
    );
    assert!(host_call::VALLOC == HostCall::Valloc as u8 && host_call::PVALLOC == HostCall::Pvalloc as u8);
    assert!(
        label_level::FRAMEWORK == LabelLevel::Framework as u8 && label_level::COMPONENT == LabelLevel::Component as u8
    );
    assert!(label_level::PROCESS == LabelLevel::Process as u8 && label_level::DETAIL_1 == LabelLevel::Detail1 as u8);
    assert!(label_level::DETAIL_2 == LabelLevel::Detail2 as u8 && label_level::USER == LabelLevel::User as u8);
    assert!(host_call::MMAP == HostCall::Mmap as u8 && host_call::MREMAP == HostCall::Mremap as u8);
};

unsafe extern "C" fn host_unmap(address: usize, size: usize, began: u64) {
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(0, 0) };
    watching::unmapped(&guard, address as u64, size as u64);
    memscope_recorder::host_unmap(&guard, address, size, began);
}

unsafe extern "C" fn host_remapped(
    old: usize,
    old_size: usize,
    new: usize,
    new_size: usize,
    began: u64,
    stack: usize,
    frame: usize,
) {
    // SAFETY: as above.
    let guard = unsafe { Guard::lent(stack, frame) };
    watching::unmapped(&guard, old as u64, old_size as u64);
    memscope_recorder::host_remapped(&guard, (old, old_size), (new, new_size), began);
}

extern "C" fn start() {
    control::start();
    torch::tracing_changed();
}

extern "C" fn stop() {
    control::stop();
    torch::tracing_changed();
}

extern "C" fn step() {
    control::step();
}

/// Texts longer than this are cut.
const LONGEST_TEXT: usize = 4096;

/// # Safety
/// `text` has `length` bytes.
unsafe fn cut<'a>(text: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { core::slice::from_raw_parts(text, length.min(LONGEST_TEXT)) }
}

unsafe extern "C" fn begin(settings: *const u8, length: usize) -> u32 {
    // SAFETY: the interface wants so many bytes.
    match memscope_recorder::begin(unsafe { core::slice::from_raw_parts(settings, length) }) {
        Beginning::Begun => {
            torch::look();
            memscope_hook::BEGUN
        }
        Beginning::AlreadyBegun => memscope_hook::ALREADY_BEGUN,
        Beginning::Refused => memscope_hook::REFUSED,
    }
}

unsafe extern "C" fn mark(text: *const u8, length: usize) {
    // SAFETY: the interface wants so many bytes, here and below.
    control::mark(unsafe { cut(text, length) });
}

unsafe extern "C" fn range_start(text: *const u8, length: usize) -> u64 {
    let id = control::new_range();
    // SAFETY: as above.
    control::range_start(id, unsafe { cut(text, length) });
    id
}

extern "C" fn range_end(id: u64) {
    control::range_end(id);
}

unsafe extern "C" fn label_start(level: u8, text: *const u8, length: usize) {
    if let Some(level) = LabelLevel::from_code(level) {
        // SAFETY: as above, here and below.
        labels::start(level, unsafe { cut(text, length) });
    }
}

unsafe extern "C" fn label_end(level: u8, text: *const u8, length: usize) {
    if let Some(level) = LabelLevel::from_code(level) {
        // SAFETY: as above.
        labels::end(level, unsafe { cut(text, length) });
    }
}

unsafe extern "C" fn label_block(address: usize, level: u8, text: *const u8, length: usize) {
    if let Some(level) = LabelLevel::from_code(level) {
        // SAFETY: as above.
        labels::block(address, level, unsafe { cut(text, length) });
    }
}

unsafe extern "C" fn function_start(text: *const u8, length: usize) {
    // SAFETY: as above.
    labels::function_start(unsafe { cut(text, length) });
}

unsafe extern "C" fn function_end(text: *const u8, length: usize) {
    // SAFETY: as above.
    labels::function_end(unsafe { cut(text, length) });
}

unsafe extern "C" fn told_snapshot(name: *const u8, length: usize, device: i32, memory: *const ToldMemory) {
    // SAFETY: as above, and a table of numbers.
    let (name, Some(memory)) = (unsafe { cut(name, length) }, unsafe { memory.as_ref() }) else { return };
    let ToldMemory { reserved, max_reserved, allocated, max_allocated, free, total } = *memory;
    let device = u32::try_from(device).map_or(LogicalDevice::UNKNOWN, LogicalDevice);
    control::told_snapshot(&Extended::ToldSnapshot {
        device,
        reserved,
        max_reserved,
        allocated,
        max_allocated,
        free,
        total,
        name,
    });
}

unsafe extern "C" fn watch(block: *const WatchedBlock, name: *const u8, length: usize) -> i64 {
    // SAFETY: the interface wants a block, and a name of so many bytes.
    let (WatchedBlock { device, address, size, storage, looks }, name) = unsafe { (*block, cut(name, length)) };
    let device = match device {
        memscope_hook::WATCHED_HOST => LogicalDevice::HOST,
        device => u32::try_from(device).map_or(LogicalDevice::UNKNOWN, LogicalDevice),
    };
    let wish = Wish { device, address: DevAddr(address), size, storage: DevAddr(storage), looks, name };
    let answer = hidden(|guard| {
        let _errno = KeptErrno::keep();
        watching::watch(guard, &wish, &Runtime::of_device())
    });
    if matches!(answer, Some(Ok(_))) {
        torch::look();
    }
    match answer {
        Some(Ok(watch)) => i64::from(watch),
        Some(Err(Refused::NoMemory)) => memscope_hook::WATCH_NO_MEMORY,
        Some(Err(Refused::TooMany)) => memscope_hook::WATCH_TOO_MANY,
        Some(Err(Refused::Captured)) => memscope_hook::WATCH_CAPTURED,
        Some(Err(Refused::NotRecording)) | None => memscope_hook::WATCH_NOT_RECORDING,
    }
}

extern "C" fn unwatch(address: u64, size: u64) -> u32 {
    hidden(|guard| watching::remove(guard, DevAddr(address), size)).unwrap_or(0)
}

unsafe extern "C" fn snapshot(name: *const c_char, device: i32) {
    const DEFAULT_NAME: &[u8] = b"Memory Snapshot";
    let name = match name.is_null() {
        true => DEFAULT_NAME,
        // SAFETY: the interface wants a C string.
        false => unsafe { CStr::from_ptr(name) }.to_bytes(),
    };
    control::snapshot(u32::try_from(device).ok().map(LogicalDevice), name);
}
