//! Where the debug information of a stripped file is kept.
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::Elf;

/// The separate debug file of `elf`, which was opened as `path`: by build id, then by the name in `.gnu_debuglink`.
/// A candidate that belongs to another build is passed over.
pub(crate) fn find(path: &Path, elf: &Elf, debug_directories: &[PathBuf]) -> Option<Elf> {
    by_build_id(&elf.build_id, debug_directories).or_else(|| by_link(path, elf, debug_directories))
}

/// `<directory>/.build-id/ab/cdef….debug`.
pub(crate) fn by_build_id(build_id: &[u8], debug_directories: &[PathBuf]) -> Option<Elf> {
    let (first, rest) = build_id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let name = format!(".build-id/{first:02x}/{}.debug", hex(rest));
    debug_directories.iter().find_map(|directory| {
        let debug = Elf::open(&directory.join(&name)).ok()?;
        (debug.build_id == build_id).then_some(debug)
    })
}

fn by_link(path: &Path, elf: &Elf, debug_directories: &[PathBuf]) -> Option<Elf> {
    let (name, crc) = elf.debug_link.as_ref()?;
    let name = Path::new(OsStr::from_bytes(name));
    // A link names a file, never a path: what comes from an object file does not get to choose directories.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let beside = path.parent()?;
    let mut candidates = vec![beside.join(name), beside.join(".debug").join(name)];
    for directory in debug_directories {
        candidates.push(directory.join(beside.strip_prefix("/").unwrap_or(beside)).join(name));
    }
    candidates.into_iter().filter(|candidate| candidate != path).find_map(|candidate| {
        let debug = Elf::open(&candidate).ok()?;
        let belongs = if elf.build_id.is_empty() || debug.build_id.is_empty() {
            crc32_of_file(&candidate) == Some(*crc)
        } else {
            debug.build_id == elf.build_id
        };
        belongs.then_some(debug)
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The checksum `.gnu_debuglink` holds: CRC-32 as in zip.
fn crc32_of_file(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut buffer = vec![0; 64 * 1024];
    let mut crc = !0;
    loop {
        let count = file.read(&mut buffer).ok()?;
        if count == 0 {
            return Some(!crc);
        }
        crc = crc32_update(crc, buffer.get(..count)?);
    }
}

fn crc32_update(crc: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc32_table();
    bytes.iter().fold(crc, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

const fn crc32_table() -> [u32; 256] {
    const REFLECTED_POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ REFLECTED_POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_well_known_one() {
        assert_eq!(!crc32_update(!0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn build_ids_are_spelled_as_file_names_have_them() {
        assert_eq!(hex(&[0x0a, 0xff, 0x00]), "0aff00");
    }
}
