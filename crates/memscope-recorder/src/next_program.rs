//! The program that `exec` is about to begin here, if its loader could not load our libraries: it would say so on the
//! program's error stream. Such a program is begun without them, and the keeper is told its name.
//!
//! Called between fork and exec as well, in memory that may be the parent's: nothing is kept, and nothing but raw calls is
//! made.
use crate::path::Path;
use crate::process;
use crate::sandbox;
use core::ffi::{CStr, c_char};
use core::ptr;
use memscope_format::keeper::Reason;
use memscope_sys::{self as sys, Access, Errno};

/// The library whose entry in `LD_PRELOAD` tells where ours are.
const RECORDER: &[u8] = b"/libascend_kernel_hook.so";
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Interpreters of interpreters that the kernel follows.
const MOST_INTERPRETERS: usize = 4;
/// Variables and further libraries of an environment that is rewritten in place; a larger one is left as it is, and the
/// loader says what it has to say.
const MOST_VARIABLES: usize = 1000;
const MOST_PRELOADED: usize = 2048;

/// What is about to begin.
#[derive(Clone, Copy)]
pub struct NextProgram {
    /// As the caller named it.
    pub name: *const c_char,
    /// A name without a slash is looked for in `PATH`, as `execvp` does.
    pub is_searched: bool,
    pub environment: *const *const c_char,
}

/// An environment without our libraries, in memory of its user's.
pub struct Without {
    variables: [*const c_char; MOST_VARIABLES + 1],
    preload: [u8; MOST_PRELOADED],
}

impl Default for Without {
    fn default() -> Without {
        Without { variables: [ptr::null(); MOST_VARIABLES + 1], preload: [0; MOST_PRELOADED] }
    }
}

impl Without {
    pub fn environment(&self) -> *const *const c_char {
        self.variables.as_ptr()
    }
}

/// Why our libraries cannot be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Obstacle {
    /// The program has 32 bits.
    Bits32,
    /// The libraries are not to be had for whoever runs it.
    Unreachable(Errno),
    /// A seccomp filter, which it will have too, ends who asks the kernel for what a recording needs.
    Filter,
}

impl NextProgram {
    /// Whether it has to begin without our libraries. Says so to the keeper if it can begin at all.
    ///
    /// # Safety
    /// Name and environment are as for `execve`.
    #[inline(never)]
    pub unsafe fn must_begin_without_us(&self) -> bool {
        // SAFETY: the caller vouches for both, and what the kernel would refuse is not looked at.
        unsafe {
            if !self.can_be_read() {
                return false;
            }
            let Some(entry) = preloaded(self.environment).and_then(recorder_of) else { return false };
            let mut path = Path::<PATH>::new();
            path.push(entry);
            let filter = sandbox::beginnings_are_fatal().then_some(Obstacle::Filter);
            let known = filter.or_else(|| reach(&path).err().map(Obstacle::Unreachable));
            let is_there = self.find(&mut path);
            let obstacle = known.or_else(|| (is_there && is_of_32_bits(&mut path)).then_some(Obstacle::Bits32));
            if is_there && let Some(obstacle) = obstacle {
                // What was asked for, and not its interpreter.
                self.find(&mut path);
                tell(obstacle, path.bytes());
            }
            obstacle.is_some()
        }
    }

    /// Whether name and environment are where they can be read: else it is for the kernel to say that they are not.
    unsafe fn can_be_read(&self) -> bool {
        let (mut texts, mut places) = (ReadablePage::NONE, ReadablePage::NONE);
        if !texts.holds_text(self.name) {
            return false;
        }
        let mut place = self.environment;
        while !place.is_null() {
            if !place.is_aligned() || !places.holds(place as usize) {
                return false;
            }
            // SAFETY: it can be read, as was just made sure.
            let text = unsafe { *place };
            if text.is_null() {
                break;
            }
            if !texts.holds_text(text) {
                return false;
            }
            place = place.wrapping_add(1);
        }
        true
    }

    /// Makes `path` the file that is to be executed; `false` if there is none.
    unsafe fn find(&self, path: &mut Path<PATH>) -> bool {
        if self.name.is_null() {
            return false;
        }
        // SAFETY: the caller of `must_begin_without_us` vouches for the name.
        let name = unsafe { CStr::from_ptr(self.name) }.to_bytes();
        let is_there = |path: &Path<PATH>| sys::access(path.as_c_str(), Access::Execute).is_ok();
        path.clear();
        if !self.is_searched || name.contains(&b'/') {
            return is_there(path.push(name));
        }
        // SAFETY: `environ` is the C library's, which looks there too.
        let search = unsafe { variable(own_environment(), b"PATH=") }.unwrap_or(b"/bin:/usr/bin");
        search.split(|byte| *byte == b':').any(|directory| {
            path.clear();
            if !directory.is_empty() {
                path.push(directory).push(b"/");
            }
            is_there(path.push(name))
        })
    }

