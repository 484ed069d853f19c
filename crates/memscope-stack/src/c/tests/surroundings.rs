//! Threads, callbacks from the C library, signals, coroutines, unloaded libraries.
use super::{Comparison, Lane, hooked, reference_stack};
use crate::{Frame, NodeId};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

thread_local! {
    /// For callbacks that take no context.
    static COMPARISON: Cell<*mut Comparison> = const { Cell::new(null_mut()) };
}

fn compare_in_this_thread() {
    let comparison = COMPARISON.get();
    assert!(!comparison.is_null());
    // SAFETY: `with_comparison` keeps it alive while the pointer is set.
    unsafe { (*comparison).here() };
}

fn with_comparison(depth: usize, run: impl FnOnce()) -> Comparison {
    let mut comparison = Comparison::new(depth);
    COMPARISON.set(&raw mut comparison);
    run();
    COMPARISON.set(null_mut());
    comparison
}

extern "C" fn compare_numbers(a: *const c_void, b: *const c_void) -> c_int {
    compare_in_this_thread();
    // SAFETY: qsort and bsearch pass pointers to elements of the arrays below.
    unsafe { *a.cast::<i32>() - *b.cast::<i32>() }
}

#[test]
fn through_callbacks_of_the_c_library() {
    let comparison = with_comparison(1000, || {
        let mut numbers: Vec<i32> = (0..40).map(|i| i * 7919 % 101).collect();
        let key = 77;
        // SAFETY: arrays of the size and element size given.
        unsafe {
            libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare_numbers));
            libc::bsearch((&raw const key).cast(), numbers.as_ptr().cast(), numbers.len(), 4, Some(compare_numbers));
        }
        assert!(numbers.is_sorted());
    });
    assert!(comparison.captures > 100);
}

#[test]
fn in_many_threads_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..6usize {
            scope.spawn(move || {
                fn recurse(comparison: &mut Comparison, level: usize) {
                    comparison.here();
                    if level > 0 {
                        recurse(comparison, level - 1);
                        std::hint::black_box(level);
                        recurse(comparison, level / 2);
                    }
                    comparison.here();
                }
                let mut comparison = Comparison::new(1000);
                recurse(&mut comparison, 4 + thread);
            });
        }
    });
}

#[test]
fn a_lane_may_change_threads() {
    let mut comparison = Comparison::new(100);
    for _ in 0..4 {
        comparison = std::thread::spawn(move || {
            let mut comparison = comparison;
            comparison.lane.stack.change_thread();
            comparison.here();
            comparison.here();
            comparison
        })
        .join()
        .unwrap();
    }
    assert_eq!(comparison.captures, 8);
}

// A lane moves between threads, one at a time.
// SAFETY: it holds no thread-local state, only memory of its own.
unsafe impl Send for Comparison {}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    compare_in_this_thread();
    compare_in_this_thread();
}

pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

pub(super) fn handle(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: a zeroed action is valid, and the handler has the signature SA_SIGINFO promises.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

#[test]
fn from_a_signal_handler_into_what_it_interrupted() {
    handle(libc::SIGUSR1, on_signal, 0);
    let comparison = with_comparison(1000, || {
        for _ in 0..3 {
            compare_in_this_thread();
            // SAFETY: the handler is installed; the signal is delivered before `raise` returns.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        }
    });
    assert_eq!(comparison.captures, 9);
}

#[test]
fn from_a_signal_handler_into_a_function_that_has_just_begun() {
    extern "C" fn on_illegal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        compare_in_this_thread();
        // SAFETY: the kernel's record of the interrupted registers; the instruction is two bytes long.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += 2 };
    }
    handle(libc::SIGILL, on_illegal, 0);
    let comparison = with_comparison(1000, || {
        // SAFETY: the handler above skips the illegal instruction.
        unsafe { super::shapes::illegal() };
    });
    assert_eq!(comparison.captures, 1);
}

/// What signal handlers with `SA_ONSTACK` run on meanwhile.
pub(super) fn with_a_signal_stack(act: impl FnOnce()) {
    let mut stack = vec![0u8; 256 << 10];
    let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    let mut before = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the stack outlives its use, the old one is put back.
    unsafe {
        assert_eq!(libc::sigaltstack(&alternate, &mut before), 0);
        act();
        assert_eq!(libc::sigaltstack(&before, null_mut()), 0);
    }
}

#[test]
fn from_a_signal_handler_on_its_own_stack() {
    handle(libc::SIGUSR2, on_signal, libc::SA_ONSTACK);
    with_a_signal_stack(|| {
        let comparison = with_comparison(1000, || {
            for _ in 0..3 {
                compare_in_this_thread();
                // SAFETY: the handler is installed; the signal is delivered before `raise` returns.
                assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
            }
        });
        assert_eq!(comparison.captures, 9);
    });
}

#[test]
fn from_a_signal_handler_itself_on_its_own_stack() {
    // No frame between: what was interrupted is among the innermost frames, on another stack.
    extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
        let comparison = COMPARISON.get().cast();
        // SAFETY: `with_comparison` keeps it alive while the pointer is set.
        unsafe {
            hooked(comparison, Comparison::observe);
            hooked(comparison, Comparison::observe);
        }
    }
    handle(libc::SIGWINCH, on_signal, libc::SA_ONSTACK);
    with_a_signal_stack(|| {
        let comparison = with_comparison(1000, || {
            for _ in 0..3 {
                compare_in_this_thread();
                // SAFETY: the handler is installed; the signal is delivered before `raise` returns.
                assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
            }
        });
        assert_eq!(comparison.captures, 9);
    });
}

