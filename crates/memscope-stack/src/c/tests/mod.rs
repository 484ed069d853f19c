//! Captures compared, frame by frame, with those of the C++ runtime's unwinder at the same point.
mod footprint;
mod incremental;
mod search;
mod shapes;
mod surroundings;
mod tables;

use super::{CStack, Tree};
use crate::{CodeDefinition, DefinitionSink, Frame, ModuleDefinition, NodeId};
use core::ffi::{c_int, c_void};

/// Keeps definitions and checks the promises about their order.
#[derive(Default)]
struct Definitions {
    modules: Vec<(Vec<u8>, u64, Vec<u8>)>,
    nodes: Vec<(NodeId, Frame)>,
    /// Nodes up to this one may not be referred to any more.
    forgotten: usize,
}

impl DefinitionSink for Definitions {
    fn module(&mut self, module: &ModuleDefinition<'_>) {
        assert_eq!(module.id as usize, self.modules.len());
        assert!(module.start < module.end);
        self.modules.push((module.path.to_vec(), module.bias, module.build_id.to_vec()));
    }

    fn code(&mut self, _: &CodeDefinition<'_>) {
        panic!("no Python here");
    }

    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame) {
        assert_eq!(id.0 as usize, self.nodes.len() + 1);
        assert!(parent.0 < id.0);
        self.nodes.push((parent, frame));
    }
}

impl Definitions {
    /// Return addresses, innermost first.
    fn chain(&self, mut node: NodeId) -> Vec<usize> {
        let mut addresses = Vec::new();
        while node != NodeId::NONE {
            assert!(node.0 as usize > self.forgotten);
            let (parent, frame) = self.nodes[node.0 as usize - 1];
            addresses.push(match frame {
                Frame::C { module, offset } => (self.modules[module as usize].1 + offset) as usize,
                Frame::Unknown { address } => address as usize,
                other => panic!("{other:?}"),
            });
            node = parent;
        }
        addresses
    }
}

/// A lane as the recorder has it.
struct Lane {
    stack: Box<CStack>,
    tree: Tree,
    definitions: Definitions,
}

impl Lane {
    fn new() -> Lane {
        super::initialise();
        Lane { stack: zeroed_stack(), tree: Tree::new(), definitions: Definitions::default() }
    }

    /// # Safety
    /// As for [`CStack::capture`].
    unsafe fn capture(&mut self, sp: usize, fp: usize, depth: usize) -> Vec<usize> {
        // SAFETY: passed on.
        let node = unsafe { self.stack.capture(sp, fp, depth, &mut self.tree, &mut self.definitions) };
        let mut chain = self.definitions.chain(node);
        chain.truncate(depth);
        chain
    }
}

impl Lane {
    /// As the recorder does when the tree is full.
    fn forget_nodes(&mut self) {
        self.definitions.forgotten = self.definitions.nodes.len();
        self.tree.forget(0);
        self.stack.forget_nodes();
    }
}

fn zeroed_stack() -> Box<CStack> {
    // SAFETY: that zeroed memory is a valid CStack is one of its promises.
    unsafe { Box::<CStack>::new_zeroed().assume_init() }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_before_instruction: *mut c_int) -> usize;
}

/// The stack outwards from the frame that returns to `first`, by the other unwinder.
#[inline(never)]
fn reference_stack(first: usize) -> Vec<usize> {
    extern "C" fn visit(context: *mut c_void, addresses: *mut c_void) -> c_int {
        let mut is_before_instruction = 0;
        // SAFETY: the unwinder's own context, and the vector below.
        unsafe {
            let address = _Unwind_GetIPInfo(context, &mut is_before_instruction);
            if address != 0 {
                (*addresses.cast::<Vec<usize>>()).push(address + is_before_instruction as usize);
            }
        }
        0
    }
    let mut addresses = Vec::<usize>::new();
    // SAFETY: the callback gets what it expects and keeps nothing.
    unsafe { _Unwind_Backtrace(visit, (&raw mut addresses).cast()) };
    let skipped = addresses.iter().position(|&address| address == first).expect("the caller is on the stack");
    addresses.split_off(skipped)
}

/// What a test looks at; called with the state at entry of the function the test called.
type Observer = unsafe extern "C" fn(context: *mut c_void, sp: usize, fp: usize);

/// Stands for a hooked function: tells `observe` the stack pointer and frame pointer it was entered with.
#[unsafe(naked)]
unsafe extern "C" fn hooked(context: *mut c_void, observe: Observer) {
    core::arch::naked_asm!(".cfi_startproc", "mov rax, rsi", "mov rsi, rsp", "mov rdx, rbp", "jmp rax", ".cfi_endproc",)
}

/// A lane that goes on from capture to capture, compared each time with the reference and with a lane that begins.
struct Comparison {
    lane: Lane,
    depth: usize,
    captures: usize,
    deepest: usize,
    /// Costs the most time.
    with_a_fresh_lane: bool,
}

impl Comparison {
    fn new(depth: usize) -> Comparison {
        Comparison { lane: Lane::new(), depth, captures: 0, deepest: 0, with_a_fresh_lane: true }
    }

    /// So many captures, at least, were chains that had been kept.
    fn assert_followed(&self, least: usize) {
        let followed = self.lane.stack.followed;
        assert!(followed >= least, "{followed} of {}", self.captures);
    }

    /// Compares at the caller's point of the stack.
    #[inline(never)]
    fn here(&mut self) {
        let context: *mut Comparison = self;
        // SAFETY: `observe` gets a comparison nobody else uses meanwhile.
        unsafe { hooked(context.cast(), Comparison::observe) };
    }

    extern "C" fn observe(context: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: `here` passes a comparison and the state at entry, both valid until it returns.
        unsafe {
            let comparison = &mut *context.cast::<Comparison>();
            let depth = comparison.depth;
            let mut expected = reference_stack(*(sp as *const usize));
            comparison.deepest = comparison.deepest.max(expected.len());
            expected.truncate(depth);
            let incremental = comparison.lane.capture(sp, fp, depth);
            assert_eq!(incremental, expected, "incremental, capture {}", comparison.captures);
            if comparison.with_a_fresh_lane {
                assert_eq!(Lane::new().capture(sp, fp, depth), expected, "fresh, capture {}", comparison.captures);
            }
            comparison.captures += 1;
        }
    }
}

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}
