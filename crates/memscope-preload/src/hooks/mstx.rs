//! mstx, the marking interface: marks and ranges of programs, and the memory pools of frameworks, which report through
//! domains of agreed names.
//!
//! The mstx library finds `InitInjectionMstx` in the global scope and lets it fill its function tables. Frameworks leave
//! the members they do not use uninitialised: only those named below may be read, and nothing may be written but the
//! handles of the one pool that asks for them.
use crate::recording::{recording, ticks_now};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use memscope_hook::{Callback, Entry, MSTX_PROBE};
use memscope_recorder::device::{self, DevAddr, DeviceBlock, Space, SpaceAddr, SpaceDevice};
use memscope_recorder::{Extended, control, event};

pub(super) type GetTable = unsafe extern "C" fn(c_int, *mut *mut *mut Callback, *mut c_uint) -> c_int;

const CORE: c_int = 1;
const DOMAIN: c_int = 2;
const MEMORY: c_int = 3;

memscope_hook::callbacks! {
    /// Module number and index in its table, our function. Slots we leave out stay empty, and calls of them do nothing.
    static INJECTED: [(c_int, usize)];

    (CORE, 1) => mark(message: *const c_char, stream: *mut c_void) => on_mark;
    (CORE, 2) => range_start(message: *const c_char, stream: *mut c_void) -> u64 => on_range_start;
    (CORE, 3) => range_end(id: u64) => on_range_end;
    (DOMAIN, 1) => domain_create(name: *const c_char) -> *mut c_void => on_domain_create;
    (DOMAIN, 2) => domain_destroy(domain: *mut c_void) => on_domain_destroy;
    (DOMAIN, 3) => domain_mark(domain: *mut c_void, message: *const c_char, stream: *mut c_void) => on_domain_mark;
    (DOMAIN, 4) => domain_range_start(domain: *mut c_void, message: *const c_char, stream: *mut c_void) -> u64
        => on_domain_range_start;
    (DOMAIN, 5) => domain_range_end(domain: *mut c_void, id: u64) => on_domain_range_end;
    (MEMORY, 1) => heap_register(domain: *mut c_void, heap: *const HeapDescription) -> *const c_void => on_heap_register;
    (MEMORY, 2) => heap_unregister(domain: *mut c_void, heap: *const c_void) => on_heap_unregister;
    (MEMORY, 3) => regions_register(domain: *mut c_void, regions: *const Regions) => on_regions_register;
    (MEMORY, 4) => regions_unregister(domain: *mut c_void, batch: *const References) => on_regions_unregister;
}

/// `InitInjectionMstx`, called by each copy of the mstx library in the process, once. 0 is success.
pub(super) unsafe extern "C" fn initialise(get_table: Option<GetTable>) -> c_int {
    const FAILED: c_int = 1;
    let Some(get_table) = get_table else { return FAILED };
    for &((module, index), function) in INJECTED {
        let mut table: *mut *mut Callback = core::ptr::null_mut();
        let mut size: c_uint = 0;
        // SAFETY: the library's own function, asked for one of its tables; it gives an array of `size` pointers to slots
        // (or fails, for a module of a later version).
        unsafe {
            if get_table(module, &raw mut table, &raw mut size) == FAILED || table.is_null() || index >= size as usize {
                continue;
            }
            let slot = *table.add(index);
            if !slot.is_null() {
                *slot = function;
            }
        }
    }
    0
}

/// Texts longer than this are cut.
const LONGEST_TEXT: usize = 4096;

/// # Safety
/// `text` is null or a C string.
unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: passed on.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    bytes.get(..LONGEST_TEXT).unwrap_or(bytes)
}

unsafe extern "C" fn on_mark(message: *const c_char, _stream: *mut c_void, entry: Entry) {
    // SAFETY: the interface wants a C string.
    recording(entry, |guard| event(guard, &Extended::Mark { text: unsafe { text(message) } }));
}

unsafe extern "C" fn on_range_start(message: *const c_char, _stream: *mut c_void, entry: Entry) -> u64 {
    let id = control::new_range();
    // SAFETY: the interface wants a C string.
    let text = unsafe { text(message) };
    if text != MSTX_PROBE.as_bytes() {
        recording(entry, |guard| event(guard, &Extended::RangeStart { id, text }));
    }
    id
}

unsafe extern "C" fn on_range_end(id: u64, entry: Entry) {
    recording(entry, |guard| event(guard, &Extended::RangeEnd { id }));
}

unsafe extern "C" fn on_domain_mark(_domain: *mut c_void, message: *const c_char, stream: *mut c_void, entry: Entry) {
    // SAFETY: passed on.
    unsafe { on_mark(message, stream, entry) }
}

unsafe extern "C" fn on_domain_range_start(
    _domain: *mut c_void,
    message: *const c_char,
    stream: *mut c_void,
    entry: Entry,
) -> u64 {
    // SAFETY: passed on.
    unsafe { on_range_start(message, stream, entry) }
}

unsafe extern "C" fn on_domain_range_end(_domain: *mut c_void, id: u64, entry: Entry) {
    // SAFETY: passed on.
    unsafe { on_range_end(id, entry) }
}

