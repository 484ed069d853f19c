//! Whether torch's objects are laid out as we think.
//!
//! What can be asked of torch itself is asked of each operator when it is first called: its name, how many arguments and
//! results it has. Of tensors nothing can be asked without changing the program, so their parts are held against each other:
//! the number of elements is the product of the sizes, addresses can be read, types and devices exist.
use crate::operator::Facts;
use crate::record_function::RecordFunction;
use crate::tensor::Seen;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// How far what is read is believed.
pub struct Trust {
    /// Tensors that were as they should be, and others.
    right: AtomicU32,
    odd: AtomicU32,
    state: AtomicU32,
}

const UNPROVEN: u32 = 0;
const PROVEN: u32 = 1;
const REFUTED: u32 = 2;

/// So many tensors are looked at with care.
const PROOFS: u32 = 64;

impl Trust {
    pub const fn new() -> Trust {
        Trust { right: AtomicU32::new(0), odd: AtomicU32::new(0), state: AtomicU32::new(UNPROVEN) }
    }

    #[inline(always)]
    pub fn is_proven(&self) -> bool {
        self.state.load(Relaxed) == PROVEN
    }

    /// Nothing but names is believed any more.
    #[inline(always)]
    pub fn is_refuted(&self) -> bool {
        self.state.load(Relaxed) == REFUTED
    }

    #[cold]
    pub fn refute(&self) {
        self.state.store(REFUTED, Relaxed);
    }

    /// Takes a tensor into account. One whose sizes are expressions may look odd, and is not what most look like.
    #[inline(always)]
    pub(crate) fn note(&self, seen: &Seen<'_>) {
        if !self.is_proven() {
            self.weigh(seen);
        }
    }

    #[cold]
    fn weigh(&self, seen: &Seen<'_>) {
        match seen {
            // A tensor of one element proves little.
            Seen::Memory(tensor) if tensor.dimensions.iter().any(|size| *size > 1) => self.right.fetch_add(1, Relaxed),
            Seen::Odd => self.odd.fetch_add(1, Relaxed),
            _ => return,
        };
        let (right, odd) = (self.right.load(Relaxed), self.odd.load(Relaxed));
        if right + odd >= PROOFS && !self.is_refuted() {
            self.state.store(if odd * 4 > right { REFUTED } else { PROVEN }, Relaxed);
        }
    }
}

impl Default for Trust {
    fn default() -> Trust {
        Trust::new()
    }
}

impl RecordFunction<'_> {
    /// What there is to know of the operator of this call, seen for the first time; `None` if it is not what torch says of it.
    #[cold]
    pub fn facts(&self) -> Option<Facts> {
        let schema = self.schema()?;
        let functions = &self.torch.functions;
        if !schema.can_be_read() || schema.name() != self.name() {
            return None;
        }
        // SAFETY: torch's own functions, asked of its own object.
        let (inputs, outputs) =
            unsafe { ((functions.number_of_inputs)(self.address()), (functions.number_of_outputs)(self.address())) };
        let facts = Facts::of(self, &schema)?;
        (facts.arguments() == inputs && facts.results() == outputs).then_some(facts)
    }
}
