//! Recordings made to order, exported and read back.
mod devices;
mod files;
mod insight;
mod kernels;
mod launches;
mod queries;
mod recording;
mod rows;
mod stacks;
