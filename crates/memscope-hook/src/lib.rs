//! What a library is made of that is preloaded into other programs and hooks functions they call.
//!
//! * [`hooks!`]: the table of a library's hooks. A line spells a function once, with its type; export, entry stub, typed
//!   original and the list of exports come from it, and a wrong number or type of parameters does not compile.
//! * [`functions!`]: the same for functions that are called but not hooked, [`callbacks!`] for those that are handed to
//!   somebody else.
//! * [`Api`]: the C table between the recording library and others in the process.
//! * [`preloaded_library!`]: panic handler and linking of such a library.
//!
//! Its user's duties: to spell each function as its C header does, for nothing else can check that; and to bring the
//! type that finds originals (see [`hooks!`]).
//!
//! What it is not: it knows neither the recorder nor any function that is hooked.
#![cfg_attr(not(test), no_std)]

mod api;
pub mod around;
mod callbacks;
mod functions;
mod hooks;
mod library;
mod stub;
mod types;

pub use api::{
    ALREADY_BEGUN, API_VERSION, Api, Attachment, BEGUN, MSTX_PROBE, REFUSED, ToldMemory, WATCH_CAPTURED,
    WATCH_NO_MEMORY, WATCH_NOT_RECORDING, WATCH_TOO_MANY, WATCHED_ANYWHERE, WATCHED_HOST, WatchedBlock, calls,
    host_call, label_level,
};
pub use stub::Words;
pub use types::{Answer, Callback, Entry, Word};
#[doc(hidden)]
pub use types::{answers, bytes, c_name, is_word};
