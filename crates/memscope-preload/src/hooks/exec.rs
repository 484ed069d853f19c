//! Programs that are about to begin: one whose loader could not load our libraries begins without them, because the loader
//! would say so on the program's error stream.
//!
//! All ways of the C library to another program are here, since they reach the kernel by names of their own. Between fork and
//! exec nothing but raw calls is made and nothing is kept: the memory may be the parent's.
use super::{execv, execve, execvp, execvpe, posix_spawn, posix_spawnp};
use crate::original::FAILED;
use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr;
use memscope_hook::Words;
use memscope_recorder::next_program::{NextProgram, Without, own_environment};
use memscope_recorder::sys;

pub(super) type Texts = *const *const c_char;

/// Arguments of `execl` that find room on the stack.
const MOST_ARGUMENTS: usize = 256;

/// From the constructor: what shells and Python use, who fork first, so that each child would look for it anew. The others are rarer,
/// and each search costs the beginning of every program some microseconds.
pub(crate) fn find_originals() {
    execve::ORIGINAL.address();
}

/// Calls `begin` with the environment that the program is to have: `None` for the one it was given.
///
/// # Safety
/// The program's own arguments.
unsafe fn with_environment(program: NextProgram, begin: impl FnOnce(Option<Texts>) -> c_int) -> c_int {
    /// Out of the way: it needs much of the stack.
    #[cold]
    #[inline(never)]
    unsafe fn without_us(program: NextProgram, begin: impl FnOnce(Option<Texts>) -> c_int) -> c_int {
        let mut room = Without::default();
        // SAFETY: the caller vouches for the arguments.
        let fits = unsafe { program.without_us(&mut room) };
        begin(fits.then(|| room.environment()))
    }

    // SAFETY: the caller vouches for the arguments.
    unsafe { if program.must_begin_without_us() { without_us(program, begin) } else { begin(None) } }
}

pub(super) unsafe extern "C" fn execute(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let program = NextProgram { name: path, is_searched: false, environment };
    // SAFETY: the program's own arguments are passed on.
    unsafe { with_environment(program, |other| execve::call(path, arguments, other.unwrap_or(environment))) }
}

pub(super) unsafe extern "C" fn execute_here(path: *const c_char, arguments: Texts) -> c_int {
    let program = NextProgram { name: path, is_searched: false, environment: own_environment() };
    // SAFETY: the program's own arguments are passed on.
    unsafe {
        with_environment(program, |other| match other {
            Some(environment) => execve::call(path, arguments, environment),
            None => execv::call(path, arguments),
        })
    }
}

pub(super) unsafe extern "C" fn search(name: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    let program = NextProgram { name, is_searched: true, environment };
    // SAFETY: the program's own arguments are passed on.
    unsafe { with_environment(program, |other| execvpe::call(name, arguments, other.unwrap_or(environment))) }
}

pub(super) unsafe extern "C" fn search_here(name: *const c_char, arguments: Texts) -> c_int {
    let program = NextProgram { name, is_searched: true, environment: own_environment() };
    // SAFETY: the program's own arguments are passed on.
    unsafe {
        with_environment(program, |other| match other {
            Some(environment) => execvpe::call(name, arguments, environment),
            None => execvp::call(name, arguments),
        })
    }
}

pub(super) unsafe extern "C" fn spawn(
    pid: usize,
    path: *const c_char,
    actions: usize,
    attributes: usize,
    arguments: Texts,
    environment: Texts,
) -> c_int {
    let program = NextProgram { name: path, is_searched: false, environment };
    // SAFETY: the program's own arguments are passed on.
    unsafe {
        with_environment(program, |other| {
            posix_spawn::call(pid, path, actions, attributes, arguments, other.unwrap_or(environment))
        })
    }
}

pub(super) unsafe extern "C" fn spawn_found(
    pid: usize,
    name: *const c_char,
    actions: usize,
    attributes: usize,
    arguments: Texts,
    environment: Texts,
) -> c_int {
    let program = NextProgram { name, is_searched: true, environment };
    // SAFETY: the program's own arguments are passed on.
    unsafe {
        with_environment(program, |other| {
            posix_spawnp::call(pid, name, actions, attributes, arguments, other.unwrap_or(environment))
        })
    }
}

pub(super) unsafe extern "C" fn execute_list(words: Words<'_>) -> c_int {
    // SAFETY: the caller gave a path and a list that ends with a null.
    unsafe { with_list(words, |path, arguments, _| execute_here(path, arguments)) }
}

pub(super) unsafe extern "C" fn search_list(words: Words<'_>) -> c_int {
    // SAFETY: as above, with a name.
    unsafe { with_list(words, |name, arguments, _| search_here(name, arguments)) }
}

pub(super) unsafe extern "C" fn execute_list_in(words: Words<'_>) -> c_int {
    // SAFETY: as above, and then an environment.
    unsafe { with_list(words, |path, arguments, end| execute(path, arguments, words.word(end + 1) as Texts)) }
}

/// Calls `begin` with the first word, those after it as an array, and the number of the null word that ends them.
unsafe fn with_list(words: Words<'_>, begin: impl FnOnce(*const c_char, Texts, usize) -> c_int) -> c_int {
    // SAFETY: the caller vouches for the null, which is the last word that is looked at.
    unsafe {
        let path = words.word(0) as *const c_char;
        let end = (1..).find(|number| words.word(*number) == 0).unwrap_or(1);
        let mut room = MaybeUninit::<[*const c_char; MOST_ARGUMENTS]>::uninit();
        let mut list = room.as_mut_ptr().cast::<*const c_char>();
        if end > MOST_ARGUMENTS {
            // Goes with what the process is now, or stays, if it is not to become another.
            match sys::map_anonymous(end * size_of::<*const c_char>()) {
                Ok(memory) => list = memory.as_ptr().cast(),
                Err(_) => return FAILED,
            }
        }
        for number in 1..=end {
            list.add(number - 1).write(ptr::without_provenance(words.word(number)));
        }
        begin(path, list, end)
    }
}
