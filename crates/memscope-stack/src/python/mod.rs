//! The interpreter's frames.
