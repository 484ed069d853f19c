//! What each process of the simulated machine uses on each device, for device management in other processes to read: a file
//! for each process in `SIM_STATE_DIR`, named by its number, with eight bytes for each device.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

const NUMBER_BYTES: usize = size_of::<u64>();

fn directory() -> Option<PathBuf> {
    env::var_os("SIM_STATE_DIR").filter(|directory| !directory.is_empty()).map(PathBuf::from)
}

/// Says what this process uses on a device from now on; nothing if the variable is not set.
pub fn publish(device: u32, bytes: u64) {
    static OWN: OnceLock<Option<File>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let path = directory()?.join(std::process::id().to_string());
        File::create(&path).inspect_err(|error| eprintln!("sim: {}: {error}; not published", path.display())).ok()
    });
    if let Some(own) = own {
        // Who cannot be told does not matter to the simulated device.
        let _ = own.write_all_at(&bytes.to_le_bytes(), u64::from(device) * NUMBER_BYTES as u64);
    }
}

/// What processes that are alive use on a device, by process number; `None` if the variable is not set.
pub fn read(device: u32) -> Option<Vec<(i32, u64)>> {
    let mut found: Vec<(i32, u64)> = Vec::new();
    for entry in fs::read_dir(directory()?).ok()?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if fs::exists(format!("/proc/{process}")).unwrap_or(false) {
            let mut number = [0; NUMBER_BYTES];
            let place = u64::from(device) * NUMBER_BYTES as u64;
            // A file that ends before is of a process that never used the device.
            let known = File::open(entry.path()).and_then(|file| file.read_exact_at(&mut number, place));
            let bytes = u64::from_le_bytes(number);
            if known.is_ok() && bytes != 0 {
                found.push((process, bytes));
            }
        }
    }
    found.sort_unstable();
    Some(found)
}
