//! torch's own functions: storages of tensors on the host.
//!
//! The two are C++, and the one that allocates throws where there is no memory. A storage of no bytes has no address and is none.
use super::{AllocCpu, FreeCpu};
use crate::recording::recording;
use memscope_hook::Entry;
use memscope_hook::around::Next;
use memscope_recorder::storage::{self, Request};
use memscope_recorder::watch;

/// `void *c10::alloc_cpu(size_t)`.
pub(super) unsafe extern "C" fn allocate_storage(size: usize, entry: Entry) -> Next {
    let original = AllocCpu::ORIGINAL.address();
    // A negative number is a mistake of the program's, and refused as one.
    if size == 0 || isize::try_from(size).is_err() || !storage::are_wanted() {
        return Next::jump(original);
    }
    let Entry { stack_pointer, frame_pointer } = entry;
    storage::ask(Request { size, stack_pointer, frame_pointer });
    Next::call(original, size)
}

pub(super) unsafe extern "C" fn allocated_storage(address: usize, size: usize, entry: Entry) -> usize {
    storage::end_request();
    if address != 0 {
        recording(entry, |guard| storage::begin(guard, address, size));
    }
    address
}

/// Nothing but the want of memory makes it throw.
pub(super) fn refused_storage() {
    if let Some(Request { size, stack_pointer, frame_pointer }) = storage::end_request() {
        recording(Entry { stack_pointer, frame_pointer }, |guard| storage::refused(guard, size));
    }
}

/// `void c10::free_cpu(void *)`.
pub(super) unsafe extern "C" fn free_storage(address: usize, entry: Entry) -> Next {
    if address != 0 && storage::are_wanted() {
        recording(entry, |guard| storage::end(guard, address));
    } else if watch::is_on() {
        recording(entry, |guard| watch::freed(guard, address as u64));
    }
    Next::jump(FreeCpu::ORIGINAL.address())
}
