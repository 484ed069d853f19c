//! Recordings made to order, exported and read back.
mod atb;
mod aten;
mod calls;
mod devices;
mod files;
mod insight;
mod kernels;
mod queries;
mod recording;
mod rows;
mod stacks;
mod watch;
