//! Whether a hook is still there, asked from a hook further in.
use super::super::{Search, find_frame};
use super::hooked;
use super::shapes::{EscapePoint, escape, with_escape};
use super::surroundings::{handle, with_a_signal_stack};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

thread_local! {
    /// For signal handlers and coroutines, which take no context.
    static CASE: Cell<*mut Case> = const { Cell::new(null_mut()) };
}

/// A hook, what it does while it is at work, and what a hook further in finds out about it.
struct Case {
    within: fn(),
    wanted: usize,
    found: Option<Search>,
}

impl Case {
    fn new(within: fn()) -> Case {
        Case { within, wanted: 0, found: None }
    }

    /// Runs the hook; a hook that `within` has entered tells what it found.
    fn run(&mut self) -> Search {
        let case: *mut Case = self;
        CASE.set(case);
        // SAFETY: the observers expect a case; nobody else uses it meanwhile.
        unsafe { hooked(case.cast(), outer_hook) };
        self.found.expect("a hook within")
    }
}

extern "C" fn outer_hook(case: *mut c_void, sp: usize, _: usize) {
    // SAFETY: `Case::run` passes its case.
    let within = unsafe {
        (*case.cast::<Case>()).wanted = sp;
        (*case.cast::<Case>()).within
    };
    within();
    std::hint::black_box(sp);
}

extern "C" fn inner_hook(case: *mut c_void, sp: usize, fp: usize) {
    // SAFETY: `enter_hook` passes the case at hand; stack and frame pointer are those of entry.
    unsafe {
        let case = case.cast::<Case>();
        (*case).found = Some(find_frame(sp, fp, (*case).wanted));
    }
}

/// A hook further in.
#[inline(never)]
fn enter_hook() {
    // SAFETY: `inner_hook` expects the case at hand.
    unsafe { hooked(CASE.get().cast(), inner_hook) };
    std::hint::black_box(());
}

#[inline(never)]
fn enter_hook_below(levels: usize) {
    if levels == 0 {
        enter_hook();
    } else {
        enter_hook_below(levels - 1);
    }
    std::hint::black_box(levels);
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    enter_hook_below(2);
}

fn raise(signal: c_int) {
    // SAFETY: a handler is installed; the signal is delivered before `raise` returns.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[test]
fn a_hook_is_found_by_the_hooks_it_calls() {
    super::super::initialise();
    for within in [enter_hook, || enter_hook_below(3), || enter_hook_below(300)] {
        assert_eq!(Case::new(within).run(), Search::Found { crossed_signal: false });
    }
}

#[test]
fn a_hook_that_has_returned_is_absent() {
    super::super::initialise();
    let mut case = Case::new(enter_hook);
    case.run();
    // Deeper than where it was, then at the very place it was, then further out.
    enter_hook_below(100);
    assert!(matches!(case.found, Some(Search::Absent { .. } | Search::Between { .. })), "{:?}", case.found);
    CASE.set(&raw mut case);
    extern "C" fn same_place(case: *mut c_void, sp: usize, fp: usize) {
        // SAFETY: called with the case below and the state at entry.
        unsafe {
            let case = case.cast::<Case>();
            (*case).found = Some(find_frame(sp, fp, sp));
        }
    }
    // SAFETY: as in `enter_hook`.
    unsafe { hooked((&raw mut case).cast(), same_place) };
    assert!(matches!(case.found, Some(Search::Absent { .. } | Search::Between { .. })), "{:?}", case.found);
    case.wanted -= 1 << 20;
    enter_hook();
    assert!(matches!(case.found, Some(Search::Absent { .. })), "{:?}", case.found);
}

#[test]
fn a_hook_is_found_from_a_signal_handler_that_interrupted_it() {
    super::super::initialise();
    handle(libc::SIGURG, on_signal, 0);
    assert_eq!(Case::new(|| raise(libc::SIGURG)).run(), Search::Found { crossed_signal: true });
    // Called by the handler itself.
    extern "C" fn on_other_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
        Case::run_within_handler();
    }
    handle(libc::SIGIO, on_other_signal, 0);
    let mut case = Case::new(|| enter_hook_below(2));
    CASE.set(&raw mut case);
    raise(libc::SIGIO);
    assert_eq!(case.found, Some(Search::Found { crossed_signal: false }));
}

impl Case {
    fn run_within_handler() {
        // SAFETY: the case of the test above, alive while its signal is handled.
        unsafe { hooked(CASE.get().cast(), outer_hook) };
    }
}

