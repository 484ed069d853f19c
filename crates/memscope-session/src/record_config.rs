//! What the recorder is told, as one environment string: `key=value;…;dir=<directory>`.
//!
//! `dir` comes last and its value is the rest of the string, whatever bytes it holds. Numbers are decimal but for
//! `npu`, which is a hexadecimal mask. Free text has `;` and `%` written as `%3B` and `%25`. A reader skips keys it
//! does not know, so that a newer command can talk to an older library of the same version `v`.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use memscope_format::layout::CONFIG_CAPACITY;
use thiserror::Error;

use crate::brand::Brand;
use crate::settings::{CollectMode, Format, LogLevel, Settings, StackForm};

const VERSION: u64 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordConfig {
    /// Shared by all processes of a run.
    pub run: u64,
    /// The user who runs the command; processes of other users ask it for files.
    pub owner: u32,
    pub brand: Brand,
    /// Seconds east of Greenwich, for the local times in file names.
    pub utc_offset: i32,
    /// Ticks of the time-stamp counter in a second; 0: the recorder measures.
    pub ticks_per_second: u64,
    /// 0: none.
    pub c_depth: u16,
    pub python_depth: u16,
    pub cpu: bool,
    pub npu_mask: u32,
    /// Bits: 1 op, 2 kernel.
    pub level: u8,
    /// Bits: 1 alloc, 2 free, 4 launch, 8 access. What is recorded.
    pub events: u8,
    /// The same bits. What the user asked for.
    pub dump: u8,
    /// Bits: 1 leaks, 2 decompose, 4 inefficient, 8 oom.
    pub analysis: u8,
    pub oom_holders: u16,
    pub collect_mode: CollectMode,
    pub steps: Vec<u32>,
    /// 0: no limit.
    pub max_size: u64,
    pub data_format: Format,
    /// `None`: of the host in a table, of devices in the rows.
    pub stacks: Option<StackForm>,
    pub log_level: LogLevel,
    /// In the option's own notation; empty: none.
    pub watch: String,
    /// Absolute.
    pub dir: PathBuf,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordConfigError {
    #[error("the configuration has no '{0}'")]
    Missing(&'static str),
    #[error("the configuration has a bad value for '{0}'")]
    Bad(&'static str),
    #[error("the configuration has version {0}, this is version 1")]
    Version(u64),
}

impl RecordConfig {
    pub fn of(settings: &Settings, run: u64, utc_offset: i32) -> Self {
        let depth = |depth: Option<std::num::NonZeroU16>| depth.map_or(0, std::num::NonZeroU16::get);
        Self {
            run,
            owner: rustix::process::getuid().as_raw(),
            brand: settings.brand,
            utc_offset,
            ticks_per_second: 0,
            c_depth: depth(settings.call_stacks.c),
            python_depth: depth(settings.call_stacks.python),
            cpu: settings.devices.cpu,
            npu_mask: settings.devices.npu.mask(),
            level: settings.level.bits(),
            events: settings.collected().bits(),
            dump: settings.dump.bits(),
            analysis: settings.analysis.bits(),
            oom_holders: depth(settings.analysis.oom),
            collect_mode: settings.collect_mode,
            steps: settings.steps.clone(),
            max_size: settings.max_size.unwrap_or(0),
            data_format: settings.data_format,
            stacks: settings.stacks,
            log_level: settings.log_level,
            watch: settings.watch.as_ref().map(ToString::to_string).unwrap_or_default(),
            dir: settings.output_dir.clone(),
        }
    }

    /// The longest directory with which the whole still fits into what a recorder reads, whatever the run id.
    pub fn longest_dir(&self) -> usize {
        let others = Self { run: u64::MAX, dir: PathBuf::new(), ..self.clone() }.encode().len();
        CONFIG_CAPACITY.saturating_sub(others)
    }

    pub fn encode(&self) -> OsString {
        let steps: Vec<String> = self.steps.iter().map(u32::to_string).collect();
        let text = format!(
            "v={VERSION};run={};owner={};brand={};utc={};hz={};c={};py={};cpu={};npu={:x};level={};events={};dump={};\
             analysis={};oomk={};mode={};steps={};max={};format={};stacks={};log={};watch={};dir=",
            self.run,
            self.owner,
            self.brand.name(),
            self.utc_offset,
            self.ticks_per_second,
            self.c_depth,
            self.python_depth,
            u8::from(self.cpu),
            self.npu_mask,
            self.level,
            self.events,
            self.dump,
            self.analysis,
            self.oom_holders,
            match self.collect_mode {
                CollectMode::Immediate => 0,
                CollectMode::Deferred => 1,
            },
            steps.join("+"),
            self.max_size,
            self.data_format.code(),
            self.stacks.map_or("", StackForm::word),
            match self.log_level {
                LogLevel::Debug => 0,
                LogLevel::Info => 1,
                LogLevel::Warn => 2,
                LogLevel::Error => 3,
            },
            escape(&self.watch),
        );
        let mut whole = OsString::from(text);
        whole.push(&self.dir);
        whole
    }

    pub fn parse(text: &OsStr) -> Result<Self, RecordConfigError> {
        let fields = Fields::split(text)?;
        let version = fields.number("v")?;
        if version != VERSION {
            return Err(RecordConfigError::Version(version));
        }
        let npu_mask = u32::from_str_radix(fields.text("npu")?, 16).map_err(|_| RecordConfigError::Bad("npu"))?;
        let steps = match fields.text("steps")? {
            "" => Vec::new(),
            steps => {
                let steps: Result<_, _> = steps.split('+').map(str::parse).collect();
                steps.map_err(|_| RecordConfigError::Bad("steps"))?
            }
        };
        Ok(Self {
            run: fields.number("run")?,
            owner: fields.number("owner")?,
            brand: Brand::from_name(fields.text("brand")?).ok_or(RecordConfigError::Bad("brand"))?,
            utc_offset: fields.number("utc")?,
            ticks_per_second: fields.number("hz")?,
            c_depth: fields.number("c")?,
            python_depth: fields.number("py")?,
            cpu: fields.choice("cpu", &[false, true])?,
            npu_mask,
            level: fields.number("level")?,
            events: fields.number("events")?,
            dump: fields.number("dump")?,
            analysis: fields.number("analysis")?,
            oom_holders: fields.number("oomk")?,
            collect_mode: fields.choice("mode", &[CollectMode::Immediate, CollectMode::Deferred])?,
            steps,
            max_size: fields.number("max")?,
            data_format: Format::from_code(fields.number("format")?).ok_or(RecordConfigError::Bad("format"))?,
            stacks: match fields.text("stacks")? {
                "" => None,
                word => Some(StackForm::from_word(word).ok_or(RecordConfigError::Bad("stacks"))?),
            },
            log_level: fields.choice("log", &[LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error])?,
            watch: unescape(fields.text("watch")?).ok_or(RecordConfigError::Bad("watch"))?,
            dir: fields.dir,
        })
    }
}

/// The string cut at its semicolons, values still as text.
struct Fields<'a> {
    pairs: Vec<(&'a [u8], &'a [u8])>,
    dir: PathBuf,
}

impl<'a> Fields<'a> {
    fn split(text: &'a OsStr) -> Result<Self, RecordConfigError> {
        let mut rest = text.as_bytes();
        let mut pairs = Vec::new();
        while !rest.starts_with(b"dir=") {
            let Some(end) = rest.iter().position(|byte| *byte == b';') else {
                return Err(RecordConfigError::Missing("dir"));
            };
            let (pair, tail) = (&rest[..end], &rest[end + 1..]);
            if let Some(equals) = pair.iter().position(|byte| *byte == b'=') {
                pairs.push((&pair[..equals], &pair[equals + 1..]));
            }
            rest = tail;
        }
        Ok(Self { pairs, dir: PathBuf::from(OsString::from_vec(rest[b"dir=".len()..].to_vec())) })
    }

    fn text(&self, key: &'static str) -> Result<&'a str, RecordConfigError> {
        let found = self.pairs.iter().find(|(name, _)| *name == key.as_bytes());
        let (_, value) = found.ok_or(RecordConfigError::Missing(key))?;
        std::str::from_utf8(value).map_err(|_| RecordConfigError::Bad(key))
    }

    fn number<T: std::str::FromStr>(&self, key: &'static str) -> Result<T, RecordConfigError> {
        self.text(key)?.parse().map_err(|_| RecordConfigError::Bad(key))
    }

    fn choice<T: Copy>(&self, key: &'static str, choices: &[T]) -> Result<T, RecordConfigError> {
        choices.get(self.number::<usize>(key)?).copied().ok_or(RecordConfigError::Bad(key))
    }
}

fn escape(text: &str) -> String {
    text.replace('%', "%25").replace(';', "%3B")
}

fn unescape(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut plain = pieces.next()?.to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        plain.push(match code {
            "25" => '%',
            "3B" => ';',
            _ => return None,
        });
        plain.push_str(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RecordConfig {
        RecordConfig {
            run: u64::MAX,
            owner: 1000,
            brand: Brand::MsMemScope,
            utc_offset: -12_600,
            ticks_per_second: 0,
            c_depth: 50,
            python_depth: 1000,
            cpu: true,
            npu_mask: u32::MAX,
            level: 3,
            events: 15,
            dump: 7,
            analysis: 9,
            oom_holders: 10,
            collect_mode: CollectMode::Deferred,
            steps: vec![1, 4_294_967_295, 3],
            max_size: 2 << 30,
            data_format: Format::Db,
            stacks: Some(StackForm::Inline),
            log_level: LogLevel::Error,
            watch: String::from("op;0%25:1,op1,full-content"),
            dir: PathBuf::from("/tmp/a b"),
        }
    }

    #[test]
    fn the_string_is_what_the_recorder_expects() {
        assert_eq!(
            sample().encode(),
            "v=1;run=18446744073709551615;owner=1000;brand=msmemscope;utc=-12600;hz=0;c=50;py=1000;cpu=1;npu=ffffffff;level=3;\
             events=15;dump=7;analysis=9;oomk=10;mode=1;steps=1+4294967295+3;max=2147483648;format=1;stacks=inline;log=3;\
             watch=op%3B0%2525:1,op1,full-content;dir=/tmp/a b"
        );
    }

    #[test]
    fn every_configuration_comes_back_as_it_was() {
        let variants = [
            sample(),
            RecordConfig { brand: Brand::MsLeaks, utc_offset: 28_800, cpu: false, npu_mask: 0, ..sample() },
            RecordConfig { steps: Vec::new(), watch: String::new(), max_size: 0, npu_mask: 1 << 31, ..sample() },
            RecordConfig {
                collect_mode: CollectMode::Immediate,
                data_format: Format::NoFiles,
                stacks: None,
                log_level: LogLevel::Debug,
                ..sample()
            },
            RecordConfig { dir: PathBuf::from("/tmp/x;dir=y;v=2;%3B=\n"), ..sample() },
            RecordConfig { dir: PathBuf::from(OsString::from_vec(b"/\xff\xfe\xef\xbc\x8c;".to_vec())), ..sample() },
            RecordConfig { watch: String::from("dir=;%%;%3B,权重"), ..sample() },
        ];
        for config in variants {
            assert_eq!(RecordConfig::parse(&config.encode()), Ok(config));
        }
    }

    #[test]
    fn unknown_keys_are_skipped() {
        let mut text = OsString::from("new=7;");
        text.push(sample().encode());
        assert_eq!(RecordConfig::parse(&text), Ok(sample()));
    }

    #[test]
    fn a_damaged_string_names_the_key() {
        let whole = sample().encode().into_string().unwrap();
        for (from, to, expected) in [
            ("v=1;", "v=2;", RecordConfigError::Version(2)),
            ("v=1;", "", RecordConfigError::Missing("v")),
            ("dir=", "", RecordConfigError::Missing("dir")),
            ("c=50", "c=fifty", RecordConfigError::Bad("c")),
            ("c=50", "c=70000", RecordConfigError::Bad("c")),
            ("cpu=1", "cpu=2", RecordConfigError::Bad("cpu")),
            ("npu=ffffffff", "npu=fffffffff", RecordConfigError::Bad("npu")),
            ("steps=1+", "steps=+", RecordConfigError::Bad("steps")),
            ("log=3", "log=4", RecordConfigError::Bad("log")),
            ("format=1", "format=77", RecordConfigError::Bad("format")),
            ("stacks=inline", "stacks=x", RecordConfigError::Bad("stacks")),
            ("%2525", "%2", RecordConfigError::Bad("watch")),
            ("brand=msmemscope", "brand=x", RecordConfigError::Bad("brand")),
        ] {
            let damaged = whole.replace(from, to);
            assert_ne!(damaged, whole, "{from}");
            assert_eq!(RecordConfig::parse(OsStr::new(&damaged)), Err(expected), "{from} -> {to}");
        }
    }
}
