//! Which operator or kernel a block was made for.
use memscope_model::{BlockId, Device, KernelPhase, Name, NameId, NoteEvent, NoteKind, Phase};
use rustc_hash::FxHashMap;

/// What threads are at. A block is made for the operator that is open on its thread; else for the newest kernel its thread
/// launched; else, since frameworks launch from threads of their own, for the newest kernel of its device.
#[derive(Clone, Debug, Default)]
pub(super) struct Operators {
    threads: FxHashMap<u32, Thread>,
    devices: FxHashMap<Device, NameId>,
    /// Of live blocks, as far as there is one.
    of_blocks: FxHashMap<BlockId, NameId>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    open: Vec<NameId>,
    kernel: Option<NameId>,
}

impl Operators {
    /// Deeper than graphs in graphs are; operators that are left by an exception never end.
    const MOST_OPEN: usize = 1 << 10;

    pub(super) fn see(&mut self, note: &NoteEvent<'_>) {
        match note.kind {
            NoteKind::Kernel { phase: KernelPhase::Launch, name: Some(name), .. }
            | NoteKind::AtbKernel { phase: Phase::Start, name: Some(name), .. } => {
                self.threads.entry(note.at.thread).or_default().kernel = Some(name.id);
                self.devices.insert(note.device, name.id);
            }
            NoteKind::AtbOperator { phase, operator } => self.turn(note.at.thread, phase, operator.name),
            NoteKind::AtenOperator { phase, name, .. } => self.turn(note.at.thread, phase, name),
            _ => {}
        }
    }

    /// An operator begins or ends on a thread.
    fn turn(&mut self, thread: u32, phase: Phase, name: Option<Name<'_>>) {
        let open = &mut self.threads.entry(thread).or_default().open;
        match (phase, name) {
            (Phase::Start, Some(name)) => {
                if open.len() == Self::MOST_OPEN {
                    open.clear();
                }
                open.push(name.id);
            }
            // Those begun within it and not ended were left by an exception.
            (Phase::End, Some(name)) => {
                if let Some(place) = open.iter().rposition(|other| *other == name.id) {
                    open.truncate(place);
                }
            }
            (_, None) => {}
        }
    }

    /// What a block that the thread makes now is made for. Kernels are nothing to host memory.
    #[inline]
    pub(super) fn current(&self, device: Device, thread: u32) -> Option<NameId> {
        if self.threads.is_empty() {
            return None;
        }
        let thread = self.threads.get(&thread);
        let operator = thread.and_then(|thread| thread.open.last().copied());
        if operator.is_some() || device == Device::Cpu {
            return operator;
        }
        thread.and_then(|thread| thread.kernel).or_else(|| self.devices.get(&device).copied())
    }

    #[inline]
    pub(super) fn made(&mut self, block: BlockId, device: Device, thread: u32) {
        if let Some(name) = self.current(device, thread) {
            self.of_blocks.insert(block, name);
        }
    }

    #[inline]
    pub(super) fn freed(&mut self, block: BlockId) -> Option<NameId> {
        if self.of_blocks.is_empty() { None } else { self.of_blocks.remove(&block) }
    }

    pub(super) fn of(&self, block: BlockId) -> Option<NameId> {
        self.of_blocks.get(&block).copied()
    }
}
