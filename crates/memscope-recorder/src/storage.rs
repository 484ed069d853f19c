//! Storages of tensors that torch keeps on the host.
//!
//! They lie in host memory, which is recorded by itself: a storage is recorded after the block it lies in, and its end before that
//! block's, so that nobody else's storage can be at its address meanwhile.
use crate::device::{Space, SpaceAddr, SpaceDevice};
use crate::lane::{self, event_with_stack};
use crate::process;
use crate::slot::{self, Guard};
use crate::watch;
use memscope_format::encode::Extended;

/// What a thread has asked torch for and not been given yet. In the thread's slot, where zeroes are nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Request {
    pub size: usize,
    /// What the hook was entered with.
    pub stack_pointer: usize,
    pub frame_pointer: usize,
}

impl Request {
    const NONE: Request = Request { size: 0, stack_pointer: 0, frame_pointer: 0 };
}

/// Whether storages are to be recorded: they are the host's.
#[inline]
pub fn are_wanted() -> bool {
    process::records_host()
}

/// The calling thread asks torch for a storage.
#[inline]
pub fn ask(request: Request) {
    // SAFETY: the slot is the thread's own.
    unsafe { (*slot::current()).storage_request = request };
    lane::expect_inner();
}

/// The request of the calling thread is over; tells what it was, if there was one.
#[inline]
pub fn end_request() -> Option<Request> {
    // SAFETY: as above.
    let request = unsafe { core::mem::replace(&mut (*slot::current()).storage_request, Request::NONE) };
    (request.size != 0).then_some(request)
}

/// Whether a hook entered at `stack_pointer` is part of a request: then torch's answer to that is what counts, and torch may find
/// memory elsewhere.
pub(crate) fn is_in_request(stack_pointer: usize) -> bool {
    // SAFETY: as above.
    let request = unsafe { (*slot::current()).storage_request };
    request.size != 0 && stack_pointer < request.stack_pointer
}

/// torch has given a storage. Mostly the block it lies in was recorded just now, with all of the stack.
#[inline]
pub fn begin(guard: &Guard<'_>, address: usize, size: usize) {
    let (space, device, address, size) = (SPACE, SpaceDevice::HOST, SpaceAddr(address as u64), size as u64);
    lane::event_around(guard, |stack| Extended::DeviceAlloc { space, device, address, size, attributes: 0, stack });
}

/// A storage is about to be given back. Its stack is taken only while somebody watches blocks, to tell who freed one's neighbour:
/// as for the heap, who frees explains little else.
#[inline]
pub fn end(guard: &Guard<'_>, address: usize) {
    let event = |stack| Extended::DeviceFree { space: SPACE, address: SpaceAddr(address as u64), stack };
    if watch::is_on() {
        watch::freed(guard, address as u64);
        event_with_stack(guard, event);
    } else {
        lane::record(guard.no_stack(), 1, |lane, ticks, stack| lane.writer.frequent_event(ticks, &event(stack)));
    }
}

/// torch has no memory for a storage of this size.
#[cold]
pub fn refused(guard: &Guard<'_>, size: usize) {
    let (space, device, size, flag) = (SPACE, SpaceDevice::HOST, size as u64, 0);
    event_with_stack(guard, |stack| Extended::OutOfMemory { space, device, size, flag, stack });
}

const SPACE: Space = Space::TensorStorage;
