//! Dump files as traces: ours say what the spool says, those of the existing tool are understood, and no file does harm.
mod directories;
mod existing_tool;
mod hostile;
mod same_result;
mod summary;
