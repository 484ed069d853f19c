//! Any file may be named as a module: looking up an address in it must end, without panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_symbols::Symbolizer;

// The file comes last, as it is: `make fuzz` begins with a real one.
fuzz_target!(|data: (u64, &[u8])| {
    let (address, bytes) = data;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let mut symbolizer = Symbolizer::with_debug_directories(Vec::new());
    for offset in [address, address & 0xffff, 1, u64::MAX] {
        symbolizer.c_frames(file.path(), &[], offset);
    }
});
