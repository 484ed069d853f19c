//! What values are allowed, in words: the end of every message about a bad one, on the command line and in Python.
pub use super::FORMAT_CHOICES as FORMAT;

pub const DEVICE: &str = "npu, npu:0 to npu:31, cpu, separated by commas";
pub const LEVEL: &str = "0 or op, 1 or kernel, separated by commas";
pub const EVENTS: &str = "alloc, free, launch, access, traceback, separated by commas, or none";
pub const CALL_STACK: &str = "c, python, c:DEPTH, python:DEPTH with DEPTH from 0 to 1000, separated by commas";
pub const ANALYSIS: &str =
    "leaks, decompose, inefficient, oom, oom:K with K from 1 to 1000, separated by commas, or none";
pub const WATCH: &str = "[START[:OUTPUT]],END[,full-content] where START and END are operator names of at most 254 bytes and \
                         OUTPUT is a number";
pub const SIZE: &str = "a number of bytes, e.g. 500M or 2G";
pub const OUTPUT: &str = "a directory path of 1 to 4096 characters";
