//! Communicators.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use sim_boundary::{Handle, In, Out, Text, TextBuffer, settings};

pub(crate) const OK: i32 = 0;
pub(crate) const INVALID_PARAMETER: i32 = 1;
const OUT_OF_MEMORY: i32 = 3;
/// The module on whose account a communicator's memory goes.
const MODULE_HCCL: u16 = 3;
const NAME_BYTES: usize = 128;

unsafe extern "C" {
    safe fn rtMalloc(address: *mut usize, size: u64, kind: u32, module: u16) -> i32;
    safe fn rtFree(address: usize) -> i32;
}

/// One rank's end of a group.
pub struct Communicator {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    number: u64,
    /// Device memory, if communicators are configured to take some.
    buffer: usize,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

fn create(rank: u32, ranks: u32, communicator: Out<Handle<Communicator>>) -> i32 {
    let mut buffer = 0;
    let bytes = settings::HCCL_BUFFER_BYTES.get();
    if bytes != 0 && rtMalloc(&mut buffer, bytes, 0x400, MODULE_HCCL) != 0 {
        return OUT_OF_MEMORY;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let made = Handle::new(Communicator { rank, ranks, number, buffer });
    if communicator.set(made) { OK } else { INVALID_PARAMETER }
}

/// What ranks exchange to meet; nobody reads it here.
#[unsafe(no_mangle)]
pub extern "C" fn HcclGetRootInfo(root: Out<[u8; 4108]>) -> i32 {
    if root.set([0; 4108]) { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommInitRootInfo(
    ranks: u32,
    _root: *const c_void,
    rank: u32,
    communicator: Out<Handle<Communicator>>,
) -> i32 {
    create(rank, ranks, communicator)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommInitRootInfoConfig(
    ranks: u32,
    _root: *const c_void,
    rank: u32,
    _configuration: *const c_void,
    communicator: Out<Handle<Communicator>>,
) -> i32 {
    create(rank, ranks, communicator)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommInitClusterInfo(_table: Text, rank: u32, communicator: Out<Handle<Communicator>>) -> i32 {
    create(rank, rank + 1, communicator)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommInitClusterInfoConfig(
    _table: Text,
    rank: u32,
    _configuration: *const c_void,
    communicator: Out<Handle<Communicator>>,
) -> i32 {
    create(rank, rank + 1, communicator)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCreateSubCommConfig(
    _parent: In<Handle<Communicator>>,
    ranks: u32,
    _members: In<u32>,
    _identifier: u64,
    rank: u32,
    _configuration: *const c_void,
    communicator: Out<Handle<Communicator>>,
) -> i32 {
    create(rank, ranks, communicator)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommInitAll(count: u32, _devices: In<i32>, communicators: Out<Handle<Communicator>>) -> i32 {
    (0..count)
        .map(|rank| create(rank, count, communicators.element(rank as usize)))
        .find(|&result| result != OK)
        .unwrap_or(OK)
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclCommDestroy(communicator: Handle<Communicator>) -> i32 {
    let Some(communicator) = communicator.destroy() else { return INVALID_PARAMETER };
    if communicator.buffer != 0 {
        rtFree(communicator.buffer);
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetCommName(communicator: Handle<Communicator>, name: TextBuffer) -> i32 {
    let Some(communicator) = communicator.get() else { return INVALID_PARAMETER };
    if name.set(&format!("group_{}", communicator.number), NAME_BYTES) { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetRankId(communicator: Handle<Communicator>, rank: Out<u32>) -> i32 {
    match communicator.get() {
        Some(communicator) if rank.set(communicator.rank) => OK,
        _ => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetRankSize(communicator: Handle<Communicator>, ranks: Out<u32>) -> i32 {
    match communicator.get() {
        Some(communicator) if ranks.set(communicator.ranks) => OK,
        _ => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetCommAsyncError(_communicator: Handle<Communicator>, error: Out<i32>) -> i32 {
    if error.set(OK) { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclGetErrorString(_error: i32) -> *const c_char {
    c"error of the simulated HCCL".as_ptr()
}

/// Which fields of a configuration are understood: those of the first version.
#[unsafe(no_mangle)]
pub extern "C" fn HcclGetCommConfigCapability() -> u32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn HcclSetConfig(_option: i32, _value: i32) -> i32 {
    OK
}
