//! The recorder, seen through its table.
use crate::thread::{recorder_symbol, thread_pointer};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, compiler_fence};
use memscope_hook::{API_VERSION, Api, Entry};

static API: AtomicPtr<Api> = AtomicPtr::new(core::ptr::null_mut());

/// Looks the table up; called once, with the originals.
pub(crate) fn connect() {
    let address = recorder_symbol();
    if address == 0 {
        return;
    }
    // SAFETY: the symbol is the recording library's function of this type.
    let provide: extern "C" fn() -> *const Api = unsafe { core::mem::transmute(address) };
    let api = provide();
    // SAFETY: the table is static in the recording library.
    let (size, version) = unsafe { ((*api).size, (*api).version) };
    if size as usize >= size_of::<Api>() && version == API_VERSION {
        API.store(api.cast_mut(), Relaxed);
    }
}

/// One wrapped call that is to be recorded; while it lives the thread's guard is taken.
pub(crate) struct Call {
    api: &'static Api,
    guard: *mut [usize; 2],
    entry: Entry,
}

/// An answer of `nested`.
const PASS: u32 = 0;
const ON_TOP: u32 = 2;

impl Call {
    /// `None` if there is no recorder, or this call is part of another one.
    #[inline(always)]
    pub(crate) fn enter(entry: Entry) -> Option<Call> {
        // SAFETY: the table is static in the recording library, which is never unloaded.
        let api = unsafe { API.load(Relaxed).as_ref() }?;
        let mut guard = thread_pointer().wrapping_add_signed(api.guard_offset) as *mut [usize; 2];
        // SAFETY: the offset leads to this thread's two guard words; at the stack pointer is our return address.
        unsafe {
            if (*guard)[0] != 0 {
                match (api.nested)(entry.stack_pointer, entry.frame_pointer) {
                    PASS => return None,
                    ON_TOP => guard = guard.byte_add(api.second_guard),
                    _ => {}
                }
            }
            // In this order: a signal in between finds no guard, and not one with another's word.
            compiler_fence(SeqCst);
            (*guard)[1] = *(entry.stack_pointer as *const usize);
            compiler_fence(SeqCst);
            (*guard)[0] = entry.stack_pointer;
        }
        Some(Call { api, guard, entry })
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        // SAFETY: the guard is ours.
        unsafe { (self.api.now)() }
    }

    #[inline(always)]
    pub(crate) fn allocated(&self, address: usize, size: usize) {
        // SAFETY: the guard is ours and the entry is this call's.
        unsafe { (self.api.host_alloc)(address, size, self.entry.stack_pointer, self.entry.frame_pointer) }
    }

    #[inline(always)]
    pub(crate) fn freeing(&self, address: usize) {
        // SAFETY: as above.
        unsafe { (self.api.host_free)(address) }
    }

    #[inline(always)]
    pub(crate) fn moved(&self, old: usize, new: usize, size: usize, began: u64) {
        // SAFETY: as above.
        unsafe { (self.api.host_moved)(old, new, size, began, self.entry.stack_pointer, self.entry.frame_pointer) }
    }

    pub(crate) fn mapped(&self, address: usize, size: usize, protection: u8) {
        // SAFETY: as above.
        unsafe { (self.api.host_map)(address, size, protection, self.entry.stack_pointer, self.entry.frame_pointer) }
    }

    pub(crate) fn protected(&self, address: usize, size: usize, protection: u8) {
        // SAFETY: as above.
        unsafe {
            (self.api.host_protect)(address, size, protection, self.entry.stack_pointer, self.entry.frame_pointer)
        }
    }

    /// Memory was not to be had.
    #[inline(always)]
    pub(crate) fn refused(&self, call: u8, size: usize, flag: u8) {
        // By value: a reference would keep the usual call's words in memory.
        tell_refusal(self.api, self.entry, call, size, flag);
    }

    pub(crate) fn unmapped(&self, address: usize, size: usize, began: u64) {
        // SAFETY: as above.
        unsafe { (self.api.host_unmap)(address, size, began) }
    }

    pub(crate) fn remapped(&self, old: (usize, usize), new: (usize, usize), began: u64) {
        // SAFETY: as above.
        unsafe {
            (self.api.host_remapped)(
                old.0,
                old.1,
                new.0,
                new.1,
                began,
                self.entry.stack_pointer,
                self.entry.frame_pointer,
            )
        }
    }
}

/// Out of the way of the calls that get what they ask for.
#[cold]
#[inline(never)]
fn tell_refusal(api: &'static Api, entry: Entry, call: u8, size: usize, flag: u8) {
    // SAFETY: only called by a `Call`, which holds the guard.
    unsafe { (api.host_refused)(call, size, flag, entry.stack_pointer, entry.frame_pointer) }
}

/// Whether the call that has just failed says that memory is exhausted.
#[cold]
#[inline(never)]
pub(crate) fn says_no_memory() -> bool {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() == libc::ENOMEM }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard is this thread's and we took it.
        unsafe {
            (*self.guard)[0] = 0;
            compiler_fence(SeqCst);
            // It may be a guard's that was being taken when a signal came.
            (*self.guard)[1] = 0;
        }
    }
}
