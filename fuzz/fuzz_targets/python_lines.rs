//! Any bytes may stand for a line table.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_symbols::python_line;

fuzz_target!(|data: (u8, u32, u32, Vec<u8>)| {
    let (minor, first_line, instruction, table) = data;
    python_line(0x300 | u16::from(minor % 18), first_line, &table, instruction);
});
