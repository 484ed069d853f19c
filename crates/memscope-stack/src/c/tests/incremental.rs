//! What was remembered from one capture to the next never shows.
use super::shapes::{self, Callback, EscapePoint, Shape};
use super::{Comparison, Random, hooked, reference_stack};
use core::ffi::c_void;
use core::ptr::null_mut;

/// So often a loop must go round for its stacks to be followed as chains: they are noted, kept, then followed.
const ROUNDS: usize = 4;

/// Calls `shapes` one within the other with their parameters, innermost last, and compares at the innermost point.
struct Path<'a> {
    comparison: &'a mut Comparison,
    rest: &'a [(Shape, usize)],
}

fn follow(comparison: &mut Comparison, path: &[(Shape, usize)]) {
    let mut path = Path { comparison, rest: path };
    // SAFETY: `next` gets the path it expects.
    unsafe { next((&raw mut path).cast()) };
}

unsafe extern "C" fn next(context: *mut c_void) {
    // SAFETY: `follow` passes a path that outlives the calls.
    let path = unsafe { &mut *context.cast::<Path<'_>>() };
    match path.rest.split_first() {
        None => path.comparison.here(),
        Some((&(shape, parameter), rest)) => {
            path.rest = rest;
            // SAFETY: shapes call `next` with the same path.
            unsafe { shape(next, context, parameter) };
            // Something left to do, or the compiler might jump instead of calling.
            std::hint::black_box(rest);
        }
    }
}

#[test]
fn stacks_that_differ_in_an_outer_frame_only() {
    const STACKS: usize = 600;
    let mut comparison = Comparison::new(1000);
    comparison.with_a_fresh_lane = false;
    let inner: Vec<_> = shapes::ALL.into_iter().cycle().take(20).map(|shape| (shape, 3)).collect();
    let mut random = Random(11);
    for _ in 0..STACKS {
        // The same slots whoever calls.
        match random.below(9) {
            0 => follow(&mut comparison, &inner),
            1 => follow(&mut comparison, &inner),
            2 => follow(&mut comparison, &inner),
            3 => follow(&mut comparison, &inner),
            4 => follow(&mut comparison, &inner),
            5 => follow(&mut comparison, &inner),
            6 => follow(&mut comparison, &inner),
            7 => follow(&mut comparison, &inner),
            // Part of it, and more than it.
            _ => {
                follow(&mut comparison, &inner[..random.below(inner.len())]);
                follow(&mut comparison, &[&inner[..], &inner[..4]].concat());
            }
        }
    }
    comparison.assert_followed(STACKS / 2);
}

/// A hook that has been entered, and what it calls, where stacks are captured.
struct Around<'a> {
    comparison: &'a mut Comparison,
    inner: &'a [(Shape, usize)],
    known: usize,
}

impl Around<'_> {
    #[inline(never)]
    fn here(&mut self) {
        // SAFETY: `observe` gets what it expects, and nobody else uses it meanwhile.
        unsafe { hooked((&raw mut *self).cast(), Around::observe) };
    }

    extern "C" fn observe(context: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: `here` passes this type and the state at entry, both valid until it returns.
        unsafe {
            let around = &mut *context.cast::<Around<'_>>();
            follow(around.comparison, around.inner);
            let depth = around.comparison.depth;
            let lane = &mut around.comparison.lane;
            if let Some(node) = lane.stack.outward_from(sp, fp, depth) {
                let mut expected = reference_stack(*(sp as *const usize));
                let mut chain = lane.definitions.chain(node);
                expected.truncate(depth);
                chain.truncate(depth);
                assert_eq!(chain, expected);
                around.known += 1;
            }
        }
    }
}

