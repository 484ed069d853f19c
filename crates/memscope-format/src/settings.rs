//! What the recorder is told, and every recording repeats: `key=value;…;dir=<directory>`.
//!
//! One table has all keys; no other place spells one. The command writes the text ([`RecordSettings::encode`]), the recorder
//! reads it without allocating, and readers of a recording read it again, maybe years later: a key that is absent, or whose
//! value cannot be read, is `None`, and each reader has its own way to do without. Keys that are not known are skipped, so that a
//! newer command can talk to an older library. The table is specified in `docs/format.md`.
use core::fmt;

/// The environment variable that holds the text, and how its entry begins.
pub const VARIABLE: &str = "MSMEMSCOPE_RECORD";
pub const ENTRY: &str = "MSMEMSCOPE_RECORD=";
/// Of the text; the value of [`RecordSettings::version`].
pub const VERSION: u32 = 1;

/// What watched blocks may take on the disk if nobody says otherwise.
pub const WATCH_MAX_BYTES: u64 = 4 << 30;

/// Bits of [`RecordSettings::level`].
pub mod level {
    pub const OPERATOR: u8 = 1;
    pub const KERNEL: u8 = 2;
}

/// Bits of [`RecordSettings::events`] and [`RecordSettings::dump`].
pub mod event {
    pub const ALLOC: u8 = 1;
    pub const FREE: u8 = 2;
    pub const LAUNCH: u8 = 4;
    pub const ACCESS: u8 = 8;
    /// Calls of Python functions, which are no events of memory.
    pub const TRACEBACK: u8 = 16;
}

/// Bits of [`RecordSettings::analysis`].
pub mod analysis {
    pub const LEAKS: u8 = 1;
    pub const DECOMPOSE: u8 = 2;
    pub const INEFFICIENT: u8 = 4;
    pub const OUT_OF_MEMORY: u8 = 8;
}

macro_rules! settings {
    ($($(#[$meta:meta])* $key:literal $field:ident: $type:ty;)*) => {
        /// The settings by their names.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct RecordSettings<'a> {
            $($(#[$meta])* pub $field: Option<$type>,)*
            /// Absolute. Comes last in the text and is the rest of it, whatever bytes it holds.
            pub dir: Option<&'a [u8]>,
        }

        impl<'a> RecordSettings<'a> {
            /// Of a key that comes twice, the first counts.
            pub fn parse(text: &'a [u8]) -> RecordSettings<'a> {
                let mut settings = RecordSettings::default();
                let mut rest = text;
                while !rest.is_empty() {
                    if let Some(directory) = rest.strip_prefix(b"dir=") {
                        settings.dir = Some(directory);
                        break;
                    }
                    let (pair, tail) = split(rest, b';').unwrap_or((rest, b""));
                    if let Some((key, value)) = split(pair, b'=') {
                        settings.set(key, value);
                    }
                    rest = tail;
                }
                settings
            }

            fn set(&mut self, key: &[u8], value: &'a [u8]) {
                $(if key == $key.as_bytes() && self.$field.is_none() {
                    self.$field = <$type as Value<'a>>::read(value);
                })*
            }

            /// The text: every setting that is given, in the order of the table, and the directory.
            #[cfg(any(test, feature = "decode"))]
            pub fn encode(&self) -> Vec<u8> {
                use std::io::Write;
                let mut text = Vec::new();
                $(if let Some(value) = self.$field {
                    let _ = write!(text, "{}={};", $key, Shown(value));
                })*
                if let Some(directory) = self.dir {
                    text.extend_from_slice(b"dir=");
                    text.extend_from_slice(directory);
                }
                text
            }

            /// All keys, for the documents.
            #[cfg(test)]
            const KEYS: &'static [&'static str] = &[$($key,)* "dir"];
        }
    };
}

settings! {
    /// Of the text.
    "v" version: u32;
    /// Shared by all processes of a run.
    "run" run: u64;
    /// The user who runs the command; processes of other users ask it for files.
    "owner" owner: u32;
    /// The name the command was called by: first part of directory names.
    "brand" brand: &'a str;
    /// Seconds east of Greenwich, for the local times in file names.
    "utc" utc_offset: i32;
    /// Frames of a C stack, 0 for none.
    "c" c_depth: u32;
    /// Frames of a Python stack, 0 for none.
    "py" python_depth: u32;
    /// Whether host memory is recorded.
    "cpu" cpu: bool;
    /// NPUs, a bit each; all bits mean all, also those without a bit.
    "npu" npus: Mask;
    /// Bits: see [`level`].
    "level" level: u8;
    /// What is recorded. Bits: see [`event`].
    "events" events: u8;
    /// What the user asked for. Bits: see [`event`].
    "dump" dump: u8;
    /// Bits: see [`analysis`].
    "analysis" analysis: u8;
    /// How many holders of memory are named when it runs out.
    "oomk" oom_holders: u16;
    /// Whether tracing begins with the program's own `start`.
    "mode" deferred: bool;
    /// The steps that were chosen; empty for all.
    "steps" steps: Steps<'a>;
    /// Most bytes the spool of a process may take, 0 for no limit.
    "max" max_size: u64;
    /// The number of the form of the files; see `config.json`.
    "format" data_format: u8;
    /// Where call stacks stand in them; empty for the form's own way.
    "stacks" stacks: &'a str;
    /// 0 debug, 1 info, 2 warn, 3 error.
    "log" log_level: u8;
    /// In the option's own notation; empty for none.
    "watch" watch: Escaped<'a>;
    /// Most bytes of watched blocks that are kept, of all looks together; absent: [`WATCH_MAX_BYTES`].
    "watchmax" watch_max_bytes: u64;
    /// Whether the process ran already when its recording began; absent means no.
    "late" attached: bool;
}

impl RecordSettings<'_> {
    /// Whether stacks of either kind were asked for.
    pub fn has_stacks(&self) -> bool {
        self.c_depth.unwrap_or(0) > 0 || self.has_python_stacks()
    }

    pub fn has_python_stacks(&self) -> bool {
        self.python_depth.unwrap_or(0) > 0
    }
}

fn split(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// How a setting's value is read; [`Shown`] writes it.
trait Value<'a>: Copy {
    fn read(text: &'a [u8]) -> Option<Self>;

    #[allow(dead_code, reason = "the recorder only reads")]
    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A value as it stands in the text.
#[allow(dead_code, reason = "the recorder only reads")]
struct Shown<T>(T);

impl<'a, T: Value<'a>> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

/// Digits, and nothing else.
fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl<'a> Value<'a> for $number {
            fn read(text: &'a [u8]) -> Option<$number> {
                <$number>::try_from(unsigned(text)?).ok()
            }

            fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self, f)
            }
        })*
    };
}
numbers!(u8, u16, u32, u64);

