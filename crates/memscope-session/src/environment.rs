//! Every environment variable the command reads or sets.

/// Read: directory of the recording libraries, instead of the one beside the command.
pub const LIBRARY_DIR: &str = "MSMEMSCOPE_LIB_DIR";
/// Set for the program: the whole configuration, see [`crate::record_config`].
pub const RECORD: &str = memscope_format::settings::VARIABLE;
/// Read and set for the program: what the loader loads before everything else.
pub const PRELOAD: &str = "LD_PRELOAD";
/// Read: where programs are searched.
pub const PATH: &str = "PATH";
/// Read and set for the program: AddressSanitizer is told that libraries come before its own.
pub const SANITIZER: &str = "ASAN_OPTIONS";