    /// Writes the environment without our libraries into the room; `false` if it is too large for that.
    ///
    /// # Safety
    /// As for [`NextProgram::must_begin_without_us`]; the answer refers to the environment.
    pub unsafe fn without_us(&self, room: &mut Without) -> bool {
        // SAFETY: the caller vouches for the environment.
        let Some(entry) = (unsafe { preloaded(self.environment).and_then(recorder_of) }) else { return false };
        let directory = directory_of(entry);
        let Without { variables, preload } = room;
        let mut kept = variables.iter_mut();
        let mut place = self.environment;
        // SAFETY: as above; it ends with a null.
        while let Some(text) = unsafe { text_at(place) } {
            let mut pointer = text.as_ptr();
            if let Some(libraries) = text.to_bytes().strip_prefix(PRELOAD) {
                match write_without(preload, libraries, directory) {
                    Some(0) => pointer = ptr::null(),
                    Some(_) => pointer = preload.as_ptr().cast(),
                    None => return false,
                }
            }
            if !pointer.is_null() {
                let Some(to) = kept.next() else { return false };
                *to = pointer;
            }
            // SAFETY: not the last.
            place = unsafe { place.add(1) };
        }
        match kept.next() {
            Some(end) => {
                *end = ptr::null();
                true
            }
            None => false,
        }
    }
}

/// The page of the program's memory that was last found readable.
struct ReadablePage(usize);

impl ReadablePage {
    const SIZE: usize = 4096;
    /// No page begins there.
    const NONE: ReadablePage = ReadablePage(1);

    /// Where the program forbids to ask, it is believed.
    #[inline(never)]
    fn holds(&mut self, address: usize) -> bool {
        let page = address & !(ReadablePage::SIZE - 1);
        let is_readable = page == self.0 || page != 0 && (!sys::knows_what_is_readable() || sys::is_readable(page));
        if is_readable {
            self.0 = page;
        }
        is_readable
    }

    /// Whether there is a text that ends.
    fn holds_text(&mut self, text: *const c_char) -> bool {
        let mut at = text;
        loop {
            if !self.holds(at as usize) {
                return false;
            }
            // SAFETY: its page can be read, as was just made sure.
            if unsafe { *at } == 0 {
                return true;
            }
            at = at.wrapping_add(1);
        }
    }
}

/// On the stack of whoever executes: of longer ones nothing is said.
const PATH: usize = 1024;

/// Whether the library can be read. Of no other errors the loader says more than it would say of any library.
fn reach(library: &Path<PATH>) -> Result<(), Errno> {
    if !library.is_whole() {
        return Ok(());
    }
    match sys::access(library.as_c_str(), Access::Read) {
        Err(error @ (Errno::EACCES | Errno::ENOENT | Errno::ENOTDIR)) => Err(error),
        _ => Ok(()),
    }
}

/// Writes the variable with the entries that are not in `directory`; says how many they are, `None` if they do not fit.
fn write_without(to: &mut [u8; MOST_PRELOADED], libraries: &[u8], directory: &[u8]) -> Option<usize> {
    let (mut length, mut count) = (0, 0);
    let mut put = |bytes: &[u8]| {
        to.get_mut(length..length + bytes.len())?.copy_from_slice(bytes);
        length += bytes.len();
        Some(())
    };
    put(PRELOAD)?;
    for entry in entries(libraries).filter(|entry| directory_of(entry) != directory) {
        if count > 0 {
            put(b":")?;
        }
        put(entry)?;
        count += 1;
    }
    put(b"\0")?;
    Some(count)
}

fn entries(libraries: &[u8]) -> impl Iterator<Item = &[u8]> {
    libraries.split(|byte| matches!(byte, b':' | b' ')).filter(|entry| !entry.is_empty())
}

fn recorder_of(libraries: &[u8]) -> Option<&[u8]> {
    entries(libraries).find(|entry| entry.ends_with(RECORDER))
}

fn directory_of(entry: &[u8]) -> &[u8] {
    let end = entry.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    entry.get(..end).unwrap_or_default()
}

/// # Safety
/// The environment is null, or as `execve` takes it; the text must not be used longer than it.
unsafe fn preloaded<'e>(environment: *const *const c_char) -> Option<&'e [u8]> {
    // SAFETY: the caller vouches for it.
    unsafe { variable(environment, PRELOAD) }
}

/// The value of the variable that begins with `name`, which ends with `=`.
unsafe fn variable<'e>(environment: *const *const c_char, name: &[u8]) -> Option<&'e [u8]> {
    let mut place = environment;
    // SAFETY: the caller vouches for the environment, which ends with a null.
    while let Some(text) = unsafe { text_at(place) } {
        if let Some(value) = text.to_bytes().strip_prefix(name) {
            return Some(value);
        }
        // SAFETY: not the last.
        place = unsafe { place.add(1) };
    }
    None
}

