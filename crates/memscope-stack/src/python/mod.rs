//! The Python call stack of the current thread, read from the interpreter's own frames.
//!
//! The interpreter lock is never taken and nothing of Python is called but `PyGILState_GetThisThreadState`, which
//! reads a thread-specific value. That is enough: a thread's frames, the code objects they run and the strings of those
//! are kept alive and unchanged by the frames themselves while the thread is inside C code, whoever holds the lock.
//!
//! * [`layout`]: where CPython 3.9 to 3.14 keep what we read.
//! * [`interpreter`]: finding CPython in this process, and the thread's innermost frame.
//! * [`frames`]: walking the frames and recognising the part that has not changed.
//! * [`code`] and [`text`]: which code object a frame runs, told apart even where addresses are reused.
//! * [`calls`]: what a trace of calls asks: which function this is, and what the thread is in.
//! * [`deaths`]: how that is known at no cost where code objects have no numbers.
//!
//! # What `instruction` means, for whoever turns it into a line
//!
//! `Frame::Python::instruction` is `frame.f_lasti` as Python code would see it (-1 becoming 0): a byte offset into
//! `co_code`, two bytes to a code unit, in every version, although 3.10 counts units inside. To be looked up in
//! `CodeDefinition::line_table` starting from `first_line`, the format going by `python_version`:
//! *3.9* has `co_lnotab`, pairs of (unsigned byte increment, *signed* line increment): add up pairs while the sum of
//! the byte increments does not exceed `instruction`. *3.10* has PEP 626 pairs of (unsigned byte length, signed line
//! delta): each pair first moves the line by its delta (-128 means "no line" for this range and does not move it),
//! then covers the given length; the range that contains `instruction` has the line. *3.11 to 3.14* have the location
//! table: each entry starts with a byte of bit 7 set, then a 4-bit code and a 3-bit length less one, the length in
//! *code units*, so that an entry covers twice as many bytes of `instruction`; line deltas are cumulative from
//! `first_line`, code 15 is "no line". In 3.11 and 3.12 the interpreter keeps the unit *before* the next one to run,
//! which for a frame that is calling may be an inline cache unit behind the call instruction, and in 3.13 and 3.14 the
//! instruction being run; the same entry covers an instruction and its caches, so that no version needs an adjustment.
//! A table of more than 48 KiB is cut: an `instruction` behind its end has no known line.
mod calls;
mod code;
mod deaths;
mod frames;
mod interpreter;
mod layout;
mod text;

pub use calls::{CallNames, Callee, code_of_frame_object, is_native};
pub use frames::PythonStack;
pub use interpreter::{Support, find_function, initialise, is_missing, library_to_keep, look_again, support};

#[cfg(test)]
mod image;
