//! The recorder's settings: one environment variable, read once per process image.
use crate::watch::Spec;
use core::ffi::{CStr, c_char};
use memscope_format::layout::CONFIG_CAPACITY;
use memscope_format::settings::{ENTRY, Mask, RecordSettings, event, level};

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
    pub(crate) watch: Spec,
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
    /// Operators of torch, of whichever devices were asked for: level `op` and event `launch`.
    pub aten_operators: bool,
    /// What they are given: level `op` and event `access`.
    pub aten_accesses: bool,
    /// Calls of Python functions: event `traceback`.
    pub traceback: bool,
}

impl Wanted {
    pub(crate) const NOTHING: Wanted = Wanted {
        operators: false,
        kernels: false,
        accesses: false,
        kernel_accesses: false,
        aten_operators: false,
        aten_accesses: false,
        traceback: false,
    };

    fn of(settings: &RecordSettings<'_>) -> Wanted {
        let (levels, events) = (settings.level.unwrap_or(0), settings.events.unwrap_or(0));
        let (launch, accesses) = (events & event::LAUNCH != 0, events & event::ACCESS != 0);
        let (operator, kernel) = (levels & level::OPERATOR != 0, levels & level::KERNEL != 0);
        let aten = Wanted {
            aten_operators: launch && operator,
            aten_accesses: accesses && operator,
            traceback: events & event::TRACEBACK != 0,
            ..Wanted::NOTHING
        };
        // All others are of NPUs; a mask without any asks for none.
        if settings.npus == Some(Mask::NONE) {
            return aten;
        }
        Wanted {
            operators: launch && operator,
            kernels: launch && kernel,
            accesses,
            kernel_accesses: accesses && kernel,
            ..aten
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
            watch: Spec::NOTHING,
        }
    }

    /// Parses the variable's value; `None` if it is too long or names no directory.
    pub(crate) fn parse(value: &[u8]) -> Option<Config> {
        let mut config = Config::empty();
        config.text.get_mut(..value.len())?.copy_from_slice(value);
        config.length = value.len();
        config.directory()?;
        let settings = RecordSettings::parse(value);
        let depth = |depth: Option<u32>| depth.unwrap_or(0).min(1000) as usize;
        config.run_id = settings.run.unwrap_or(0);
        config.owner = settings.owner;
        config.utc_offset_seconds = i64::from(settings.utc_offset.unwrap_or(0));
        config.c_depth = depth(settings.c_depth);
        config.python_depth = depth(settings.python_depth);
        config.deferred = settings.deferred == Some(true);
        config.wanted = Wanted::of(&settings);
        config.host = settings.cpu == Some(true);
        config.size_cap = settings.max_size.unwrap_or(0);
        config.watch = Spec::of(&settings);
        Some(config)
    }

    fn settings(&self) -> RecordSettings<'_> {
        RecordSettings::parse(self.text())
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }

    /// Where process directories are made.
    pub(crate) fn directory(&self) -> Option<&[u8]> {
        self.settings().dir.filter(|directory| directory.first() == Some(&b'/'))
    }

    /// The first part of a process directory's name.
    pub(crate) fn brand(&self) -> &[u8] {
        match self.settings().brand {
            Some("msleaks") => b"msleaks",
            _ => b"msmemscope",
        }
    }
}

/// Looks the settings up in the environment the process was started with.
///
/// The loader calls malloc, and so us, before libc has set `environ`; then the kernel's copy is read.
pub(crate) fn from_environment() -> Option<Config> {
    match environment() {
        Some(_) => Config::parse(variable(ENTRY.as_bytes())?),
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
    let mut found = [0u8; ENTRY.len() + CONFIG_CAPACITY];
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
            if let Some(value) = found.get(..length).and_then(|entry| entry.strip_prefix(ENTRY.as_bytes())) {
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
        let aten = |aten_operators, aten_accesses| Wanted { aten_operators, aten_accesses, ..Wanted::NOTHING };
        let operators = Wanted { operators: true, ..aten(true, false) };
        assert_eq!(wanted("level=1;events=7"), operators);
        let all = Wanted { operators: true, kernels: true, accesses: true, kernel_accesses: true, ..aten(true, true) };
        assert_eq!(wanted("level=3;events=15"), all);
        assert_eq!(wanted("level=3;events=3"), Wanted::NOTHING);
        assert_eq!(wanted("level=1;events=15"), Wanted { accesses: true, aten_accesses: true, ..operators });
        assert_eq!(wanted("level=2;events=8"), Wanted { accesses: true, kernel_accesses: true, ..Wanted::NOTHING });
        assert_eq!(wanted("npu=0;level=3;events=15"), aten(true, true));
        assert_eq!(wanted("npu=1;level=3;events=15"), all);
        assert_eq!(wanted("npu=0;events=16"), Wanted { traceback: true, ..Wanted::NOTHING });
        assert_eq!(wanted("level=3;events=31"), Wanted { traceback: true, ..all });
    }

    #[test]
    fn a_value_without_an_absolute_directory_is_refused() {
        assert!(Config::parse(b"v=1;run=3").is_none());
        assert!(Config::parse(b"v=1;dir=relative").is_none());
        assert!(Config::parse(&[b'a'; CONFIG_CAPACITY + 1]).is_none());
    }
}
