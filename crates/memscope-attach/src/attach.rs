//! What happens when the library is opened, and what came of it.
use crate::functions::Functions;
use crate::sweep;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use memscope_hook::Attachment;
use memscope_sys::loader::{self, Object};

const RECORDER: &CStr = c"libascend_kernel_hook.so";
const HOST: &CStr = c"libmsmemscope_host.so";
/// A library that was loaded to show to what one is bound that is loaded now.
const PROBE: &CStr = c"libmsmemscope_probe.so";

struct AttachmentCell(UnsafeCell<Attachment>);

// SAFETY: written by the constructor alone, before anybody can know the library.
unsafe impl Sync for AttachmentCell {}

static ATTACHMENT: AttachmentCell = AttachmentCell(UnsafeCell::new(Attachment::NOTHING));

/// `msmemscope_attachment()`; never null.
pub(crate) extern "C" fn attachment() -> *const Attachment {
    ATTACHMENT.0.get()
}

// The loader passes argc, argv and envp; we need none of them.
extern "C" fn constructor(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    // SAFETY: this is a constructor: the loader's lock is held, and nobody knows the cell yet.
    unsafe { *ATTACHMENT.0.get() = attach() };
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// # Safety
/// The loader's lock is held.
unsafe fn attach() -> Attachment {
    let mut attachment = Attachment::NOTHING;
    let Some(recorder) = loader::loaded(RECORDER) else { return attachment };
    // SAFETY: the caller's, here and below.
    unsafe {
        // Nobody comes before the program itself: its own allocator would get blocks that are not its own.
        let own_allocator = Object::program().is_some_and(|program| program.find(c"malloc").is_some());
        let host = loader::loaded(HOST);
        attachment.has_own_allocator = u32::from(own_allocator && host.is_some());
        let both = [recorder, host.unwrap_or(recorder)];
        let late = if host.is_some() && !own_allocator { &both[..] } else { core::slice::from_ref(&recorder) };
        attachment.is_in_scope = u32::from(loader::bring_forward(late));
        let functions = Functions::of(late);
        find_originals(late);
        attachment.is_proven = u32::from(
            loader::loaded(PROBE).is_some_and(|probe| sweep::is_bound_to_hooks(&functions, probe.dynamic_section())),
        );
        sweep::replace_references(&functions, &mut attachment);
    }
    attachment
}

/// The host library looks for the functions it wraps at its first call: now it finds what comes after it, and nothing is
/// unloaded meanwhile.
///
/// # Safety
/// The loader's lock is held.
unsafe fn find_originals(libraries: &[Object]) {
    for library in libraries {
        if let Some(free) = library.find(c"free") {
            // SAFETY: the library's `free`; that of nothing does nothing.
            unsafe {
                let free: unsafe extern "C" fn(*mut core::ffi::c_void) = core::mem::transmute(free);
                free(core::ptr::null_mut());
            }
        }
    }
}
