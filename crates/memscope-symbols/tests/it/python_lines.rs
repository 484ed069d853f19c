//! Line tables against what the interpreters themselves say.
use std::path::{Path, PathBuf};
use std::process::Command;

use memscope_symbols::python_line;
use proptest::prelude::*;

const DUMP_LINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/dump_lines.py");

/// Large modules with every kind of statement; present in all versions.
const MODULES: [&str; 4] = ["argparse", "inspect", "typing", "asyncio.base_events"];

struct Code {
    version: u16,
    first_line: u32,
    length: u32,
    table: Vec<u8>,
    /// (offset, line from there on)
    changes: Vec<(u32, Option<u32>)>,
}

fn parse(line: &str) -> Code {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [version, first_line, length, table, changes] = fields[..] else { panic!("odd line: {line}") };
    let bytes = if table == "-" { "" } else { table };
    Code {
        version: u16::from_str_radix(version.trim_start_matches("0x"), 16).unwrap(),
        first_line: first_line.parse().unwrap(),
        length: length.parse().unwrap(),
        table: (0..bytes.len()).step_by(2).map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap()).collect(),
        changes: changes
            .split(',')
            .map(|change| {
                let (offset, line) = change.split_once(':').unwrap();
                (offset.parse().unwrap(), line.parse().ok())
            })
            .collect(),
    }
}

/// Compares every instruction; returns how many there were.
fn assert_lines_agree(code: &Code) -> u32 {
    let mut changes = code.changes.iter().copied().peekable();
    let mut expected = None;
    for offset in (0..code.length).step_by(2) {
        if let Some((_, line)) = changes.next_if(|&(start, _)| start == offset) {
            expected = line;
        }
        let found = python_line(code.version, code.first_line, &code.table, offset);
        assert_eq!(found, expected, "{:#x}, first line {}, offset {offset}", code.version, code.first_line);
    }
    assert!(changes.next().is_none(), "a change lies past the code");
    code.length / 2
}

fn interpreters() -> Vec<PathBuf> {
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    let versions = pyenv.and_then(|root| std::fs::read_dir(root.join("versions")).ok()).into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin/python3")).filter(|python| python.exists());
    std::iter::once(PathBuf::from("python3")).chain(installed).collect()
}

/// `None` if there is no such interpreter or its tables are of a version we do not decode.
fn dump_from(python: &Path) -> Option<String> {
    let supported = "import sys, ctypes; sys.exit(not 0x0306 <= sys.hexversion >> 16 <= 0x030e)";
    if !Command::new(python).args(["-c", supported]).output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    let output = Command::new(python).args(["-W", "ignore", DUMP_LINES]).args(MODULES).output().unwrap();
    assert!(output.status.success(), "{}: {}", python.display(), String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_instruction_of_the_standard_library_has_the_line_its_interpreter_says() {
    for python in interpreters() {
        let Some(dump) = dump_from(&python) else { continue };
        let instructions: u32 = dump.lines().map(|line| assert_lines_agree(&parse(line))).sum();
        assert!(instructions > 10_000, "{} dumped only {instructions} instructions", python.display());
    }
}

#[test]
fn committed_tables_of_every_version_decode_to_the_lines_recorded_with_them() {
    let codes: Vec<Code> = include_str!("../python/golden.txt").lines().map(parse).collect();
    for version in 0x0309..=0x030d {
        let instructions: u32 = codes.iter().filter(|code| code.version == version).map(assert_lines_agree).sum();
        assert!(instructions > 200, "{version:#x}: {instructions}");
    }
}

#[test]
fn version_3_14_reads_the_table_of_3_13() {
    for mut code in include_str!("../python/golden.txt").lines().map(parse).filter(|code| code.version == 0x030d) {
        code.version = 0x030e;
        assert_lines_agree(&code);
    }
}

#[test]
fn an_instruction_past_the_table_has_no_line_where_the_table_knows_its_end() {
    assert_eq!(python_line(0x0309, 5, &[], u32::MAX), Some(5));
    assert_eq!(python_line(0x030a, 5, &[2, 0], 2), None);
    assert_eq!(python_line(0x030b, 5, &[0x80, 0], 2), None);
    assert_eq!(python_line(0x030b, 5, &[], 0), None);
}

#[test]
fn an_unknown_version_gives_no_line_rather_than_a_wrong_one() {
    for version in [0, 0x0207, 0x0305, 0x030f, 0x0400, u16::MAX] {
        assert_eq!(python_line(version, 5, &[2, 0, 2, 0], 0), None, "{version:#x}");
    }
}

#[test]
fn a_line_below_zero_is_no_line() {
    assert_eq!(python_line(0x0309, 1, &[0, 0x80, 0, 0x80], 0), None);
    // Form 13 with a change of -32.
    assert_eq!(python_line(0x030b, 5, &[0xe8, 0x41, 0x01], 0), None);
}

proptest! {
    #[test]
    fn any_bytes_decode_without_panic(
        version in 0x0306u16..=0x030e,
        first_line: u32,
        table in proptest::collection::vec(any::<u8>(), 0..300),
        instruction: u32,
    ) {
        let _ = python_line(version, first_line, &table, instruction);
        let near = python_line(version, first_line, &table, instruction % 512);
        prop_assert_eq!(near, python_line(version, first_line, &table, instruction % 512));
    }

    /// What 3.11 writes for a list of (units, line change), decoded again.
    #[test]
    fn locations_round_trip(runs in proptest::collection::vec((1u32..=8, -5000i32..5000), 1..40)) {
        let (mut table, mut line, mut expected) = (Vec::new(), 1_000_000i64, Vec::new());
        for &(units, change) in &runs {
            table.push(0x80 | 13 << 3 | (units - 1) as u8);
            let mut value = change.unsigned_abs() << 1 | u32::from(change < 0);
            while value >= 0x40 {
                table.push(0x40 | (value & 0x3f) as u8);
                value >>= 6;
            }
            table.push(value as u8);
            line += i64::from(change);
            expected.extend(std::iter::repeat_n(line as u32, units as usize));
        }
        for (unit, &line) in expected.iter().enumerate() {
            prop_assert_eq!(python_line(0x030c, 1_000_000, &table, 2 * unit as u32), Some(line));
        }
        prop_assert_eq!(python_line(0x030c, 1_000_000, &table, 2 * expected.len() as u32), None);
    }
}
