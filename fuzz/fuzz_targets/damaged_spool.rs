//! A sound recording with arbitrary places overwritten: what is intact must be exported, and nothing may panic or hang.
#![no_main]
use libfuzzer_sys::fuzz_target;
use memscope_fuzz::{export_both, sound_recording};
use memscope_format::layout::{EVENTS_FILE, WINDOWS_FILE};

fuzz_target!(|damage: (Vec<(u16, u8)>, Vec<(u32, u8)>, Option<u16>)| {
    let (in_events, in_windows, cut) = damage;
    let directory = tempfile::tempdir().unwrap();
    sound_recording(directory.path());
    let spool = directory.path().join("spool");
    for (file, places) in [
        (EVENTS_FILE, in_events.iter().map(|(at, value)| (*at as usize, *value)).collect::<Vec<_>>()),
        (WINDOWS_FILE, in_windows.iter().map(|(at, value)| (*at as usize, *value)).collect()),
    ] {
        let path = spool.join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let length = bytes.len();
        for (at, value) in places {
            if length > 0 {
                bytes[at % length] = value;
            }
        }
        if let (EVENTS_FILE, Some(cut)) = (file, cut) {
            bytes.truncate(cut as usize);
        }
        std::fs::write(path, bytes).unwrap();
    }
    export_both(directory.path());
});
