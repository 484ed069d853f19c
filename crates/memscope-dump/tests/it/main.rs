//! Dump files, written and read back.
mod annotate;
mod export;
mod readback;
