//! The recorder's settings: one environment variable, `key=value;…;dir=path`, read once per process image.
use core::ffi::{CStr, c_char};
use memscope_format::layout::CONFIG_CAPACITY;

/// Set by the launcher; see `docs/format.md` for the keys.
pub(crate) const VARIABLE: &[u8] = b"MSMEMSCOPE_RECORD=";

/// What the launcher asked for, in the form the hot path wants it.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// The variable's value, kept whole for the spool's header.
    text: [u8; CONFIG_CAPACITY],
    length: usize,
    pub(crate) run_id: u64,
    /// The user whose command keeps the run; `None` if no command does.
    pub(crate) owner: Option<u32>,
    pub(crate) utc_offset_seconds: i64,
    pub(crate) c_depth: usize,
    pub(crate) python_depth: usize,
    /// Bytes a process may write, 0 for no limit.
    pub(crate) size_cap: u64,
    /// Tracing begins with the program's own `start`.
    pub(crate) deferred: bool,
    pub(crate) wanted: Wanted,
    /// Host memory is recorded too.
    pub(crate) host: bool,
}

/// Which events besides those of memory the user asked for; memory's are always recorded, because later ones are
/// understood from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Launches of operators: level `op` and event `launch`.
    pub operators: bool,
    /// Launches of kernels: level `kernel` and event `launch`.
    pub kernels: bool,
    /// Accesses to tensors: event `access`.
    pub accesses: bool,
    /// Those of kernels too: level `kernel`.
    pub kernel_accesses: bool,
}

impl Wanted {
    pub(crate) const NOTHING: Wanted =
        Wanted { operators: false, kernels: false, accesses: false, kernel_accesses: false };

    /// From the bits of the settings: level 1 op, 2 kernel; events 4 launch, 8 access.
    fn from_bits(level: i64, events: i64) -> Wanted {
        let (launch, accesses, kernel) = (events & 4 != 0, events & 8 != 0, level & 2 != 0);
        Wanted {
            operators: launch && level & 1 != 0,
            kernels: launch && kernel,
            accesses,
            kernel_accesses: accesses && kernel,
        }
    }
}

impl Config {
    pub(crate) const fn empty() -> Config {
        Config {
            text: [0; CONFIG_CAPACITY],
            length: 0,
            run_id: 0,
            owner: None,
            utc_offset_seconds: 0,
            c_depth: 0,
            python_depth: 0,
            size_cap: 0,
            deferred: false,
            wanted: Wanted::NOTHING,
            host: false,
        }
    }

    /// Parses the variable's value; `None` if it is too long or names no directory.
    pub(crate) fn parse(value: &[u8]) -> Option<Config> {
        let mut config = Config::empty();
        config.text.get_mut(..value.len())?.copy_from_slice(value);
        config.length = value.len();
        config.directory()?;
        config.run_id = config.number(b"run").unwrap_or(0) as u64;
        config.owner = config.number(b"owner").and_then(|owner| u32::try_from(owner).ok());
        config.utc_offset_seconds = config.number(b"utc").unwrap_or(0);
        config.c_depth = config.number(b"c").unwrap_or(0).clamp(0, 1000) as usize;
        config.python_depth = config.number(b"py").unwrap_or(0).clamp(0, 1000) as usize;
        config.deferred = config.number(b"mode") == Some(1);
        // Launches and accesses are those of NPUs; a mask without any asks for none.
        if config.value(b"npu") != Some(b"0") {
            let (level, events) = (config.number(b"level"), config.number(b"events"));
            config.wanted = Wanted::from_bits(level.unwrap_or(0), events.unwrap_or(0));
        }
        config.host = config.number(b"cpu") == Some(1);
        config.size_cap = config.number(b"max").unwrap_or(0).max(0) as u64;
        Some(config)
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }

    /// Where process directories are made.
    pub(crate) fn directory(&self) -> Option<&[u8]> {
        self.value(b"dir").filter(|directory| directory.first() == Some(&b'/'))
    }

    /// The first part of a process directory's name.
    pub(crate) fn brand(&self) -> &[u8] {
        match self.value(b"brand") {
            Some(b"msleaks") => b"msleaks",
            _ => b"msmemscope",
        }
    }

    fn number(&self, key: &[u8]) -> Option<i64> {
        let value = self.value(key)?;
        let (negative, digits) = match value.split_first()? {
            (b'-', rest) => (true, rest),
            _ => (false, value),
        };
        // Run ids use all 64 bits: wrap instead of failing.
        let mut number = 0i64;
        for digit in digits {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        }
        Some(if negative { number.wrapping_neg() } else { number })
    }

