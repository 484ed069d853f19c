//! The command, run as users run it.
#![allow(clippy::print_stderr, reason = "which tests were skipped is part of the result")]
mod analyze_usage;
mod command;
mod command_line;
mod device_usage;
mod hostile_text;
mod inefficient;
mod options;
mod recordings;
mod views;
