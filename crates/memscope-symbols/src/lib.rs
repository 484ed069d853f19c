//! Names and lines for what a trace holds as numbers, after the fact and away from the traced process.
//!
//! * [`Symbolizer`]: an address in an ELF file to function, file and line, with the functions inlined there. Several,
//!   in as many threads, can share what they read: [`Symbols`].
//! * [`python_line`]: an instruction of a Python code object to its line.
//! * [`render_c`] and [`render_python`]: the one spelling of a frame that every view shares.
//!
//! The caller's duties: give `offset`s that are return addresses minus the load bias, and show
//! [`Symbolizer::problems`] to the user, since a file that cannot be used costs names, never an error.
//!
//! Files are looked up by the path the target ran them under and may have changed since, or be damaged or hostile:
//! a build id other than the recorded one is refused, what is read and allocated is bounded by the size of the file,
//! and the work on debug information by the size of its sections.
#![forbid(unsafe_code)]

mod debug_file;
mod debug_info;
mod demangle;
mod elf;
mod frame;
mod metered;
mod objects;
mod python;
mod sources;
mod symbol_table;
mod symbolizer;

pub use frame::{SourceFrame, render_c, render_python};
pub use objects::Symbols;
pub use python::python_line;
pub use symbolizer::Symbolizer;
