//! The call stack of the current thread, cheaply, as two numbers: one of its C frames, one of its Python frames.
//!
//! What it does: [`c::CStack`] walks the native frames, [`python::PythonStack`] the interpreter's frames; both intern
//! their frames in one [`tree::Tree`] per lane and return the node of the innermost frame.
//!
//! The caller's duties: one set of these per lane (never shared between threads), and a [`DefinitionSink`] that
//! writes each definition into the lane's spool before the event that refers to it. What is to be forgotten when is in [`c`].
//!
//! How it is fast: unwind rows are cached by return address, and only the frames that changed since the lane's last
//! stack are unwound and interned; the rest is compared, about a nanosecond a frame.
//!
//! What it is not: a symboliser. Names and lines are found offline.
#![cfg_attr(not(test), no_std)]

pub mod c;
pub mod python;
mod sink;
mod tables;
pub mod tree;

pub use sink::{CallNameDefinition, CodeDefinition, DefinitionSink, Frame, ModuleDefinition};
pub use tree::NodeId;