unsafe extern "C" fn around(context: *mut c_void) {
    // SAFETY: the test passes one that outlives the calls.
    unsafe { (*context.cast::<Around<'_>>()).here() };
}

#[test]
fn a_hook_at_work_since_before_the_last_capture_finds_its_stack_in_that() {
    const CALLS: usize = 400;
    for depth in [1, 3, 20, 1000] {
        let mut comparison = Comparison::new(depth);
        comparison.with_a_fresh_lane = false;
        let path: Vec<_> = shapes::ALL.into_iter().cycle().take(14).map(|shape| (shape, 3)).collect();
        let (mut random, mut known) = (Random(5), 0);
        for _ in 0..CALLS {
            let (shape, parameter) = path[random.below(path.len())];
            let inner = &path[..random.below(path.len())];
            let mut hook = Around { comparison: &mut comparison, inner, known: 0 };
            // SAFETY: the shape calls `around` with the hook.
            unsafe { shape(around, (&raw mut hook).cast(), parameter) };
            known += hook.known;
        }
        if depth > 3 {
            assert!(known >= CALLS * 9 / 10, "{known} at depth {depth}");
            comparison.assert_followed(CALLS / 8);
        }
    }
}

#[test]
fn nodes_that_were_forgotten_are_not_referred_to() {
    let mut comparison = Comparison::new(1000);
    let path: Vec<_> = shapes::ALL.into_iter().cycle().take(20).map(|shape| (shape, 3)).collect();
    let mut random = Random(3);
    for _ in 0..3 {
        for _ in 0..200 {
            follow(&mut comparison, &path[..random.below(path.len())]);
        }
        comparison.lane.forget_nodes();
    }
    comparison.assert_followed(200);
}

#[test]
fn every_pair_of_shapes_within_each_other() {
    let mut comparison = Comparison::new(1000);
    for _ in 0..ROUNDS {
        for outer in shapes::ALL {
            for inner in shapes::ALL {
                for parameter in [0, 1, 100] {
                    follow(&mut comparison, &[(outer, parameter), (inner, parameter + 1), (shapes::plain, 0)]);
                }
            }
        }
    }
    assert_eq!(comparison.captures, ROUNDS * 147);
    comparison.assert_followed(40);
}

#[test]
fn unchanged_stack_is_captured_again_and_again() {
    let mut comparison = Comparison::new(100);
    for _ in 0..5 {
        comparison.here();
    }
}

#[test]
fn recursion_of_all_depths_up_and_down() {
    for depth in [1, 7, 64, 1000] {
        let mut comparison = Comparison::new(depth);
        let path = [(shapes::plain as Shape, 0); 200];
        for _ in 0..ROUNDS {
            for length in (0..200).step_by(3).chain((0..200).rev().step_by(17)).chain([199, 0, 199, 5, 150]) {
                follow(&mut comparison, &path[..length]);
            }
        }
        assert!(comparison.deepest > 199);
    }
}

#[test]
fn recursion_deeper_than_what_is_remembered() {
    let mut comparison = Comparison::new(1000);
    let path = vec![(shapes::scratch_fp as Shape, 1); 4000];
    for _ in 0..ROUNDS {
        for length in [500, 900, 1400, 1800, 2600, 2610, 2640, 3200, 3100, 1200, 4000, 300, 900] {
            follow(&mut comparison, &path[..length]);
        }
    }
    assert!(comparison.deepest > 4000);
}

#[test]
fn paths_of_equal_frame_sizes_are_told_apart() {
    let mut comparison = Comparison::new(200);
    for _ in 0..ROUNDS {
        let mut path = vec![(shapes::plain as Shape, 0); 30];
        for changed in 0..30 {
            path[changed].0 = shapes::twin_of_plain;
            follow(&mut comparison, &path);
            follow(&mut comparison, &path[..changed]);
            follow(&mut comparison, &path);
        }
    }
    comparison.assert_followed(50);
}

#[test]
fn a_frame_pointer_that_decides_nothing_may_change() {
    let mut comparison = Comparison::new(200);
    for value in (0..20).chain(0..20) {
        let path = [(shapes::plain as Shape, 0), (shapes::scratch_fp, value), (shapes::plain, 0), (shapes::plain, 0)];
        follow(&mut comparison, &path);
    }
}

#[test]
fn a_frame_pointer_that_decides_is_compared_through_frames_that_pass_it_on() {
    let mut comparison = Comparison::new(200);
    // The same inner slots and return addresses, a variable frame far out: only saved rbp values differ.
    for words in [10, 12, 20, 10, 11, 2, 30].repeat(ROUNDS) {
        let path = [
            (shapes::alloca as Shape, 40 - words),
            (shapes::frame_pointer, 0),
            (shapes::alloca, words),
            (shapes::plain, 0),
            (shapes::scratch_fp, words),
            (shapes::plain, 0),
            (shapes::realigned, 0),
            (shapes::plain, 0),
        ];
        follow(&mut comparison, &path);
        follow(&mut comparison, &path[1..]);
    }
}

/// Two paths whose inner frames lie at the same addresses and return to the same ones, and differ only in a saved
/// frame pointer further in: what was the caller's frame in one is stale memory in the other, still in place.
const fn equal_but_for_a_saved_frame_pointer() -> [[(Shape, usize); 5]; 2] {
    [
        [(shapes::alloca, 10), (shapes::plain, 0), (shapes::alloca, 400), (shapes::scratch_fp, 0), (shapes::plain, 0)],
        [
            (shapes::alloca, 400),
            (shapes::twin_of_plain, 0),
            (shapes::alloca, 10),
            (shapes::scratch_fp, 0),
            (shapes::plain, 0),
        ],
    ]
}

#[test]
fn stale_frames_behind_another_saved_frame_pointer_are_not_believed() {
    let mut comparison = Comparison::new(200);
    let paths = equal_but_for_a_saved_frame_pointer();
    for round in 0..2 * ROUNDS {
        follow(&mut comparison, &paths[round % 2]);
    }
    // Each after itself too, so that chains of both are candidates.
    for round in 0..8 * ROUNDS {
        follow(&mut comparison, &paths[round / 2 % 2]);
        follow(&mut comparison, &[]);
    }
}

#[test]
fn stale_frames_are_not_believed_after_the_outermost_were_dropped() {
    let mut comparison = Comparison::new(1000);
    let plain = (shapes::plain as Shape, 0);
    let paths = equal_but_for_a_saved_frame_pointer().map(|differing| {
        let mut path = vec![plain; 400];
        path.extend(differing);
        path.extend([plain; 400]);
        path
    });
    // Two frames a shape: grows beyond what is remembered, and the differing part is among what is kept.
    for _ in 0..ROUNDS {
        for length in [405, 605, 805] {
            follow(&mut comparison, &paths[0][..length]);
        }
        assert!(comparison.deepest > 1600);
        follow(&mut comparison, &paths[1]);
        follow(&mut comparison, &paths[0]);
    }
}

/// `realigned` around `next`, without a frame of its own in between that would overwrite what lies below.
#[unsafe(naked)]
unsafe extern "C" fn realigned_then_next(context: *mut c_void) {
    core::arch::naked_asm!(
        "mov rsi, rdi",
        "lea rdi, [rip + {next}]",
        "jmp {realigned}",
        next = sym next,
        realigned = sym shapes::realigned,
    )
}

#[test]
fn stale_slots_in_the_gap_of_a_realigned_frame_are_not_believed() {
    let mut comparison = Comparison::new(200);
    // Ever shallower: the slot of the last round lies in the gap that realignment leaves in this one, far enough below
    // this frame for nothing to be written there in between.
    for words in [(); ROUNDS].into_iter().flat_map(|()| (1000..1032).rev().step_by(2)) {
        let outer = if words & 2 == 0 { shapes::alloca } else { shapes::twin_of_alloca };
        let mut path = Path { comparison: &mut comparison, rest: &[] };
        // SAFETY: the callback passes the path on to `next`.
        unsafe { outer(realigned_then_next, (&raw mut path).cast(), words) };
    }
}

#[test]
fn frames_left_by_a_long_jump_are_gone() {
    struct Jump<'a> {
        comparison: &'a mut Comparison,
        point: EscapePoint,
        path: &'a [(Shape, usize)],
    }
    unsafe extern "C" fn go_deep_and_escape(context: *mut c_void) {
        // SAFETY: passed by the test below; the frames that are skipped own nothing.
        unsafe {
            let jump = &mut *context.cast::<Jump<'_>>();
            follow(jump.comparison, jump.path);
            jump.comparison.here();
            shapes::escape(jump.point)
        }
    }
    let mut comparison = Comparison::new(500);
    let path = [(shapes::plain as Shape, 0), (shapes::alloca, 7), (shapes::scratch_fp, 3), (shapes::realigned, 0)];
    for round in 0..8 * ROUNDS {
        let mut jump = Jump { comparison: &mut comparison, point: null_mut(), path: &path[..round % 5] };
        let point = &raw mut jump.point;
        // SAFETY: the callback gets the jump it expects and escapes while `with_escape` is active.
        unsafe { shapes::with_escape(go_deep_and_escape, (&raw mut jump).cast(), point) };
        comparison.here();
        follow(&mut comparison, &path[round % 4..]);
    }
}

/// A random walk up and down a call tree, with captures all along.
struct Walk {
    comparison: Comparison,
    random: Random,
    level: usize,
    max_level: usize,
    budget: usize,
}

unsafe extern "C" fn wander(context: *mut c_void) {
    // SAFETY: the test below and the shapes pass on the walk, which outlives the calls.
    let walk = unsafe { &mut *context.cast::<Walk>() };
    walk.level += 1;
    for _ in 0..1 + walk.random.below(4) {
        if walk.random.below(2) == 0 {
            walk.comparison.here();
        }
        if walk.level < walk.max_level && walk.budget > 0 {
            walk.budget -= 1;
            let shape = shapes::ALL[walk.random.below(shapes::ALL.len())];
            let parameter = [0, 2, 4, 60, 400][walk.random.below(5)];
            let callback: Callback = if walk.random.below(3) == 0 { wander_too } else { wander };
            // SAFETY: the callbacks expect a walk.
            unsafe { shape(callback, context, parameter) };
        }
    }
    // SAFETY: as above; the reference from the beginning is not used after the calls in between.
    unsafe { (*context.cast::<Walk>()).level -= 1 };
}

/// Another function of the same behaviour.
unsafe extern "C" fn wander_too(context: *mut c_void) {
    // SAFETY: as for `wander`.
    unsafe { wander(context) };
    std::hint::black_box(context);
}

#[test]
fn random_walks_through_the_call_tree() {
    for seed in 0..30 {
        let depth = [3, 10, 40, 1000][seed as usize % 4];
        let mut walk = Walk {
            comparison: Comparison::new(depth),
            random: Random(0),
            level: 0,
            max_level: [6, 12, 60][seed as usize % 3],
            budget: 0,
        };
        // The same walk again and again, and then others through the same places.
        for round in 0..ROUNDS as u64 + 2 {
            walk.random = Random((seed + round.saturating_sub(ROUNDS as u64 - 1)) * 7919 + 1);
            walk.budget = 250;
            walk.comparison.with_a_fresh_lane = round == 0;
            while walk.budget > 0 {
                // SAFETY: `wander` gets the walk it expects.
                unsafe { wander((&raw mut walk).cast()) };
            }
        }
        assert!(walk.comparison.captures > 50 * ROUNDS);
        walk.comparison.assert_followed(25);
    }
}

#[test]
fn depth_may_change_between_captures() {
    let mut comparison = Comparison::new(1);
    let path = [(shapes::frame_pointer as Shape, 0); 120];
    for _ in 0..ROUNDS {
        let mut random = Random(5);
        for _ in 0..200 {
            comparison.depth = [1, 2, 20, 60, 100, 400][random.below(6)];
            follow(&mut comparison, &path[..random.below(120)]);
        }
    }
    comparison.assert_followed(100);
}