unsafe fn text_at<'e>(place: *const *const c_char) -> Option<&'e CStr> {
    // SAFETY: the caller vouches for the place and what it leads to.
    unsafe {
        let text = *place.as_ref()?;
        (!text.is_null()).then(|| CStr::from_ptr(text))
    }
}

/// The environment of the calling process.
pub fn own_environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable.
    unsafe { environ }
}

/// Whether the program, or the interpreter of the script, has 32 bits. What cannot be read is taken for one of ours.
fn is_of_32_bits(path: &mut Path<PATH>) -> bool {
    const CLASS: usize = 4;
    const CLASS_32: u8 = 1;
    // As much of a first line as the kernel reads.
    let mut start = [0; 256];
    for _ in 0..=MOST_INTERPRETERS {
        let Ok(file) = sys::open(path.as_c_str(), sys::O_RDONLY | sys::O_NONBLOCK) else { return false };
        let length = sys::read(file, &mut start).unwrap_or(0);
        sys::close(file);
        let start = start.get(..length).unwrap_or_default();
        if start.starts_with(b"\x7fELF") {
            return start.get(CLASS) == Some(&CLASS_32);
        }
        let Some(interpreter) = interpreter_of(start) else { return false };
        path.clear();
        path.push(interpreter);
    }
    false
}

/// What the first line of a script names.
fn interpreter_of(start: &[u8]) -> Option<&[u8]> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())
}

#[cold]
fn tell(obstacle: Obstacle, program: &[u8]) {
    let (reason, errno) = match obstacle {
        Obstacle::Bits32 => (Reason::Bits32, Errno(0)),
        Obstacle::Unreachable(error) => (Reason::Unreachable, error),
        Obstacle::Filter => (Reason::Filter, Errno(0)),
    };
    process::tell_of_program(reason, errno, program);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;

    struct Environment(Vec<CString>, Vec<*const c_char>);

    fn environment(variables: &[&str]) -> Environment {
        let texts: Vec<CString> = variables.iter().map(|text| CString::new(*text).unwrap()).collect();
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Environment(texts, pointers)
    }

    fn without(variables: &[&str]) -> Option<Vec<String>> {
        let environment = environment(variables);
        assert_eq!(environment.0.len(), variables.len());
        let next = NextProgram { name: c"x".as_ptr(), is_searched: false, environment: environment.1.as_ptr() };
        let mut room = Without::default();
        // SAFETY: the environment lives on, and so does the room.
        unsafe {
            next.without_us(&mut room).then(|| {
                let left = (0..).map_while(|place| text_at(room.environment().add(place)));
                left.map(|text| text.to_str().unwrap().to_owned()).collect()
            })
        }
    }

    #[test]
    fn only_libraries_of_the_recorders_directory_are_left_out() {
        let ours = "LD_PRELOAD=/l/libascend_kernel_hook.so:/l/libmsmemscope_host.so";
        assert_eq!(without(&["A=1", ours, "B=2"]).unwrap(), ["A=1", "B=2"]);
        let theirs = format!("{ours} /x/y.so:/l/n/z.so");
        assert_eq!(without(&[&theirs]).unwrap(), ["LD_PRELOAD=/x/y.so:/l/n/z.so"]);
        assert_eq!(without(&["A=1", "LD_PRELOAD=/l/other.so"]), None);
        assert_eq!(without(&[]), None);
    }

    #[test]
    fn an_environment_that_is_too_large_is_left_as_it_is() {
        let ours = "LD_PRELOAD=/l/libascend_kernel_hook.so";
        let many: Vec<String> = (0..MOST_VARIABLES + 1).map(|number| format!("V{number}=")).collect();
        let with = |count: usize| many.iter().take(count).map(String::as_str).chain([ours]).collect::<Vec<_>>();
        assert_eq!(without(&with(MOST_VARIABLES)).unwrap().len(), MOST_VARIABLES);
        assert_eq!(without(&with(MOST_VARIABLES + 1)), None);
        assert_eq!(without(&[&format!("{ours}:/{}", "x".repeat(MOST_PRELOADED))]), None);
    }

    #[test]
    fn the_class_of_a_program_is_read_through_its_interpreters() {
        let directory = std::env::temp_dir().join(format!("memscope-next-program-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.join(name);
            fs::write(&path, bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let of_32 = write("a32", b"\x7fELF\x01\x01\x01");
        let of_64 = write("a64", b"\x7fELF\x02\x01\x01");
        let script = write("script", format!("#! {of_32} -e\nexit").as_bytes());
        let script_of_script = write("script2", format!("#!{script}\n").as_bytes());
        let endless = write("endless", format!("#!{}/endless\n", directory.display()).as_bytes());
        let text = write("text", b"exit");
        for (file, expected) in [
            (&of_32, true),
            (&of_64, false),
            (&script, true),
            (&script_of_script, true),
            (&endless, false),
            (&text, false),
        ] {
            let mut path = Path::new();
            path.push(file.as_bytes());
            assert_eq!(is_of_32_bits(&mut path), expected, "{file}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