impl<'a> Value<'a> for i32 {
    fn read(text: &'a [u8]) -> Option<i32> {
        let size = |digits| i64::try_from(unsigned(digits)?).ok();
        let number = match text.strip_prefix(b"-") {
            Some(digits) => size(digits)?.checked_neg()?,
            None => size(text)?,
        };
        i32::try_from(number).ok()
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self, f)
    }
}

/// 0 or 1.
impl<'a> Value<'a> for bool {
    fn read(text: &'a [u8]) -> Option<bool> {
        match text {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self { "1" } else { "0" })
    }
}

/// A word of ours, which needs no escapes.
impl<'a> Value<'a> for &'a str {
    fn read(text: &'a [u8]) -> Option<&'a str> {
        core::str::from_utf8(text).ok()
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Which devices, a bit each; hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask(pub u32);

impl Mask {
    pub const NONE: Mask = Mask(0);
    pub const ALL: Mask = Mask(u32::MAX);
}

impl<'a> Value<'a> for Mask {
    fn read(text: &'a [u8]) -> Option<Mask> {
        if text.is_empty() || text.len() > 8 {
            return None;
        }
        let digits = text.iter().try_fold(0u32, |mask, byte| {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => return None,
            };
            Some(mask << 4 | u32::from(digit))
        });
        digits.map(Mask)
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Numbers of steps, separated by `+`. What is no number is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps<'a>(&'a str);

impl<'a> Steps<'a> {
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.split('+').filter_map(|number| <u32 as Value>::read(number.as_bytes()))
    }

    /// The text of these steps, for [`Steps::of`].
    #[cfg(any(test, feature = "decode"))]
    pub fn join(steps: &[u32]) -> String {
        steps.iter().map(u32::to_string).collect::<Vec<_>>().join("+")
    }

    /// What [`Steps::join`] made.
    pub fn of(text: &'a str) -> Steps<'a> {
        Steps(text)
    }
}

impl<'a> Value<'a> for Steps<'a> {
    fn read(text: &'a [u8]) -> Option<Steps<'a>> {
        <&str>::read(text).map(Steps)
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Free text, in which `;` and `%` are written as `%3B` and `%25`. As shown by `Display` it has none of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Escaped<'a>(&'a str);

impl<'a> Escaped<'a> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes without the escapes, where there is no memory to put them into.
    pub fn for_each_byte(self, mut visit: impl FnMut(u8)) {
        let mut rest = self.0.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            let (plain, tail) = match (first, tail) {
                (b'%', [b'3', b'B' | b'b', tail @ ..]) => (b';', tail),
                (b'%', [b'2', b'5', tail @ ..]) => (b'%', tail),
                _ => (*first, tail),
            };
            visit(plain);
            rest = tail;
        }
    }

    /// The text with escapes, for [`Escaped::of`].
    #[cfg(any(test, feature = "decode"))]
    pub fn escape(plain: &str) -> String {
        plain.replace('%', "%25").replace(';', "%3B")
    }

    /// What [`Escaped::escape`] made.
    pub fn of(escaped: &'a str) -> Escaped<'a> {
        Escaped(escaped)
    }
}

impl<'a> Value<'a> for Escaped<'a> {
    fn read(text: &'a [u8]) -> Option<Escaped<'a>> {
        <&str>::read(text).map(Escaped)
    }

    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A percent sign that begins no escape stays what it is.
impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, after)) = rest.split_once('%') {
            f.write_str(before)?;
            let (plain, length) = match after.get(..2) {
                Some("3B" | "3b") => (";", 2),
                Some("25") => ("%", 2),
                _ => ("%", 0),
            };
            f.write_str(plain)?;
            rest = after.get(length..).unwrap_or_default();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: RecordSettings<'static> = RecordSettings {
        version: Some(VERSION),
        run: Some(u64::MAX),
        owner: Some(1000),
        brand: Some("msleaks"),
        utc_offset: Some(-12_600),
        c_depth: Some(50),
        python_depth: Some(1000),
        cpu: Some(true),
        npus: Some(Mask::ALL),
        level: Some(3),
        events: Some(15),
        dump: Some(7),
        analysis: Some(9),
        oom_holders: Some(10),
        deferred: Some(true),
        steps: Some(Steps("1+4294967295+3")),
        max_size: Some(2 << 30),
        data_format: Some(1),
        stacks: Some("inline"),
        log_level: Some(3),
        watch: Some(Escaped("op%3B0%2525:1,op1,full-content")),
        watch_max_bytes: Some(1 << 20),
        attached: Some(true),
        dir: Some(b"/tmp/a b;c"),
    };

    #[test]
    fn the_text_is_what_recorders_expect() {
        assert_eq!(
            String::from_utf8(ALL.encode()).unwrap(),
            "v=1;run=18446744073709551615;owner=1000;brand=msleaks;utc=-12600;c=50;py=1000;cpu=1;npu=ffffffff;level=3;\
             events=15;dump=7;analysis=9;oomk=10;mode=1;steps=1+4294967295+3;max=2147483648;format=1;stacks=inline;log=3;\
             watch=op%3B0%2525:1,op1,full-content;watchmax=1048576;late=1;dir=/tmp/a b;c"
        );
    }

    #[test]
    fn what_is_given_comes_back_and_what_is_not_does_not() {
        for settings in [
            ALL,
            RecordSettings::default(),
            RecordSettings { run: Some(0), npus: Some(Mask(1 << 31)), cpu: Some(false), ..RecordSettings::default() },
            RecordSettings { steps: Some(Steps("")), watch: Some(Escaped("")), dir: Some(b""), ..ALL },
            RecordSettings { dir: Some(b"/x;dir=y;v=2;%3B=\n\xff"), utc_offset: Some(i32::MIN), ..ALL },
        ] {
            assert_eq!(RecordSettings::parse(&settings.encode()), settings);
        }
    }

    #[test]
    fn what_cannot_be_read_is_absent_and_unknown_keys_are_skipped() {
        let text = b"new=7;;=;c;v=;run=18446744073709551616;c=fifty;c=5;py=-1;cpu=2;npu=fffffffff;utc=+1;log=256;brand=\xff;dir=/a";
        let dir = Some(b"/a".as_slice());
        assert_eq!(RecordSettings::parse(text), RecordSettings { c_depth: Some(5), dir, ..RecordSettings::default() });
        assert_eq!(RecordSettings::parse(b"c=7").c_depth, Some(7));
        assert_eq!(RecordSettings::parse(b"c=7;c=8;dir=").c_depth, Some(7));
    }

    #[test]
    fn steps_are_numbers_and_nothing_else() {
        assert_eq!(Steps(&Steps::join(&[3, 1, u32::MAX])).iter().collect::<Vec<_>>(), [3, 1, u32::MAX]);
        assert_eq!(Steps("+1++x+4294967296+7").iter().collect::<Vec<_>>(), [1, 7]);
    }

    #[test]
    fn a_percent_sign_that_begins_no_escape_stays() {
        assert_eq!(Escaped("%;%3;%3é%2525%3b%").to_string(), "%;%3;%3é%25;%");
    }

    #[test]
    fn every_key_is_documented() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let document = std::fs::read_to_string(document).unwrap();
        let table = document.split("## Settings").nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        let documented: Vec<&str> = rows.flat_map(|keys| keys.split('`').skip(1).step_by(2)).collect();
        let (mut documented, mut keys) = (documented, RecordSettings::KEYS.to_vec());
        documented.sort_unstable();
        keys.sort_unstable();
        assert_eq!(documented, keys);
    }

    proptest! {
        #[test]
        fn any_text_with_escapes_comes_back(plain in ".*") {
            let escaped = Escaped::escape(&plain);
            prop_assert!(!escaped.contains(';'));
            let mut bytes = Vec::new();
            Escaped(&escaped).for_each_byte(|byte| bytes.push(byte));
            prop_assert_eq!(bytes, plain.as_bytes());
            prop_assert_eq!(Escaped(&escaped).to_string(), plain);
        }

        #[test]
        fn any_bytes_are_settings(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let settings = RecordSettings::parse(&text);
            let written = settings.encode();
            prop_assert_eq!(RecordSettings::parse(&written), settings);
        }
    }
}
