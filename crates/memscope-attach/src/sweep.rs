//! References of loaded objects to hooked functions, replaced by references to the hooks.
//!
//! A reference is replaced only if it leads to what it would lead to without us. One that is not bound yet will find the hook
//! by itself; one that is bound to an allocator of the object's own must stay so. The words of the C library are among
//! them (it calls its own malloc through them), and four of the loader's, which it keeps without a name.
use crate::functions::{Function, Functions};
use crate::image::{Image, Kind, Reference};
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};
use libc::dl_phdr_info;
use memscope_hook::Attachment;
use memscope_sys::{loader, unfiltered};

/// # Safety
/// The loader's lock is held.
pub(crate) unsafe fn replace_references(functions: &Functions, attachment: &mut Attachment) {
    // SAFETY: the caller's: nothing is unloaded.
    unsafe {
        each_image(&mut |image| {
            let mut changes = Changes { image: &image, is_open: false, attachment: &mut *attachment };
            if image.bias == loader::loader_base() {
                changes.replace_in_loader(functions);
            } else if !functions.all().any(|function| image.contains(function.hook)) {
                image.each_reference(|reference| {
                    if let Some(function) = functions.find(reference.name) {
                        changes.replace(reference, function);
                    }
                });
            }
            changes.end();
        });
    }
}

/// Whether what the object refers to is bound to the hooks, where there is one. To be asked before references are replaced.
///
/// # Safety
/// The loader's lock is held.
pub(crate) unsafe fn is_bound_to_hooks(functions: &Functions, dynamic: usize) -> bool {
    let mut bound = false;
    // SAFETY: the caller's.
    unsafe {
        each_image(&mut |image| {
            if image.dynamic != dynamic {
                return;
            }
            bound = true;
            image.each_reference(|reference| {
                if let Some(function) = functions.find(reference.name) {
                    bound &= (*(reference.word as *const AtomicUsize)).load(Acquire) == function.hook;
                }
            });
        });
    }
    bound
}

/// # Safety
/// The loader's lock is held.
unsafe fn each_image(visit: &mut dyn FnMut(Image)) {
    unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, visit: *mut c_void) -> c_int {
        // SAFETY: what was passed below, and what the function passes.
        unsafe {
            let visit = &mut *visit.cast::<&mut dyn FnMut(Image)>();
            let page_size = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            if let Some(image) = Image::of(&*info, page_size) {
                visit(image);
            }
        }
        0
    }
    let mut visit = visit;
    // SAFETY: the function is called before this returns, with `visit`.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut visit).cast()) };
}

/// The words of one object, while they are changed.
struct Changes<'a> {
    image: &'a Image,
    /// Its read-only pages are writable now.
    is_open: bool,
    attachment: &'a mut Attachment,
}

impl Changes<'_> {
    fn replace(&mut self, reference: Reference, function: &Function) {
        // SAFETY: a word of a loaded object that the loader fills.
        let value = unsafe { (*(reference.word as *const AtomicUsize)).load(Acquire) };
        let leads_to_original = value == function.original && value != 0;
        // Libraries of the driver are loaded out of sight: what a call is bound to need not be what is found first.
        let leads_to_another = reference.kind == Kind::Call
            && !function.is_of_allocator
            && value != function.hook
            && !self.image.contains(value);
        if leads_to_original || leads_to_another {
            self.store(reference.word, function.hook);
        }
    }

    /// The loader keeps addresses of the allocator without a name, in what is read-only.
    fn replace_in_loader(&mut self, functions: &Functions) {
        const KEPT: [&CStr; 4] = [c"malloc", c"calloc", c"realloc", c"free"];
        let (start, end) = self.image.read_only;
        for word in (start..end).step_by(size_of::<usize>()) {
            // SAFETY: a word of the loader's data.
            let value = unsafe { (*(word as *const AtomicUsize)).load(Acquire) };
            let mut kept = KEPT.iter().filter_map(|name| functions.find(name));
            if let Some(function) = kept.find(|function| function.original == value && value != 0) {
                self.store(word, function.hook);
            }
        }
    }

    fn store(&mut self, word: usize, hook: usize) {
        if self.image.is_read_only(word) && !self.is_open {
            self.is_open = self.protect(libc::PROT_READ | libc::PROT_WRITE);
        }
        if self.image.is_read_only(word) && !self.is_open {
            self.attachment.refused += 1;
            return;
        }
        // SAFETY: a word of a loaded object, which can be written now; others read it whole.
        unsafe { (*(word as *const AtomicUsize)).store(hook, Release) };
        self.attachment.replaced += 1;
    }

    fn protect(&self, protection: c_int) -> bool {
        let (start, end) = self.image.read_only;
        let arguments = [start, end - start, protection as usize, 0, 0, 0];
        // SAFETY: pages of the object's data. Not by the C library's function, which may be hooked by now.
        unsafe { unfiltered(libc::SYS_mprotect as usize, arguments) }.is_ok()
    }

    fn end(self) {
        if self.is_open {
            self.protect(libc::PROT_READ);
        }
    }
}
