//! `libacl_tdt_channel.so`: queues between host and device. No kernel prints or feeds anything, so they stay empty.

use sim_boundary::{Handle, Out, Text};

const OK: i32 = 0;
const INVALID_PARAMETER: i32 = 107_000;
const QUEUE_EMPTY: i32 = 207_013;

/// A queue.
pub struct Channel;

/// What would be read from a queue.
pub struct Dataset;

#[unsafe(no_mangle)]
pub extern "C" fn acltdtCreateChannel(_device: u32, _name: Text) -> Handle<Channel> {
    Handle::new(Channel)
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtCreateChannelWithCapacity(_device: u32, _name: Text, _capacity: usize) -> Handle<Channel> {
    Handle::new(Channel)
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtStopChannel(channel: Handle<Channel>) -> i32 {
    if channel.is_null() { INVALID_PARAMETER } else { OK }
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtCleanChannel(channel: Handle<Channel>) -> i32 {
    if channel.is_null() { INVALID_PARAMETER } else { OK }
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtDestroyChannel(channel: Handle<Channel>) -> i32 {
    if channel.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtQueryChannelSize(_channel: Handle<Channel>, size: Out<usize>) -> i32 {
    if size.set(0) { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtCreateDataset() -> Handle<Dataset> {
    Handle::new(Dataset)
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtDestroyDataset(dataset: Handle<Dataset>) -> i32 {
    if dataset.destroy().is_some() { OK } else { INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtGetDatasetSize(_dataset: Handle<Dataset>) -> usize {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn acltdtReceiveTensor(_channel: Handle<Channel>, _dataset: Handle<Dataset>, _timeout: i32) -> i32 {
    QUEUE_EMPTY
}
