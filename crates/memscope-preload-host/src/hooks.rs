//! All hooks of the library.
use crate::originals::{Next, Original};
use crate::{heap, mappings};
use core::ffi::{c_int, c_void};
use libc::off_t;

pub(crate) type Pointer = *mut c_void;

memscope_hook::hooks! {
    originals found by Original;

    entered {
        malloc(size: usize) -> Pointer, in Next => heap::malloc;
        free(pointer: Pointer), in Next => heap::free;
        calloc(count: usize, size: usize) -> Pointer, in Next => heap::calloc;
        realloc(pointer: Pointer, size: usize) -> Pointer, in Next => heap::realloc;
        reallocarray(pointer: Pointer, count: usize, size: usize) -> Pointer, in Next => heap::reallocarray;
        posix_memalign(out: *mut Pointer, align: usize, size: usize) -> c_int, in Next => heap::posix_memalign;
        aligned_alloc(align: usize, size: usize) -> Pointer, in Next => heap::aligned_alloc;
        memalign(align: usize, size: usize) -> Pointer, in Next => heap::memalign;
        valloc(size: usize) -> Pointer, in Next => heap::valloc;
        pvalloc(size: usize) -> Pointer, in Next => heap::pvalloc;
        mmap(address: Pointer, length: usize, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> Pointer,
            in Next => mappings::mmap;
        mmap64(address: Pointer, length: usize, protection: c_int, flags: c_int, file: c_int, offset: off_t) -> Pointer,
            in Next => mappings::mmap64;
        munmap(address: Pointer, length: usize) -> c_int, in Next => mappings::munmap;
        // Variadic: the fifth argument counts only with `MREMAP_FIXED`.
        mremap(old: Pointer, old_length: usize, new_length: usize, flags: c_int, new_address: Pointer) -> Pointer,
            in Next => mappings::mremap;
        mprotect(address: Pointer, length: usize, protection: c_int) -> c_int, in Next => mappings::mprotect;
        pkey_mprotect(address: Pointer, length: usize, protection: c_int, key: c_int) -> c_int,
            in Next => mappings::pkey_mprotect;
    }
}
