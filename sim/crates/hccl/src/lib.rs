//! `libhccl.so`: collectives between devices. No data crosses a process: what a rank contributes is what it gets.

mod collective;
mod communicator;
