//! The `msmemscope` command; all of it lives in the library so that tests reach every part.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    memscope_cli::main()
}
