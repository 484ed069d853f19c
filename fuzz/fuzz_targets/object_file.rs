//! Any file may be named as a module: looking up an address in it must end, without panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_symbols::Symbolizer;

fuzz_target!(|data: (Vec<u8>, u64)| {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &data.0).unwrap();
    let mut symbolizer = Symbolizer::with_debug_directories(Vec::new());
    for offset in [data.1, data.1 & 0xffff, 1, u64::MAX] {
        symbolizer.c_frames(file.path(), &[], offset);
    }
});
