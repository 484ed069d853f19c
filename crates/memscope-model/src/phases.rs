//! What memory of a training is for, as far as only its end shows: by the phase its thread was in when it was allocated, and by what
//! happened until it was freed.
//!
//! * An **activation** is allocated in a forward pass, or after it for the loss, and used by a backward pass: one that began while
//!   it was alive or, where accesses are recorded, one that read it.
//! * A **temporary** is allocated and freed within one phase.
use crate::BlockId;
use rustc_hash::FxHashMap;

/// What a thread is about, by the label of its phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Forward,
    Backward,
    Optimizer,
}

impl Phase {
    pub(crate) fn from_label(text: &str) -> Option<Phase> {
        match text {
            "forward" => Some(Phase::Forward),
            "backward" => Some(Phase::Backward),
            "optimizer" => Some(Phase::Optimizer),
            _ => None,
        }
    }
}

/// What shows of a block at its end; its word is a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Activation,
    Temporary,
}

impl Purpose {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Purpose::Activation => "activation",
            Purpose::Temporary => "temporary",
        }
    }
}

/// The phases of all threads, and what was allocated in them.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    threads: FxHashMap<u32, OfThread>,
    /// How many phases and how many backward passes have begun.
    begun: u64,
    backwards: u64,
    /// Threads that wait for a backward pass.
    waiting: Vec<u32>,
    made: FxHashMap<BlockId, Made>,
    reads_are_known: bool,
}

#[derive(Debug, Default)]
struct OfThread {
    /// Outermost first. Who opens phases and never closes them has no use for more than a few.
    open: Vec<Phase>,
    /// The number of the outermost.
    number: u64,
    /// A forward pass was over and no backward pass has begun.
    is_after_forward: bool,
}

const MOST_OPEN: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Made {
    thread: u32,
    /// The phase it was made in.
    number: u64,
    may_be_activation: bool,
    /// Backward passes that had begun before.
    backwards: u64,
    is_read_in_backward: bool,
}

impl Phases {
    pub(crate) fn start(&mut self, thread: u32, phase: Phase) {
        let of = self.threads.entry(thread).or_default();
        if of.open.len() >= MOST_OPEN {
            return;
        }
        if of.open.is_empty() {
            self.begun += 1;
            of.number = self.begun;
        }
        of.open.push(phase);
        if phase == Phase::Backward {
            of.is_after_forward = false;
            self.backwards += 1;
            if !self.waiting.contains(&thread) {
                self.waiting.push(thread);
            }
        }
    }

    pub(crate) fn end(&mut self, thread: u32, phase: Phase) {
        let Some(of) = self.threads.get_mut(&thread) else { return };
        let Some(place) = of.open.iter().rposition(|open| *open == phase) else { return };
        // What was left open inside it has ended, too.
        of.open.truncate(place);
        of.is_after_forward |= phase == Phase::Forward && !of.open.contains(&Phase::Backward);
        if !of.open.contains(&Phase::Backward) {
            self.waiting.retain(|waiting| *waiting != thread);
        }
    }

    /// The thread that a thread without phases of its own works for: autograd's threads run what one in a backward pass waits for.
    pub(crate) fn waits_for(&self, thread: u32) -> Option<u32> {
        match *self.waiting {
            [waiting] if !self.threads.contains_key(&thread) => Some(waiting),
            _ => None,
        }
    }

    pub(crate) fn is_waiting(&self, thread: u32) -> bool {
        self.waiting.contains(&thread)
    }

    fn acting(&self, thread: u32) -> u32 {
        self.waits_for(thread).unwrap_or(thread)
    }

    pub(crate) fn allocated(&mut self, block: BlockId, thread: u32) {
        let thread = self.acting(thread);
        let Some(of) = self.threads.get(&thread) else { return };
        if of.open.is_empty() && !of.is_after_forward {
            return;
        }
        let is_forward = of.is_after_forward || of.open.contains(&Phase::Forward);
        let made = Made {
            thread,
            number: if of.open.is_empty() { 0 } else { of.number },
            may_be_activation: is_forward && !of.open.contains(&Phase::Backward),
            backwards: self.backwards,
            is_read_in_backward: false,
        };
        self.made.insert(block, made);
    }

    /// An operator reads it.
    pub(crate) fn read(&mut self, block: BlockId, thread: u32) {
        self.reads_are_known = true;
        let of = self.threads.get(&self.acting(thread));
        if of.is_some_and(|of| of.open.contains(&Phase::Backward))
            && let Some(made) = self.made.get_mut(&block)
        {
            made.is_read_in_backward = true;
        }
    }

    pub(crate) fn freed(&mut self, block: BlockId) -> Option<Purpose> {
        if self.made.is_empty() {
            return None;
        }
        let made = self.made.remove(&block)?;
        if self.is_activation(&made) {
            return Some(Purpose::Activation);
        }
        let of = self.threads.get(&made.thread)?;
        (made.number != 0 && of.number == made.number && !of.open.is_empty()).then_some(Purpose::Temporary)
    }

