//! The library's first and last moment in the process.
use core::ffi::{c_char, c_int};

// The loader passes argc, argv and envp; we need none of them.
extern "C" fn constructor(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    crate::hooks::find_sandbox_originals();
    memscope_recorder::initialise();
    crate::hooks::find_originals();
    crate::python_calls::begin_with_program();
}

/// The process ends regularly. Whoever waits for it calls this before the loader does.
pub(crate) extern "C" fn end() {
    crate::kernel_times::end_all();
    memscope_recorder::process_ends();
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = end;