/// The domains of memory pools.
const POOLS: [(&[u8], Space); 5] = [
    (b"ptaCaching", Space::PtaCaching),
    // torch_npu before 7.2 reports both of its pools here.
    (b"msleaks", Space::PtaCaching),
    (b"ptaWorkspace", Space::PtaWorkspace),
    (b"atb", Space::Atb),
    (b"mindsporeMemPool", Space::MindSpore),
];

/// A domain's handle is the address of its place here: the same for every call, which torch_npu makes at each event. The
/// last place is for domains that are no pool.
static DOMAINS: [u8; POOLS.len() + 1] = [0; POOLS.len() + 1];

unsafe extern "C" fn on_domain_create(name: *const c_char, _entry: Entry) -> *mut c_void {
    // SAFETY: the interface wants a C string.
    let name = unsafe { text(name) };
    let place = POOLS.iter().position(|(pool, _)| *pool == name).unwrap_or(POOLS.len());
    DOMAINS.as_ptr().wrapping_add(place).cast_mut().cast()
}

/// A domain's handle stays valid: other libraries may hold it.
unsafe extern "C" fn on_domain_destroy(_domain: *mut c_void, _entry: Entry) {}

fn pool(domain: *mut c_void) -> Option<Space> {
    let place = (domain as usize).wrapping_sub(DOMAINS.as_ptr() as usize);
    POOLS.get(place).map(|(_, space)| *space)
}

/// `mstxMemVirtualRangeDesc_t`.
#[repr(C)]
struct Range {
    device: SpaceDevice,
    address: *const c_void,
    size: u64,
}

/// `mstxMemHeapDesc_t`; usage and type are never set.
#[repr(C)]
struct HeapDescription {
    unset: [u32; 2],
    range: *const Range,
}

/// `mstxMemRegionsRegisterBatch_t`; heap and type are never set, and the handles only by ATB.
#[repr(C)]
struct Regions {
    unset: [u64; 2],
    count: usize,
    ranges: *const Range,
    handles: *mut *const c_void,
}

/// `mstxMemRegionRef_t`: a pointer, or the handle ATB was given, which is the pointer.
#[repr(C)]
struct Reference {
    kind: u32,
    address: *const c_void,
}

/// `mstxMemRegionsUnregisterBatch_t`.
#[repr(C)]
struct References {
    count: usize,
    references: *const Reference,
}

const _: () = assert!(size_of::<Range>() == 24 && size_of::<HeapDescription>() == 16 && size_of::<Regions>() == 40);
const _: () = assert!(size_of::<Reference>() == 16 && size_of::<References>() == 16);

/// Not a heap: the pool's reserved bytes, with some block's address. ATB wants a handle back or stops reporting.
unsafe extern "C" fn on_heap_register(
    domain: *mut c_void,
    heap: *const HeapDescription,
    entry: Entry,
) -> *const c_void {
    // SAFETY: the interface wants a description with a range.
    let range = unsafe { heap.as_ref().and_then(|heap| heap.range.as_ref()) };
    let (Some(space), Some(range)) = (pool(domain), range) else { return core::ptr::null() };
    recording(entry, |guard| match space {
        // ATB registers each heap by its own size.
        Space::Atb => device::heap(guard, space, range.device, DevAddr(range.address as u64), range.size),
        _ => device::pool_total(guard, space, range.device, range.size),
    });
    range.address
}

/// The handle is the heap's address. The others never had a heap, and say what they hold with every block.
unsafe extern "C" fn on_heap_unregister(domain: *mut c_void, heap: *const c_void, entry: Entry) {
    if pool(domain) == Some(Space::Atb) && !heap.is_null() {
        let ended = Extended::HeapEnd { space: Space::Atb, address: DevAddr(heap as u64) };
        recording(entry, |guard| event(guard, &ended));
    }
}

unsafe extern "C" fn on_regions_register(domain: *mut c_void, regions: *const Regions, entry: Entry) {
    // SAFETY: the interface wants a batch.
    let (Some(space), Some(regions)) = (pool(domain), (unsafe { regions.as_ref() })) else { return };
    recording(entry, |guard| {
        for index in 0..regions.count {
            // SAFETY: the batch has `count` ranges and, from ATB alone, as many places for handles.
            unsafe {
                let range = &*regions.ranges.add(index);
                let address = SpaceAddr(range.address as u64);
                let block = DeviceBlock { space, device: range.device, address, size: range.size, attributes: 0 };
                device::device_alloc(guard, block);
                if space == Space::Atb && !regions.handles.is_null() {
                    *regions.handles.add(index) = range.address;
                }
            }
        }
    });
}

unsafe extern "C" fn on_regions_unregister(domain: *mut c_void, batch: *const References, entry: Entry) {
    // SAFETY: the interface wants a batch.
    let (Some(space), Some(batch)) = (pool(domain), (unsafe { batch.as_ref() })) else { return };
    let now = ticks_now();
    recording(entry, |guard| {
        for index in 0..batch.count {
            // SAFETY: the batch has `count` references.
            let reference = unsafe { &*batch.references.add(index) };
            device::device_free(guard, space, SpaceAddr(reference.address as u64), now);
        }
    });
}