#[test]
fn a_hook_is_found_from_a_signal_handler_on_its_own_stack() {
    super::super::initialise();
    handle(libc::SIGCONT, on_signal, libc::SA_ONSTACK);
    with_a_signal_stack(|| {
        let mut case = Case::new(|| raise(libc::SIGCONT));
        assert_eq!(case.run(), Search::Found { crossed_signal: true });
        // No frame's place, between two frames of the interrupted stack; the handler's may be above or below.
        case.wanted += 8;
        case.found = None;
        raise(libc::SIGCONT);
        assert!(matches!(case.found, Some(Search::Absent { .. } | Search::Between { .. })), "{:?}", case.found);
    });
}

#[test]
fn a_hook_left_by_a_jump_is_absent() {
    super::super::initialise();
    thread_local! {
        static POINT: Cell<EscapePoint> = const { Cell::new(null_mut()) };
    }
    unsafe extern "C" fn jumped_over(case: *mut c_void) {
        // SAFETY: the case below, and the point `with_escape` has made.
        unsafe { hooked(case, outer_hook) };
    }
    let mut case = Case::new(|| {
        enter_hook();
        // SAFETY: the frames left hold nothing.
        unsafe { escape(POINT.get()) }
    });
    CASE.set(&raw mut case);
    // SAFETY: the callback expects the case.
    unsafe { with_escape(jumped_over, (&raw mut case).cast(), POINT.with(Cell::as_ptr)) };
    assert_eq!(case.found, Some(Search::Found { crossed_signal: false }));
    for levels in [0, 1, 50] {
        enter_hook_below(levels);
        assert!(matches!(case.found, Some(Search::Absent { .. } | Search::Between { .. })), "{:?}", case.found);
    }
}

/// Runs `run` on a stack of its own of 16 KiB, which ends at a page nobody can touch.
fn on_a_small_stack(run: extern "C" fn()) -> core::ops::Range<usize> {
    const SIZE: usize = 16 << 10;
    const PAGE: usize = 4096;
    let pages = memscope_sys::map_anonymous(SIZE + PAGE).unwrap();
    // SAFETY: contexts are initialised by getcontext and makecontext before use; the stack outlives the coroutine.
    unsafe {
        assert_eq!(libc::mprotect(pages.as_ptr().cast(), PAGE, libc::PROT_NONE), 0);
        let mut outside: libc::ucontext_t = core::mem::zeroed();
        let mut inside: libc::ucontext_t = core::mem::zeroed();
        assert_eq!(libc::getcontext(&mut inside), 0);
        inside.uc_stack.ss_sp = pages.add(PAGE).as_ptr().cast();
        inside.uc_stack.ss_size = SIZE;
        inside.uc_link = &raw mut outside;
        libc::makecontext(&mut inside, run, 0);
        libc::swapcontext(&raw mut outside, &raw const inside);
    }
    let start = pages.as_ptr() as usize;
    start..start + PAGE + SIZE
}

#[test]
fn a_hook_on_another_stack_is_absent_and_one_on_a_small_stack_is_found() {
    super::super::initialise();
    thread_local! {
        static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }
    extern "C" fn search() {
        enter_hook_below(3);
    }
    let found = Case::new(|| {
        on_a_small_stack(search);
    })
    .run();
    assert!(matches!(found, Search::Absent { .. }), "{found:?}");

    extern "C" fn hook_within() {
        Case::run_within_handler();
    }
    let mut case = Case::new(|| enter_hook_below(3));
    CASE.set(&raw mut case);
    on_a_small_stack(hook_within);
    assert_eq!(case.found, Some(Search::Found { crossed_signal: false }));
}

#[test]
fn beyond_code_nobody_knows_nothing_is_known() {
    super::super::initialise();
    // push rbp; call rdx; pop rbp; ret
    const CODE: [u8; 5] = [0x55, 0xff, 0xd2, 0x5d, 0xc3];
    let found = Case::new(|| {
        // SAFETY: a page of our own with complete code in it, called with the arguments of `hooked` and its address.
        unsafe {
            let page = libc::mmap(null_mut(), 4096, 7, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<[u8; 5]>().write(CODE);
            let generated: extern "C" fn(*mut c_void, super::Observer, *const ()) = core::mem::transmute(page);
            generated(CASE.get().cast(), inner_hook, hooked as *const ());
        }
    })
    .run();
    assert_eq!(found, Search::Unknown { crossed_signal: false });
}

#[test]
fn a_walk_that_is_too_long_is_given_up() {
    super::super::initialise();
    assert_eq!(Case::new(|| enter_hook_below(5000)).run(), Search::Unknown { crossed_signal: false });
}
