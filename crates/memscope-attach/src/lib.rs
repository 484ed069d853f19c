//! `libmsmemscope_attach.so`: makes a running program use the recording libraries that were loaded into it.
//!
//! A library loaded with `RTLD_GLOBAL` is the last in the global scope: nobody finds the functions of the C library there, and
//! what is already loaded is bound already. All that is done about it happens in the [constructor](attach), because
//! constructors run under the loader's lock: while it works, nothing is loaded, relocated or unloaded. Afterwards the library is
//! of no use and can be closed; opened again, it looks again.
//!
//! 1. The libraries move to where preloaded ones are in the [scope](memscope_sys::loader::bring_forward): everything loaded
//!    from now on, its constructors included, finds them first.
//! 2. What is loaded has its references to hooked functions [replaced](sweep).
//!
//! The caller's duties: to have loaded the recording library, and the host library if host memory is asked for, with
//! `RTLD_GLOBAL` and for ever (`RTLD_NODELETE`); and to read [`Attachment`] before it closes this one.
#![no_std]

mod attach;
mod functions;
mod image;
mod sweep;

use memscope_hook::Attachment;

/// Nothing is hooked here.
struct NoOriginal;

memscope_hook::hooks! {
    originals found by NoOriginal;
    own { msmemscope_attachment() -> *const Attachment => attach::attachment; }
}

memscope_hook::preloaded_library!();
