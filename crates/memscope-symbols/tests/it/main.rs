//! Names and lines of real programs and of hostile ones.
mod hostile_objects;
mod native_frames;
mod python_lines;
mod toolchain;
