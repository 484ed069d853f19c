//! Unwind tables of real objects, whole and damaged.
use super::super::cfi::{Found, Registers, Tables};
use super::super::modules::Modules;
use super::super::objects::LoadedModule;
use super::super::row::Row;
use super::Random;

const REGISTERS: Registers =
    Registers { frame_pointer: 6, stack_pointer: 7, return_address: 16, return_address_at: -8 };

fn object_with(address: usize) -> LoadedModule {
    *Modules::new().at(address).expect("a loaded object")
}

fn tables_of(module: &LoadedModule) -> Tables {
    assert_ne!(module.unwind_header, 0);
    Tables { header: module.unwind_header, start: module.unwind_start, end: module.unwind_end }
}

/// Where the functions of the sorted table begin.
fn function_starts(tables: &Tables) -> Vec<usize> {
    // SAFETY: a loaded object's header: four bytes, the frames' address, the count, then pairs.
    unsafe {
        let words = tables.header as *const i32;
        let count = words.add(2).read() as usize;
        (0..count).map(|i| tables.header.wrapping_add_signed(words.add(3 + 2 * i).read() as isize)).collect()
    }
}

#[test]
fn all_functions_of_the_c_library_and_the_program_have_a_row() {
    for address in [libc::qsort as *const () as usize, function_starts as *const () as usize] {
        let module = object_with(address);
        let tables = tables_of(&module);
        let starts = function_starts(&tables);
        assert!(starts.len() > 1000);
        let usable = |pc: usize| match tables.find(pc, REGISTERS) {
            Found::Row(row) => row.is_steppable() || row == Row::END,
            Found::SignalFrame => true,
            Found::Nothing => false,
        };
        let without = starts.iter().filter(|&&start| !usable(start)).count();
        assert_eq!(without, 0, "of {}", starts.len());
    }
}

#[test]
fn addresses_before_and_behind_the_code_have_no_row() {
    let module = object_with(libc::qsort as *const () as usize);
    let tables = tables_of(&module);
    for pc in [0, tables.start, usize::MAX] {
        assert!(tables.find(pc, REGISTERS) == Found::Nothing);
    }
}

/// The segment with the tables, moved: all addresses in it are relative, so it describes moved code.
struct Moved {
    bytes: Vec<u8>,
    tables: Tables,
    by: usize,
}

fn moved(original: &Tables) -> Moved {
    let length = original.end - original.start;
    // SAFETY: a readable segment of a loaded object.
    let bytes = unsafe { core::slice::from_raw_parts(original.start as *const u8, length) }.to_vec();
    let start = bytes.as_ptr() as usize;
    let by = start.wrapping_sub(original.start);
    Moved { tables: Tables { header: original.header.wrapping_add(by), start, end: start + length }, bytes, by }
}

#[test]
fn damaged_tables_give_an_answer() {
    let module = object_with(libc::qsort as *const () as usize);
    let original = tables_of(&module);
    let starts = function_starts(&original);
    let mut copy = moved(&original);
    let mut random = Random(3);
    for _ in 0..200 {
        let pc = starts[random.below(starts.len())];
        assert!(copy.tables.find(pc.wrapping_add(copy.by), REGISTERS) == original.find(pc, REGISTERS));
    }
    let unwind_at = original.header - original.start;
    let mut rows = 0;
    for round in 0..20_000 {
        // Ever more damage, in the header and its table, too.
        let at = match round % 8 {
            0 => unwind_at + random.below(64),
            _ => unwind_at + random.below(copy.bytes.len() - unwind_at),
        };
        let before = copy.bytes[at];
        copy.bytes[at] = random.below(256) as u8;
        let pc = starts[random.below(starts.len())].wrapping_add(copy.by).wrapping_add(random.below(40));
        rows += usize::from(matches!(copy.tables.find(pc, REGISTERS), Found::Row(_)));
        // Damage to the first bytes would hide all the rest.
        if at < unwind_at + 64 {
            copy.bytes[at] = before;
        }
    }
    assert!(rows > 1000);
}

#[test]
fn truncated_tables_give_an_answer() {
    let module = object_with(libc::qsort as *const () as usize);
    let original = tables_of(&module);
    let pc = function_starts(&original)[100];
    let copy = moved(&original);
    let header_at = copy.tables.header - copy.tables.start;
    for length in (header_at..header_at + 64).chain((header_at..copy.bytes.len()).step_by(997)) {
        let exact = copy.bytes[..length].to_vec().into_boxed_slice();
        let start = exact.as_ptr() as usize;
        let tables = Tables { header: start + header_at, start, end: start + length };
        let by = start.wrapping_sub(original.start);
        let found = tables.find(pc.wrapping_add(by), REGISTERS);
        assert!(found == Found::Nothing || found == original.find(pc, REGISTERS) || found == Found::Row(Row::UNKNOWN));
    }
}
