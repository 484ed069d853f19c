//! A sound database with arbitrary places overwritten: reading must end, without panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_dump::Format;
use memscope_fuzz::{export, read_dump, sound_recording};
use std::path::Path;
use std::sync::OnceLock;

/// Made once: the fuzzer is after the reader.
fn sound_database() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        sound_recording(directory.path());
        let files = export(directory.path(), Format::Db).unwrap().files;
        let is_database = |file: &&std::path::PathBuf| file.extension().is_some_and(|extension| extension == "db");
        std::fs::read::<&Path>(files.iter().find(is_database).unwrap()).unwrap()
    })
}

fuzz_target!(|damage: (Vec<(u32, u8)>, Option<u32>)| {
    let (places, cut) = damage;
    let mut bytes = sound_database().to_vec();
    for (at, value) in places {
        let length = bytes.len();
        bytes[at as usize % length] = value;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut as usize);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memscope_dump_1.db");
    std::fs::write(&path, bytes).unwrap();
    read_dump(&path);
});
