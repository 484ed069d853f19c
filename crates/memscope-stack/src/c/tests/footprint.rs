//! How much memory a lane's stacks take.
use super::{Definitions, hooked};
use crate::c::CStack;
use crate::tree::Tree;
use core::ffi::c_void;
use std::hint::black_box;

const PAGE: usize = 4096;

/// What a lane has for its stacks.
#[repr(C)]
struct Tables {
    tree: Tree,
    stack: CStack,
}

struct Capture {
    tables: *mut Tables,
    definitions: Definitions,
}

extern "C" fn capture(context: *mut c_void, sp: usize, fp: usize) {
    // SAFETY: `recurse` passes a capture nobody else uses meanwhile, and the state at entry.
    unsafe {
        let Capture { tables, definitions } = &mut *context.cast::<Capture>();
        let Tables { tree, stack } = &mut **tables;
        stack.capture(sp, fp, 50, tree, definitions);
    }
}

#[inline(never)]
fn recurse(capture_state: &mut Capture, level: usize, way: usize) {
    match (level, way & 1) {
        // SAFETY: `capture` expects this state.
        (0, _) => unsafe { hooked((&raw mut *capture_state).cast(), capture) },
        (_, 0) => recurse(capture_state, level - 1, way >> 1),
        _ => recurse(capture_state, level - 1, way >> 1),
    }
    black_box(level);
}

fn resident_pages(start: usize, length: usize) -> usize {
    let mut pages = vec![0u8; length.div_ceil(PAGE)];
    // SAFETY: asks about memory of the test's own.
    assert_eq!(unsafe { libc::mincore(start as *mut c_void, length, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

#[test]
fn a_lane_with_few_stacks_touches_few_pages() {
    crate::c::initialise();
    let length = size_of::<Tables>().next_multiple_of(PAGE);
    let memory = memscope_sys::map_anonymous(length).unwrap();
    let mut state = Capture { tables: memory.as_ptr().cast(), definitions: Definitions::default() };
    assert_eq!(resident_pages(memory.as_ptr() as usize, length), 0);
    for way in 0..8 {
        recurse(&mut state, 12, way * 5);
    }
    let touched = resident_pages(memory.as_ptr() as usize, length);
    // One for each table, and another where it crosses the end of a page.
    assert!(touched <= 12, "{touched}");
}
