//! A table of hooks at work: what the program passes arrives, with where it was entered, and goes on to the original.
use core::ffi::{CStr, c_int};
use memscope_hook::around::Next;
use memscope_hook::{Entry, Words};
use std::cell::RefCell;

/// Finds what it was told.
struct Original(Option<unsafe extern "C" fn()>);

impl Original {
    const fn new(_name: &'static CStr, address: Option<unsafe extern "C" fn()>) -> Original {
        Original(address)
    }

    fn address(&self) -> usize {
        self.0.map_or(0, |function| function as usize)
    }
}

const NOWHERE: Option<unsafe extern "C" fn()> = None;

/// A function of another type, for the table to find.
macro_rules! at {
    ($function:path as $type:ty) => {
        // SAFETY: a function's address; it is called by its real type.
        Some(unsafe { core::mem::transmute::<$type, unsafe extern "C" fn()>($function) })
    };
}

memscope_hook::hooks! {
    originals found by Original;

    entered {
        entered0() -> usize, in NOWHERE, else 40 => on_entered0;
        entered1(a: usize) -> usize, in NOWHERE, else 41 => on_entered1;
        entered2(a: usize, b: u32) -> usize, in NOWHERE, else 42 => on_entered2;
        entered3(a: usize, b: usize, c: *const u8) -> usize, in NOWHERE, else 43 => on_entered3;
        entered4(a: usize, b: usize, c: usize, d: usize) -> usize, in NOWHERE, else 44 => on_entered4;
        entered5(a: usize, b: usize, c: usize, d: usize, e: usize) -> usize, in NOWHERE, else 45 => on_entered5;
        entered6(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> usize,
            in at!(sum6 as Six), else 46 => on_entered6;
    }
    plain {
        plain2(a: u32, b: u32) -> u32, in NOWHERE, else 5 => on_plain2;
    }
    variadic {
        listed -> usize => on_listed;
    }
    wrapped {
        wrapped8(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize) -> usize,
            in at!(sum8 as Eight), else 0 => on_wrapped;
        wrapped_absent(a: usize) -> c_int, in NOWHERE, else -1 => never;
    }
    around {
        Thrower is around2(a: usize, b: usize), in at!(sum2 as Two) => on_around, after_around;
        Unchanged is around1(a: usize), in NOWHERE => on_unchanged;
        Watched is around3(a: usize), in at!(throw as Throwing) => on_watched, after_around, on_thrown;
    }
    chosen {
        chosen2(number: c_int, value: usize) -> usize, in at!(passed_on as Chosen), for 7, 9 => on_chosen;
    }
    own {
        own1(a: u8) -> u16 => on_own;
    }
}

type Two = unsafe extern "C" fn(usize, usize) -> usize;
type Six = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize;
type Eight = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;
type Throwing = unsafe extern "C-unwind" fn(usize) -> usize;
type Chosen = unsafe extern "C" fn(c_int, usize) -> usize;

/// The functions of the table, as a program has them.
mod exported {
    use core::ffi::c_int;
    unsafe extern "C" {
        pub(crate) fn entered0() -> usize;
        pub(crate) fn entered1(a: usize) -> usize;
        pub(crate) fn entered2(a: usize, b: u32) -> usize;
        pub(crate) fn entered3(a: usize, b: usize, c: *const u8) -> usize;
        pub(crate) fn entered4(a: usize, b: usize, c: usize, d: usize) -> usize;
        pub(crate) fn entered5(a: usize, b: usize, c: usize, d: usize, e: usize) -> usize;
        pub(crate) fn entered6(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> usize;
        pub(crate) fn plain2(a: u32, b: u32) -> u32;
        pub(crate) fn listed(first: usize, ...) -> usize;
        pub(crate) fn wrapped8(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize)
        -> usize;
        pub(crate) fn wrapped_absent(a: usize) -> c_int;
        pub(crate) fn around2(a: usize, b: usize) -> usize;
        pub(crate) fn around1(a: usize) -> usize;
        pub(crate) fn chosen2(number: c_int, value: usize) -> usize;
        pub(crate) fn own1(a: u8) -> u16;
    }
    unsafe extern "C-unwind" {
        pub(crate) fn around3(a: usize) -> usize;
    }
}

/// A call of a hook.
struct Call {
    arguments: Vec<usize>,
    entry: Entry,
    /// What is where the hook was entered: a return address, or on aarch64 the second word of the frame record; 0 without a stack.
    return_address: usize,
}

thread_local! {
    static ENTERED: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

fn note(arguments: &[usize], entry: Entry) {
    // The frame record that a stub makes on aarch64 says what the caller's frame pointer is.
    if cfg!(target_arch = "aarch64") && entry.stack_pointer != 0 {
        // SAFETY: the record is on our stack, and the stub's as long as the hook runs.
        assert_eq!(unsafe { *(entry.stack_pointer as *const usize) }, entry.frame_pointer, "{arguments:?}: {entry:x?}");
    }
    let return_address = match entry.stack_pointer {
        0 => 0,
        // SAFETY: the place is on our stack, and is the stub's as long as the hook runs.
        place => unsafe { *((place + 8 * usize::from(cfg!(target_arch = "aarch64"))) as *const usize) },
    };
    let call = Call { arguments: arguments.to_vec(), entry, return_address };
    ENTERED.with(|entered| entered.borrow_mut().push(call));
}

unsafe extern "C" fn on_entered0(entry: Entry) -> usize {
    note(&[], entry);
    // SAFETY: none is asked for.
    unsafe { entered0::call() }
}
unsafe extern "C" fn on_entered1(a: usize, entry: Entry) -> usize {
    note(&[a], entry);
    // SAFETY: none is asked for, here and below.
    unsafe { entered1::call(a) }
}
unsafe extern "C" fn on_entered2(a: usize, b: u32, entry: Entry) -> usize {
    note(&[a, b as usize], entry);
    // SAFETY: as above.
    unsafe { entered2::call(a, b) }
}
unsafe extern "C" fn on_entered3(a: usize, b: usize, c: *const u8, entry: Entry) -> usize {
    note(&[a, b, c as usize], entry);
    // SAFETY: as above.
    unsafe { entered3::call(a, b, c) }
}
unsafe extern "C" fn on_entered4(a: usize, b: usize, c: usize, d: usize, entry: Entry) -> usize {
    note(&[a, b, c, d], entry);
    // SAFETY: as above.
    unsafe { entered4::call(a, b, c, d) }
}
unsafe extern "C" fn on_entered5(a: usize, b: usize, c: usize, d: usize, e: usize, entry: Entry) -> usize {
    note(&[a, b, c, d, e], entry);
    // SAFETY: as above.
    unsafe { entered5::call(a, b, c, d, e) }
}
unsafe extern "C" fn on_entered6(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, entry: Entry) -> usize {
    note(&[a, b, c, d, e, f], entry);
    // SAFETY: as above.
    unsafe { entered6::call(a, b, c, d, e, f) }
}
unsafe extern "C" fn on_plain2(a: u32, b: u32) -> u32 {
    // SAFETY: as above.
    a * b + unsafe { plain2::call(a, b) }
}
/// The arguments are as many as the first says.
unsafe extern "C" fn on_listed(words: Words<'_>) -> usize {
    // SAFETY: the tests give so many.
    unsafe { (1..=words.word(0)).map(|number| words.word(number) * number).sum() }
}
fn on_wrapped(address: usize, original: impl FnOnce() -> usize) -> usize {
    assert_eq!(address, sum8 as *const () as usize);
    original() + 1
}
fn never(_: usize, _: impl FnOnce() -> c_int) -> c_int {
    unreachable!("there is no original")
}

/// `a` says what is done: 0 answer, 1 jump, else call.
unsafe extern "C" fn on_around(a: usize, b: usize, entry: Entry) -> Next {
    note(&[a, b], entry);
    let original = Thrower::ORIGINAL.address();
    match a {
        0 => Next::answer(99),
        1 => Next::jump(original),
        _ => Next::call(original, 5000),
    }
}
unsafe extern "C" fn after_around(answer: usize, token: usize, entry: Entry) -> usize {
    note(&[answer, token], entry);
    answer + token
}
unsafe extern "C" fn on_unchanged(a: usize, entry: Entry) -> Next {
    note(&[a], entry);
    Next::jump(Unchanged::ORIGINAL.address())
}
unsafe extern "C" fn on_watched(a: usize, entry: Entry) -> Next {
    note(&[a], entry);
    Next::call(Watched::ORIGINAL.address(), 5000)
}
fn on_thrown() {
    note(&[77], Entry { stack_pointer: 0, frame_pointer: 0 });
}
unsafe extern "C" fn on_chosen(number: c_int, value: usize) -> usize {
    match chosen2::resolved() {
        // SAFETY: as above.
        Some(original) => unsafe { original(number, value) + 1000 },
        None => 1,
    }
}
unsafe extern "C" fn on_own(a: u8) -> u16 {
    u16::from(a) << 8
}

unsafe extern "C" fn sum2(a: usize, b: usize) -> usize {
    a + b
}
unsafe extern "C" fn sum6(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> usize {
    a + b + c + d + e + f
}
unsafe extern "C" fn sum8(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize) -> usize {
    a + b + c + d + e + f + 10 * g + 100 * h
}
/// Something else than 1 is thrown, out of a frame that catches it, or not.
unsafe extern "C-unwind" fn throw(a: usize) -> usize {
    let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(a)));
    if a == 1 { 1 } else { std::panic::resume_unwind(caught.expect_err("thrown")) }
}
unsafe extern "C" fn passed_on(number: c_int, value: usize) -> usize {
    number as usize * 10 + value
}

/// Where a frame of this test is; hooks it calls are entered further down.
#[inline(never)]
fn entered() -> Vec<Call> {
    ENTERED.with(|entered| core::mem::take(&mut *entered.borrow_mut()))
}

#[test]
fn a_stub_passes_every_argument_and_where_it_was_entered() {
    let mark = 0u8;
    // SAFETY: the functions are our own.
    let answers = unsafe {
        [
            exported::entered0(),
            exported::entered1(1),
            exported::entered2(1, 2),
            exported::entered3(1, 2, 3 as *const u8),
            exported::entered4(1, 2, 3, 4),
            exported::entered5(1, 2, 3, 4, 5),
            exported::entered6(1, 2, 3, 4, 5, 6),
        ]
    };
    assert_eq!(answers, [40, 41, 42, 43, 44, 45, 21]);
    for (count, Call { arguments, entry, return_address }) in entered().into_iter().enumerate() {
        assert_eq!(arguments, (1..=count).collect::<Vec<_>>());
        let distance = (&raw const mark as usize).wrapping_sub(entry.stack_pointer);
        assert!(distance < 4096, "{count} arguments: {entry:x?} is not below the caller");
        let here = a_stub_passes_every_argument_and_where_it_was_entered as *const () as usize;
        let is_in_caller = return_address.wrapping_sub(here) < 16384;
        assert!(is_in_caller, "{count} arguments: {return_address:#x} is not in the caller, {here:#x}");
    }
}

#[test]
fn hooks_without_a_stack_stand_in_front_of_theirs() {
    // SAFETY: the functions are our own.
    unsafe {
        assert_eq!(exported::plain2(3, 4), 17);
        assert_eq!(exported::wrapped8(1, 2, 3, 4, 5, 6, 7, 8), 21 + 70 + 800 + 1);
        assert_eq!(exported::wrapped_absent(1), -1);
        assert_eq!(exported::own1(2), 512);
    }
}

#[test]
fn all_arguments_of_a_function_that_takes_any_number_are_found() {
    // SAFETY: the function is our own, and is told how many there are.
    let answers = unsafe {
        [
            exported::listed(0),
            exported::listed(1, 1usize),
            exported::listed(5, 1usize, 1usize, 1usize, 1usize, 1usize),
            exported::listed(8, 1usize, 1usize, 1usize, 1usize, 1usize, 1usize, 1usize, 2usize),
            exported::listed(9, 1usize, 1usize, 1usize, 1usize, 1usize, 1usize, 1usize, 2usize, 3usize),
        ]
    };
    assert_eq!(answers, [0, 1, 15, 44, 71]);
}

#[test]
fn a_hook_around_a_function_answers_jumps_or_calls() {
    // SAFETY: the functions are our own.
    let answers =
        unsafe { [exported::around2(0, 5), exported::around2(1, 5), exported::around2(2, 5), exported::around1(3)] };
    // Where there is no original to jump to, 0 is answered.
    assert_eq!(answers, [99, 6, 5007, 0]);
    let entered = entered();
    let arguments: Vec<_> = entered.iter().map(|call| call.arguments.as_slice()).collect();
    assert_eq!(arguments, [&[0, 5][..], &[1, 5], &[2, 5], &[7, 5000], &[3]]);
    assert_eq!(entered[2].entry.stack_pointer, entered[3].entry.stack_pointer, "both halves see the same entry");
}

#[test]
fn what_passes_through_a_hook_is_seen_once_and_what_is_caught_below_it_is_not() {
    // SAFETY: the function is our own, here and below.
    assert_eq!(unsafe { exported::around3(1) }, 5001);
    // SAFETY: as above.
    let thrown = std::panic::catch_unwind(|| unsafe { exported::around3(2) }).expect_err("thrown");
    assert_eq!(thrown.downcast_ref::<usize>(), Some(&2));
    let arguments: Vec<_> = entered().into_iter().map(|call| call.arguments).collect();
    assert_eq!(arguments, [&[1][..], &[1, 5000], &[2], &[77]]);
}

#[test]
fn a_chosen_call_is_ours_and_others_go_on_once_there_is_somewhere_to_go() {
    // SAFETY: the functions are our own.
    unsafe {
        assert_eq!([exported::chosen2(7, 1), exported::chosen2(8, 1)], [1, 1]);
        chosen2::resolve();
        assert_eq!([exported::chosen2(7, 1), exported::chosen2(8, 1), exported::chosen2(9, 1)], [1071, 81, 1091]);
    }
}

#[test]
fn the_originals_are_those_of_the_table_in_its_order() {
    let names: Vec<_> = ORIGINALS.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names[..2], ["entered0", "entered1"]);
    assert_eq!(names[7..], ["plain2", "wrapped8", "wrapped_absent", "around2", "around1", "around3", "chosen2"]);
}
