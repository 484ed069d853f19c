//! What a forked child must not keep of its parent, and what it needs to get away from it.
//!
//! The process's memory is zeroed in a child, so its first event begins a recording of its own. What is left is here, in
//! ordinary memory that a child gets a copy of: the numbers of the parent's descriptors. Windows are not handed on at all.
use crate::files::close_inherited;
use crate::lane::{self, Interrupted};
use crate::process;
use crate::slot::{self, Slot};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use memscope_sys::{self as sys, Fd, FileId};

/// A descriptor this process, or the one it was forked from, has open.
struct Descriptor {
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

/// Of each spool file.
static DESCRIPTORS: [Descriptor; 3] =
    [const { Descriptor { number: AtomicI32::new(0), device: AtomicU64::new(0), inode: AtomicU64::new(0) } }; 3];

/// Which of the spool files. Zeroes are the first.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Which {
    Windows = 0,
    Events = 1,
    /// What watched blocks held.
    Watch = 2,
}

/// From now on this is the descriptor of that file.
pub(crate) fn remember(which: Which, descriptor: Fd, file: FileId) {
    if let Some(place) = DESCRIPTORS.get(which as usize) {
        place.device.store(file.device, Relaxed);
        place.inode.store(file.inode, Relaxed);
        place.number.store(descriptor.0, Relaxed);
    }
}

pub(crate) fn close_all_inherited() {
    for Descriptor { number, device, inode } in &DESCRIPTORS {
        let file = FileId { device: device.load(Relaxed), inode: inode.load(Relaxed) };
        close_inherited((Fd(number.swap(0, Relaxed)), file));
    }
}

/// The recorder was at work when a signal handler forked: in the child it may return there, to what the parent had.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// For a process that begins: closes and unmaps what it has from the process it was forked from, if any.
///
/// # Safety
/// No lane of this process exists, and nothing of the parent's lanes is in use, but by what [`in_child`] knows of.
pub(crate) unsafe fn leave_parent() {
    close_all_inherited();
    if !INTERRUPTED.load(Relaxed) {
        // SAFETY: passed on.
        unsafe { sys::unmap_inherited() };
    }
}

/// What a fork needs to know of the moment before it.
pub struct Fork {
    /// The recorder is at work: fork was called by a signal handler that interrupted it, or a jump has left it there.
    is_at_work: bool,
    /// The lane it is at work on, and how many there are.
    interrupted: Option<Interrupted>,
    lanes: u32,
}

/// Just before a fork.
pub fn before() -> Fork {
    // A child has no word of its own before it begins, and remembers what its parent was told.
    sys::sandbox::is_told();
    let slot = slot::current();
    // SAFETY: the slot is the thread's own, and so is the lane it names; the copy is only ever put back.
    unsafe {
        let is_at_work = Slot::is_recording(slot);
        let interrupted = if is_at_work { lane::interrupted((*slot).lane) } else { None };
        Fork { is_at_work, interrupted, lanes: process::lane_count() }
    }
}

/// Right after it, in the child.
///
/// A child that returns from the signal handler into the recorder finds a writer as it was, in front of memory that no
/// file is behind. The event under way there is the parent's; for its own the child begins anew, beside it.
pub fn in_child(fork: &Fork) {
    close_all_inherited();
    process::is_forked();
    let slot = slot::current();
    // SAFETY: the slot is the thread's own; the copy is of the lane that it names, whose memory is zeroes now.
    unsafe {
        if let Some(interrupted) = &fork.interrupted {
            lane::put_back((*slot).lane, interrupted);
            process::leave_out_lanes_to((*slot).lane, fork.lanes);
        }
        if fork.is_at_work {
            INTERRUPTED.store(true, Relaxed);
            if let Some(coming) = NonNull::new((*slot).coming as *mut u8) {
                let _ = sys::map_anonymous_at(coming, (*slot).coming_length);
            }
            Slot::begin_anew(slot);
        }
    }
}