    fn is_activation(&self, made: &Made) -> bool {
        made.may_be_activation
            && match self.reads_are_known {
                true => made.is_read_in_backward,
                false => self.backwards > made.backwards,
            }
    }

    /// At the end: what is alive and shows all the same.
    pub(crate) fn alive(&mut self) -> Vec<BlockId> {
        let made = std::mem::take(&mut self.made);
        made.iter().filter(|(_, made)| self.is_activation(made)).map(|(block, _)| *block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Backward, Forward, Optimizer};

    const MAIN: u32 = 1;
    const AUTOGRAD: u32 = 2;

    fn block(number: u64) -> BlockId {
        BlockId(number)
    }

    #[test]
    fn what_lives_from_forward_into_backward_is_an_activation_and_what_goes_before_a_temporary() {
        let mut phases = Phases::default();
        phases.allocated(block(1), MAIN);
        phases.start(MAIN, Forward);
        (2..5).for_each(|number| phases.allocated(block(number), MAIN));
        assert_eq!(phases.freed(block(2)), Some(Purpose::Temporary));
        phases.end(MAIN, Forward);
        // For the loss.
        (5..7).for_each(|number| phases.allocated(block(number), MAIN));
        assert_eq!((phases.freed(block(3)), phases.freed(block(5))), (None, None));
        phases.start(MAIN, Backward);
        phases.allocated(block(7), MAIN);
        assert_eq!(
            [4, 6, 7].map(|number| phases.freed(block(number))),
            [Some(Purpose::Activation), Some(Purpose::Activation), Some(Purpose::Temporary)]
        );
        phases.allocated(block(8), MAIN);
        phases.end(MAIN, Backward);
        phases.allocated(block(9), MAIN);
        assert_eq!([1, 8, 9].map(|number| phases.freed(block(number))), [None; 3]);
    }

    #[test]
    fn where_reads_are_known_only_what_a_backward_pass_reads_is_an_activation() {
        let mut phases = Phases::default();
        phases.start(MAIN, Forward);
        (1..4).for_each(|number| phases.allocated(block(number), MAIN));
        phases.read(block(1), MAIN);
        phases.end(MAIN, Forward);
        phases.start(MAIN, Backward);
        phases.read(block(2), AUTOGRAD);
        phases.end(MAIN, Backward);
        assert_eq!(phases.freed(block(1)), None);
        assert_eq!(phases.freed(block(2)), Some(Purpose::Activation));
        assert!(phases.alive().is_empty());
    }

    #[test]
    fn autograd_works_for_the_one_thread_that_waits() {
        let mut phases = Phases::default();
        phases.start(MAIN, Backward);
        assert_eq!((phases.waits_for(AUTOGRAD), phases.waits_for(MAIN)), (Some(MAIN), None));
        phases.allocated(block(1), AUTOGRAD);
        assert_eq!(phases.freed(block(1)), Some(Purpose::Temporary));
        phases.start(3, Backward);
        assert_eq!(phases.waits_for(AUTOGRAD), None);
        phases.end(3, Backward);
        phases.end(MAIN, Backward);
        assert_eq!(phases.waits_for(AUTOGRAD), None);
    }

    #[test]
    fn a_forward_pass_that_backward_runs_again_makes_temporaries() {
        let mut phases = Phases::default();
        phases.start(MAIN, Backward);
        phases.start(MAIN, Forward);
        phases.allocated(block(1), MAIN);
        phases.end(MAIN, Forward);
        phases.start(MAIN, Backward);
        assert_eq!(phases.freed(block(1)), Some(Purpose::Temporary));
        phases.end(MAIN, Backward);
        phases.end(MAIN, Backward);
        phases.start(MAIN, Optimizer);
        phases.allocated(block(2), MAIN);
        assert_eq!(phases.freed(block(2)), Some(Purpose::Temporary));
    }

    #[test]
    fn an_end_ends_what_was_left_open_inside_and_one_without_a_start_says_nothing() {
        let mut phases = Phases::default();
        phases.start(MAIN, Backward);
        phases.start(MAIN, Forward);
        phases.end(MAIN, Backward);
        phases.end(MAIN, Forward);
        phases.allocated(block(1), MAIN);
        assert_eq!(phases.freed(block(1)), None);
        (0..1000).for_each(|_| phases.start(MAIN, Forward));
        assert!(phases.threads.values().all(|of| of.open.len() <= MOST_OPEN));
    }

    #[test]
    fn activations_that_are_never_freed_show_at_the_end() {
        let mut phases = Phases::default();
        phases.start(MAIN, Forward);
        phases.allocated(block(1), MAIN);
        phases.end(MAIN, Forward);
        phases.start(MAIN, Backward);
        phases.allocated(block(2), MAIN);
        assert_eq!(phases.alive(), [block(1)]);
    }
}
