//! Prints a spool as text: `cargo run --example spool_dump --features decode -- PROCESS_DIRECTORY/spool`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use memscope_format::decode::{Spool, text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: spool_dump SPOOL_DIRECTORY")?;
    print!("{}", text::of_spool(&Spool::open(directory.as_ref())?)?);
    Ok(())
}
