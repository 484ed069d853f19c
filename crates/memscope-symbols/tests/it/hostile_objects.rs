//! Damaged and malicious object files cost a problem line, never a panic, a hang or the machine's memory.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::toolchain::{compile, run, source};
use memscope_symbols::Symbolizer;
use proptest::prelude::*;
use tempfile::TempDir;

/// Looks up addresses all over the file; the problems found.
fn look_up(path: &Path) -> Vec<String> {
    let mut symbolizer = Symbolizer::with_debug_directories(Vec::new());
    for offset in [0, 1, 0x1000, 0x1100, 0x1180, 0x11ff, 0x1234, 0x4010, 1 << 47, u64::MAX] {
        for frame in symbolizer.c_frames(path, &[], offset) {
            assert!(!frame.function.as_deref().unwrap_or("").contains('\n'));
        }
    }
    symbolizer.problems().to_vec()
}

fn real_program(flags: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    compile("cc", &[&source("inlined.c")], flags, &path);
    std::fs::read(path).unwrap()
}

#[test]
fn a_file_cut_at_any_point_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut");
    for flags in [&["-g", "-O2"][..], &["-g", "-O2", "-gz=zlib"]] {
        let whole = real_program(flags);
        for length in (0..whole.len()).step_by(97).chain(0..200) {
            std::fs::write(&path, &whole[..length]).unwrap();
            // Section headers are at the end, so that nothing is left to find names with.
            assert_eq!(look_up(&path).len(), 1, "cut to {length}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(memscope_testkit::cases(400)))]

    #[test]
    fn any_bytes_behind_an_elf_header_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("random");
        let mut file = b"\x7fELF\x02\x01\x01\0".to_vec();
        file.extend(bytes);
        std::fs::write(&path, file).unwrap();
        look_up(&path);
    }
}

#[test]
fn changed_bytes_anywhere_in_a_real_program_are_survived() {
    let whole = real_program(&["-g", "-O2"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("changed");
    let changes = proptest::collection::vec((0..whole.len(), any::<u8>()), 1..40);
    proptest!(ProptestConfig::with_cases(memscope_testkit::cases(600)), |(changes in changes)| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        std::fs::write(&path, bytes).unwrap();
        look_up(&path);
    });
}

/// A library whose debug information is the given assembly, covering the function `f`.
fn with_debug_info(abbreviations: &str, entries: &str, more: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let code = directory.path().join("hostile.s");
    let path = directory.path().join("hostile.so");
    let mut text = String::from(".text\n.globl f\n.type f, %function\nf: .zero 64\n.size f, . - f\nf_end:\n");
    write!(
        text,
        ".section .debug_abbrev,\"\",%progbits\n\
         .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0\n\
         {abbreviations}\n.byte 0\n\
         .section .debug_info,\"\",%progbits\n\
         .4byte info_end - info_start\ninfo_start: .2byte 4\n.4byte 0\n.byte 8\n\
         .byte 1\n.8byte f\n.8byte f_end - f\n\
         {entries}\n.byte 0\ninfo_end:\n{more}\n"
    )
    .unwrap();
    std::fs::write(&code, text).unwrap();
    run(Command::new("cc").args(["-shared", "-nostdlib", "-o"]).arg(&path).arg(&code));
    (directory, path)
}

fn problem_at_f(path: &Path) -> String {
    let (start, ..) = crate::toolchain::functions(path).into_iter().find(|(_, _, name)| name == "f").unwrap();
    let mut symbolizer = Symbolizer::with_debug_directories(Vec::new());
    let frames = symbolizer.c_frames(path, &[], start + 9);
    assert_eq!(frames[0].function.as_deref(), Some("f"), "the symbol still answers");
    let [problem] = symbolizer.problems() else { panic!("{:?}", symbolizer.problems()) };
    problem.clone()
}

/// A subprogram with low and high pc and children.
const SUBPROGRAM: &str = ".byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0\n";
const SUBPROGRAM_AT_F: &str = ".byte 2\n.8byte f\n.8byte f_end - f\n";

#[test]
fn inlining_nested_deeper_than_the_stack_is_refused() {
    let inlined = format!("{SUBPROGRAM}.byte 3, 0x1d, 1, 0, 0");
    let nested = format!("{SUBPROGRAM_AT_F}.rept 200000\n.byte 3\n.endr\n.rept 200001\n.byte 0\n.endr");
    let (_directory, path) = with_debug_info(&inlined, &nested, "");
    assert!(problem_at_f(&path).contains("levels deep"));
}

#[test]
fn inlining_nested_as_deep_as_allowed_is_followed() {
    let inlined = format!("{SUBPROGRAM}.byte 3, 0x1d, 1, 0x11, 1, 0x12, 7, 0, 0");
    let depth = 490;
    let nested = format!(
        "{SUBPROGRAM_AT_F}.rept {depth}\n.byte 3\n.8byte f\n.8byte f_end - f\n.endr\n.rept {}\n.byte 0\n.endr",
        depth + 1
    );
    let (_directory, path) = with_debug_info(&inlined, &nested, "");
    let (start, ..) = crate::toolchain::functions(&path).into_iter().find(|(_, _, name)| name == "f").unwrap();
    let mut symbolizer = Symbolizer::with_debug_directories(Vec::new());
    let frames = symbolizer.c_frames(&path, &[], start + 9);
    assert_eq!((frames.len(), frames[depth].function.as_deref()), (depth + 1, Some("f")));
    assert_eq!(symbolizer.problems(), [""; 0]);
}

#[test]
fn many_functions_that_share_one_huge_range_list_are_refused() {
    let ranges = ".byte 2, 0x2e, 0, 0x55, 0x17, 0, 0";
    let functions = ".rept 40000\n.byte 2\n.4byte 0\n.endr";
    let list = ".section .debug_ranges,\"\",%progbits\n\
                .rept 40000\n.8byte 0x100000, 0x200000\n.endr\n.8byte 0, 0";
    let (_directory, path) = with_debug_info(ranges, functions, list);
    assert!(problem_at_f(&path).contains("without end"));
}

#[test]
fn entries_of_many_empty_attributes_are_refused() {
    let wide = ".byte 2, 0x34, 0\n.rept 50000\n.byte 0x3f, 0x19\n.endr\n.byte 0, 0";
    let (_directory, path) = with_debug_info(wide, ".rept 50000\n.byte 2\n.endr", "");
    assert!(problem_at_f(&path).contains("50000 attributes"));
}

#[test]
fn a_section_that_claims_to_unpack_to_more_than_it_can_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("packed");
    let packed = real_program(&["-g", "-O2", "-gz=zlib"]);
    std::fs::write(&path, &packed).unwrap();
    let headers = run(Command::new("readelf").args(["-SW"]).arg(&path));
    let line = headers.lines().find(|line| line.contains(" .debug_info ")).unwrap();
    let fields: Vec<&str> = line.split(']').next_back().unwrap().split_whitespace().collect();
    let offset = usize::from_str_radix(fields[3], 16).unwrap();
    for claimed in [1u64 << 24, 1 << 40, u64::MAX] {
        let mut bytes = packed.clone();
        // Elf64_Chdr: type, reserved, size, alignment.
        bytes[offset + 8..offset + 16].copy_from_slice(&claimed.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let problems = look_up(&path);
        assert!(problems.len() == 1 && problems[0].contains("more than"), "{problems:?}");
    }
}

#[test]
fn thousands_of_headers_for_the_same_bytes_are_not_read_thousands_of_times() {
    const HEADER: usize = 64;
    const NOTE: u32 = 7;
    let count = 60_000u16;
    let mut file = vec![0u8; HEADER];
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    file[16..18].copy_from_slice(&3u16.to_le_bytes());
    file[18..20].copy_from_slice(&62u16.to_le_bytes());
    file[20..24].copy_from_slice(&1u32.to_le_bytes());
    file[40..48].copy_from_slice(&(HEADER as u64).to_le_bytes());
    file[58..60].copy_from_slice(&64u16.to_le_bytes());
    file[60..62].copy_from_slice(&count.to_le_bytes());
    // Zeros read as notes without name or contents.
    let notes = HEADER as u64 + 64 * u64::from(count);
    const NOTES_SIZE: u64 = 12 * 100_000;
    for index in 0..u64::from(count) {
        let mut section = [0u8; 64];
        section[4..8].copy_from_slice(&NOTE.to_le_bytes());
        section[24..32].copy_from_slice(&notes.to_le_bytes());
        section[32..40].copy_from_slice(&(NOTES_SIZE - 12 * index).to_le_bytes());
        file.extend(section);
    }
    file.extend(std::iter::repeat_n(0, NOTES_SIZE as usize));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    std::fs::write(&path, file).unwrap();
    let problems = look_up(&path);
    assert!(problems.len() == 1 && problems[0].contains("note"), "{problems:?}");
}