    /// The value of `key`. `dir` comes last and takes the rest, so that a path may hold a semicolon.
    fn value(&self, key: &[u8]) -> Option<&[u8]> {
        let mut rest = self.text();
        loop {
            if let Some(directory) = rest.strip_prefix(b"dir=") {
                return (key == b"dir").then_some(directory);
            }
            let end = rest.iter().position(|byte| *byte == b';')?;
            let (pair, tail) = rest.split_at(end);
            if let Some(value) = pair.strip_prefix(key).and_then(|after| after.strip_prefix(b"=")) {
                return Some(value);
            }
            rest = tail.get(1..)?;
        }
    }
}

/// Looks the settings up in the environment the process was started with.
///
/// The loader calls malloc, and so us, before libc has set `environ`; then the kernel's copy is read.
pub(crate) fn from_environment() -> Option<Config> {
    match environment() {
        Some(_) => Config::parse(variable(VARIABLE)?),
        None => from_kernel(),
    }
}

/// The value of an environment variable, given its name and `=`, as it stands now.
pub(crate) fn variable(name_and_equals: &[u8]) -> Option<&'static [u8]> {
    let mut entry = environment()?;
    // SAFETY: a null-terminated array of C strings. Programs that change their environment while other threads run
    // break `getenv` itself; we look only at the first event and at the first device event.
    unsafe {
        while !(*entry).is_null() {
            if let Some(value) = CStr::from_ptr(*entry).to_bytes().strip_prefix(name_and_equals) {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

/// libc's `environ`, once libc has set it.
fn environment() -> Option<*const *const c_char> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: reads one pointer, null or valid.
    let first = unsafe { environ };
    (!first.is_null()).then_some(first)
}

/// Reads `/proc/self/environ` piecewise; only our variable is kept.
fn from_kernel() -> Option<Config> {
    let file = memscope_sys::open(c"/proc/self/environ", memscope_sys::O_RDONLY).ok()?;
    let mut found = [0u8; VARIABLE.len() + CONFIG_CAPACITY];
    let mut length = 0usize;
    let mut chunk = [0u8; 512];
    let mut config = None;
    'file: while let Ok(read @ 1..) = memscope_sys::read(file, &mut chunk) {
        for byte in chunk.get(..read).unwrap_or_default() {
            if *byte != 0 {
                // Longer entries than ours can be are not ours; the prefix check then fails on nothing we keep.
                if let Some(place) = found.get_mut(length) {
                    *place = *byte;
                }
                length += 1;
                continue;
            }
            if let Some(value) = found.get(..length).and_then(|entry| entry.strip_prefix(VARIABLE)) {
                config = Config::parse(value);
                break 'file;
            }
            length = 0;
        }
    }
    memscope_sys::close(file);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_key_and_the_directory_takes_the_rest() {
        let config =
            Config::parse(b"v=1;run=18446744073709551615;brand=msleaks;utc=-3600;c=50;py=20;max=7;dir=/a;c=3").unwrap();
        assert_eq!(config.run_id, u64::MAX);
        assert_eq!(config.utc_offset_seconds, -3600);
        assert_eq!((config.c_depth, config.python_depth, config.size_cap), (50, 20, 7));
        assert_eq!(config.directory(), Some(b"/a;c=3".as_slice()));
        assert_eq!(config.brand(), b"msleaks");
    }

    #[test]
    fn launches_need_their_level_and_the_event() {
        let wanted = |settings: &str| Config::parse(format!("v=1;{settings};dir=/a").as_bytes()).unwrap().wanted;
        let operators = Wanted { operators: true, ..Wanted::NOTHING };
        assert_eq!(wanted("level=1;events=7"), operators);
        let all = Wanted { operators: true, kernels: true, accesses: true, kernel_accesses: true };
        assert_eq!(wanted("level=3;events=15"), all);
        assert_eq!(wanted("level=3;events=3"), Wanted::NOTHING);
        assert_eq!(wanted("level=1;events=15"), Wanted { accesses: true, ..operators });
        assert_eq!(wanted("npu=0;level=3;events=15"), Wanted::NOTHING);
        assert_eq!(wanted("npu=1;level=3;events=15"), all);
    }

    #[test]
    fn a_value_without_an_absolute_directory_is_refused() {
        assert!(Config::parse(b"v=1;run=3").is_none());
        assert!(Config::parse(b"v=1;dir=relative").is_none());
        assert!(Config::parse(&[b'a'; CONFIG_CAPACITY + 1]).is_none());
    }
}
