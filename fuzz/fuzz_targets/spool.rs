//! Both files of a spool made of arbitrary bytes behind a valid start: reading and exporting must end, without panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_fuzz::{export_both, header_page};
use memscope_format::layout::{EVENTS_FILE, WINDOWS_FILE};

fuzz_target!(|data: (Vec<u8>, Vec<u8>, u8)| {
    let (windows, events, count) = data;
    let directory = tempfile::tempdir().unwrap();
    let spool = directory.path().join("spool");
    std::fs::create_dir(&spool).unwrap();
    let mut bytes = header_page(u32::from(count % 4));
    bytes.extend_from_slice(&windows);
    std::fs::write(spool.join(WINDOWS_FILE), bytes).unwrap();
    std::fs::write(spool.join(EVENTS_FILE), events).unwrap();
    export_both(directory.path());
});
