//! What a native stack costs: nanoseconds per capture at several depths, for an unchanged stack, for changing top
//! frames, and unwound from the beginning with warm rows. `cargo run --release --example c_capture_cost`.
#![allow(clippy::print_stdout)]
#[cfg(target_arch = "x86_64")]
mod cost {
    use core::ffi::c_void;
    use memscope_stack::c::{CStack, initialise};
    use memscope_stack::tree::Tree;
    use memscope_stack::{CodeDefinition, DefinitionSink, Frame, ModuleDefinition, NodeId};
    use std::hint::black_box;
    use std::time::Instant;

    /// Keeps only what is needed to count the frames of a stack.
    #[derive(Default)]
    struct Parents(Vec<NodeId>);

    impl DefinitionSink for Parents {
        fn module(&mut self, _: &ModuleDefinition<'_>) {}
        fn code(&mut self, _: &CodeDefinition<'_>) {}
        fn node(&mut self, _: NodeId, parent: NodeId, _: Frame) {
            self.0.push(parent);
        }
    }

    impl Parents {
        fn frames(&self, mut node: NodeId) -> usize {
            let mut count = 0;
            while let Some(&parent) = (node.0 as usize).checked_sub(1).and_then(|index| self.0.get(index)) {
                count += 1;
                node = parent;
            }
            count
        }
    }

    struct Bench {
        stack: Box<CStack>,
        tree: Tree,
        parents: Parents,
        forget: bool,
        depth: usize,
        last: NodeId,
    }

    type Observer = unsafe extern "C" fn(*mut c_void, usize, usize);

    #[unsafe(naked)]
    unsafe extern "C" fn hooked(context: *mut c_void, observe: Observer) {
        core::arch::naked_asm!("mov rax, rsi", "mov rsi, rsp", "mov rdx, rbp", "jmp rax")
    }

    unsafe extern "C" fn capture(context: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: `Bench::here` passes itself and the state at entry.
        unsafe {
            let bench = &mut *context.cast::<Bench>();
            if bench.forget {
                bench.stack.forget_last();
            }
            bench.last = bench.stack.capture(sp, fp, bench.depth, &mut bench.tree, &mut bench.parents);
        }
    }

    unsafe extern "C" fn nothing(context: *mut c_void, sp: usize, fp: usize) {
        black_box((context, sp, fp));
    }

    impl Bench {
        #[inline(always)]
        fn here(&mut self, observe: Observer) {
            // SAFETY: the observers above expect a bench.
            unsafe { hooked((&raw mut *self).cast(), observe) };
        }
    }

    #[inline(never)]
    fn leaf<const WHICH: usize>(bench: &mut Bench, observe: Observer) {
        bench.here(observe);
        black_box(WHICH);
    }

    #[inline(never)]
    fn via<const WHICH: usize>(bench: &mut Bench, observe: Observer, level: usize) {
        if level == 0 {
            leaf::<WHICH>(bench, observe);
        } else {
            via::<WHICH>(bench, observe, level - 1);
        }
        black_box(level);
    }

    /// Calls `run` with `frames` more frames on the stack, like an application whose functions keep things in registers.
    #[inline(never)]
    fn deep(frames: usize, run: &mut dyn FnMut()) {
        if frames == 0 {
            run();
        } else {
            let kept = [black_box(frames), black_box(frames + 1), black_box(frames + 2)];
            deep(frames - 1, run);
            black_box(kept);
        }
    }

    /// Short batches, the best of many: the machine may be busy with other things.
    const ROUNDS: usize = 2_000;

    fn nanoseconds(mut once: impl FnMut(usize)) -> f64 {
        let mut best = f64::MAX;
        for _ in 0..100 {
            let start = Instant::now();
            for round in 0..ROUNDS {
                once(round);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
        }
        best
    }

    pub(crate) fn print() {
        initialise();
        let mut bench = Bench {
            stack: Box::new(CStack::new()),
            tree: Tree::new(),
            parents: Parents::default(),
            forget: false,
            depth: 1000,
            last: NodeId::NONE,
        };
        println!("frames   unchanged   top 2 alternate   top 6 alternate   unwound anew   (ns per capture)");
        for extra in [0, 5, 20, 40] {
            let mut figures = [0.0; 4];
            deep(extra, &mut || {
                let bare = nanoseconds(|_| leaf::<0>(&mut bench, nothing));
                let bare_alternating = nanoseconds(|round| match round % 2 {
                    0 => leaf::<0>(&mut bench, nothing),
                    _ => leaf::<1>(&mut bench, nothing),
                });
                let bare_six = nanoseconds(|round| match round % 2 {
                    0 => via::<0>(&mut bench, nothing, 3),
                    _ => via::<1>(&mut bench, nothing, 3),
                });
                figures[0] = nanoseconds(|_| leaf::<0>(&mut bench, capture)) - bare;
                figures[1] = nanoseconds(|round| match round % 2 {
                    0 => leaf::<0>(&mut bench, capture),
                    _ => leaf::<1>(&mut bench, capture),
                }) - bare_alternating;
                figures[2] = nanoseconds(|round| match round % 2 {
                    0 => via::<0>(&mut bench, capture, 3),
                    _ => via::<1>(&mut bench, capture, 3),
                }) - bare_six;
                bench.forget = true;
                figures[3] = nanoseconds(|_| leaf::<0>(&mut bench, capture)) - bare;
                bench.forget = false;
            });
            let [unchanged, two, six, anew] = figures;
            let frames = bench.parents.frames(bench.last);
            println!("{frames:6}   {unchanged:9.1}   {two:15.1}   {six:15.1}   {anew:12.1}");
        }
    }
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    cost::print();
}
