//! The exported functions.
use crate::{heap, mappings};

stub!(malloc(1) => heap::malloc);
stub!(free(1) => heap::free);
stub!(valloc(1) => heap::valloc);
stub!(pvalloc(1) => heap::pvalloc);
stub!(calloc(2) => heap::calloc);
stub!(realloc(2) => heap::realloc);
stub!(aligned_alloc(2) => heap::aligned_alloc);
stub!(memalign(2) => heap::memalign);
stub!(reallocarray(3) => heap::reallocarray);
stub!(posix_memalign(3) => heap::posix_memalign);
stub!(munmap(2) => mappings::munmap);
stub!(mmap(6) => mappings::mmap);
stub!(mmap64(6) => mappings::mmap64);
stub!(mremap(6) => mappings::mremap);
stub!(mprotect(3) => mappings::mprotect);
stub!(pkey_mprotect(4) => mappings::pkey_mprotect);