#[test]
fn a_thread_that_switches_between_stacks() {
    thread_local! {
        static CONTEXTS: Cell<(*mut libc::ucontext_t, *mut libc::ucontext_t)> = const { Cell::new((null_mut(), null_mut())) };
    }
    extern "C" fn coroutine() {
        for _ in 0..3 {
            compare_in_this_thread();
            compare_in_this_thread();
            let (outside, inside) = CONTEXTS.get();
            // SAFETY: both contexts are kept by the test below.
            unsafe { libc::swapcontext(inside, outside) };
        }
    }
    let mut stack = vec![0u64; 32 << 10];
    // SAFETY: contexts are initialised by getcontext and makecontext before use; the stack outlives the coroutine.
    unsafe {
        let mut outside: libc::ucontext_t = core::mem::zeroed();
        let mut inside: libc::ucontext_t = core::mem::zeroed();
        assert_eq!(libc::getcontext(&mut inside), 0);
        inside.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        inside.uc_stack.ss_size = stack.len() * 8;
        inside.uc_link = &raw mut outside;
        libc::makecontext(&mut inside, coroutine, 0);
        CONTEXTS.set((&raw mut outside, &raw mut inside));
        let comparison = with_comparison(1000, || {
            for _ in 0..3 {
                compare_in_this_thread();
                libc::swapcontext(&raw mut outside, &raw const inside);
                compare_in_this_thread();
            }
        });
        assert_eq!(comparison.captures, 12);
    }
}

#[test]
fn after_an_unload_everything_is_defined_anew() {
    extern "C" fn capture(context: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: called by `hooked` below with its lane.
        let (lane, node) = unsafe { &mut *context.cast::<(Lane, NodeId)>() };
        // SAFETY: the state at entry, from `hooked`.
        *node = unsafe { lane.stack.capture(sp, fp, 1000, &mut lane.tree, &mut lane.definitions) };
        // SAFETY: `sp` points to the return address.
        assert_eq!(lane.definitions.chain(*node), reference_stack(unsafe { *(sp as *const usize) }));
    }
    let mut state = (Lane::new(), NodeId::NONE);
    let mut nodes = Vec::new();
    // One call site in all rounds: the compiler must not know how many there are.
    for round in 0..std::hint::black_box(4) {
        if std::hint::black_box(round) == 2 {
            let epoch = super::super::unload_epoch();
            super::super::library_unloaded();
            assert_ne!(super::super::unload_epoch(), epoch);
            state.0.stack.forget();
            state.0.tree.forget(0);
        }
        // SAFETY: `capture` expects this state.
        unsafe { hooked((&raw mut state).cast(), capture) };
        nodes.push(state.1);
    }
    assert_eq!(nodes[0], nodes[1]);
    assert_eq!(nodes[2], nodes[3]);
    assert_ne!(nodes[0], nodes[2]);
    let modules = &state.0.definitions.modules;
    let exe = std::env::current_exe().unwrap();
    let own: Vec<_> = modules.iter().filter(|module| module.0 == exe.as_os_str().as_encoded_bytes()).collect();
    assert_eq!(own.len(), 2, "once before and once after");
    // Before glibc 2.34 the file behind that name has its version in its own.
    let is_libc = |path: &[u8]| path.ends_with(b"/libc.so.6") || path.ends_with(b"/libc-2.31.so");
    assert!(modules.iter().any(|module| is_libc(&module.0) && module.2.len() == 20));
}

#[test]
fn code_outside_all_objects_is_an_unknown_frame() {
    // push rbp; call rdx; pop rbp; ret
    const CODE: [u8; 5] = [0x55, 0xff, 0xd2, 0x5d, 0xc3];
    extern "C" fn capture(context: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: called by the generated code below with its lane and the state at entry.
        unsafe {
            let (lane, node) = &mut *context.cast::<(Lane, NodeId)>();
            *node = lane.stack.capture(sp, fp, 1000, &mut lane.tree, &mut lane.definitions);
        }
    }
    let mut state = (Lane::new(), NodeId::NONE);
    // SAFETY: a page of our own with complete code in it, called with the arguments of `hooked` and its address.
    let page = unsafe {
        let page = libc::mmap(null_mut(), 4096, 7, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<[u8; 5]>().write(CODE);
        let generated: extern "C" fn(*mut c_void, super::Observer, *const ()) = core::mem::transmute(page);
        generated((&raw mut state).cast(), capture, hooked as *const ());
        page as u64
    };
    let (parent, frame) = state.0.definitions.nodes[state.1.0 as usize - 1];
    assert_eq!((parent, frame), (NodeId::NONE, Frame::Unknown { address: page + 3 }));
}
