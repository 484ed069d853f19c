//! A csv with a header and anything behind it, and anything as its file of stacks: reading must end, without panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_dump::rows::{COLUMNS, STACK_COLUMNS};
use memscope_fuzz::read_dump;

fuzz_target!(|data: (Vec<u8>, Vec<u8>, bool)| {
    let (rows, stacks, with_header) = data;
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, columns: &[&str], rows: &[u8]| {
        let header = if with_header { columns.join(",") + "\n" } else { String::new() };
        let path = directory.path().join(name);
        std::fs::write(&path, [header.as_bytes(), rows].concat()).unwrap();
        path
    };
    file("memscope_stacks_1.csv", &STACK_COLUMNS, &stacks);
    read_dump(&file("memscope_dump_1.csv", &COLUMNS, &rows));
});
