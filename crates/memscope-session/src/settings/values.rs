//! The grammar of each option's value. Lists are separated by `,` or by the full-width `，`; blanks around an item do
//! not count, duplicates merge, an item left empty is a mistake.
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU16;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use memscope_model::Inefficiencies;

use super::{
    Analysis, CallStacks, CollectMode, Devices, EventSet, Format, LevelSet, LogLevel, NpuSelection, StackForm,
};

const FULL_WIDTH_COMMA: char = '，';
const DEFAULT_DEPTH: u16 = 50;
const MAX_DEPTH: u16 = 1000;
pub const DEFAULT_OOM_HOLDERS: u16 = 10;
const MAX_OOM_HOLDERS: u16 = 1000;
const MAX_NPU: u32 = 31;
const MAX_OPERATOR_NAME: usize = 254;
const MAX_PATH_CHARS: usize = 4096;

/// Why a value is refused. The caller adds the option and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The part that is wrong, as typed.
    pub item: String,
    /// "" where the list of allowed values says enough.
    pub reason: &'static str,
}

impl Refused {
    fn item(item: &str) -> Self {
        Self { item: item.to_owned(), reason: "" }
    }

    fn because(item: &str, reason: &'static str) -> Self {
        Self { item: item.to_owned(), reason }
    }
}

type Parsed<T> = Result<T, Refused>;

fn items(value: &str) -> impl Iterator<Item = Parsed<&str>> {
    value
        .split([',', FULL_WIDTH_COMMA])
        .map(str::trim)
        .map(|item| if item.is_empty() { Err(Refused::because(item, "an item is empty")) } else { Ok(item) })
}

/// Digits only: no sign, no blanks, and no leading zero, which half of the readers take for octal.
fn decimal(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a number");
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err("leading zero");
    }
    text.parse().map_err(|_| "too large")
}

fn decimal_within(item: &str, text: &str, lowest: u64, highest: u64) -> Parsed<u64> {
    let number = decimal(text).map_err(|reason| Refused::because(item, reason))?;
    if (lowest..=highest).contains(&number) { Ok(number) } else { Err(Refused::because(item, "out of range")) }
}

fn small_within(item: &str, text: &str, lowest: u16, highest: u16) -> Parsed<u16> {
    let number = decimal_within(item, text, lowest.into(), highest.into())?;
    u16::try_from(number).map_err(|_| Refused::because(item, "out of range"))
}

pub fn steps(value: &str) -> Parsed<Vec<u32>> {
    let mut steps = Vec::new();
    for item in items(value) {
        let item = item?;
        let step = decimal_within(item, item, 1, u32::MAX.into())?;
        let step = u32::try_from(step).map_err(|_| Refused::because(item, "out of range"))?;
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    Ok(steps)
}

pub fn devices(value: &str) -> Parsed<Devices> {
    let mut devices = Devices { npu: NpuSelection::None, cpu: false };
    for item in items(value) {
        match item? {
            "cpu" => devices.cpu = true,
            "npu" => devices.npu = NpuSelection::All,
            item => {
                let number = item.strip_prefix("npu:").ok_or_else(|| Refused::item(item))?;
                let bit = 1u32 << decimal_within(item, number, 0, MAX_NPU.into())?;
                devices.npu = match devices.npu {
                    NpuSelection::None => NpuSelection::Set(bit),
                    NpuSelection::Set(mask) => NpuSelection::Set(mask | bit),
                    NpuSelection::All => NpuSelection::All,
                };
            }
        }
    }
    Ok(devices)
}

/// Empty: neither.
pub fn level(value: &str) -> Parsed<LevelSet> {
    let mut level = LevelSet::NONE;
    if value.trim().is_empty() {
        return Ok(level);
    }
    for item in items(value) {
        level |= match item? {
            "0" | "op" => LevelSet::OP,
            "1" | "kernel" => LevelSet::KERNEL,
            item => return Err(Refused::item(item)),
        };
    }
    Ok(level)
}

/// A list that `none` can clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clearable<T> {
    pub chosen: T,
    /// `none` stood beside other items and won.
    pub none_won: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Events {
    pub dump: EventSet,
    pub traceback: bool,
}

impl Events {
    pub const NONE: Self = Self { dump: EventSet::NONE, traceback: false };
}

/// Empty is `none`, as in the Python interface.
pub fn events(value: &str) -> Parsed<Clearable<Events>> {
    clearable(value, Events::NONE, |events, item| {
        match item {
            "alloc" => events.dump |= EventSet::ALLOC,
            "free" => events.dump |= EventSet::FREE,
            "launch" => events.dump |= EventSet::LAUNCH,
            "access" => events.dump |= EventSet::ACCESS,
            "traceback" => events.traceback = true,
            _ => return Err(Refused::item(item)),
        }
        Ok(())
    })
}

/// Empty is `none`.
pub fn analysis(value: &str) -> Parsed<Clearable<Analysis>> {
    clearable(value, Analysis::NONE, |analysis, item| {
        match item {
            "leaks" => analysis.leaks = true,
            "decompose" => analysis.decompose = true,
            "inefficient" => analysis.inefficient = true,
            "oom" => analysis.oom = analysis.oom.or(NonZeroU16::new(DEFAULT_OOM_HOLDERS)),
            _ => {
                let holders = item.strip_prefix("oom:").ok_or_else(|| Refused::item(item))?;
                analysis.oom = NonZeroU16::new(small_within(item, holders, 1, MAX_OOM_HOLDERS)?);
            }
        }
        Ok(())
    })
}

fn clearable<T: Copy>(value: &str, none: T, mut add: impl FnMut(&mut T, &str) -> Parsed<()>) -> Parsed<Clearable<T>> {
    let (mut chosen, mut cleared, mut others) = (none, false, false);
    if value.trim().is_empty() {
        return Ok(Clearable { chosen, none_won: false });
    }
    for item in items(value) {
        match item? {
            "none" => cleared = true,
            item => {
                add(&mut chosen, item)?;
                others = true;
            }
        }
    }
    Ok(Clearable { chosen: if cleared { none } else { chosen }, none_won: cleared && others })
}

/// Empty: off.
pub fn call_stacks(value: &str) -> Parsed<CallStacks> {
    let mut stacks = CallStacks::default();
    if value.trim().is_empty() {
        return Ok(stacks);
    }
    for item in items(value) {
        let item = item?;
        let (kind, depth) = match item.split_once(':') {
            Some((kind, depth)) => (kind, small_within(item, depth, 0, MAX_DEPTH)?),
            None => (item, DEFAULT_DEPTH),
        };
        match kind {
            "c" => stacks.c = NonZeroU16::new(depth),
            "python" => stacks.python = NonZeroU16::new(depth),
            _ => return Err(Refused::item(item)),
        }
    }
    Ok(stacks)
}

pub fn collect_mode(value: &str) -> Parsed<CollectMode> {
    match value.trim() {
        "immediate" => Ok(CollectMode::Immediate),
        "deferred" => Ok(CollectMode::Deferred),
        _ => Err(Refused::item(value)),
    }
}

pub fn data_format(value: &str) -> Parsed<Format> {
    Format::from_word(value.trim()).ok_or_else(|| Refused::item(value))
}

pub fn stacks(value: &str) -> Parsed<StackForm> {
    StackForm::from_word(value.trim()).ok_or_else(|| Refused::item(value))
}

pub fn log_level(value: &str) -> Parsed<LogLevel> {
    match value.trim() {
        "debug" => Ok(LogLevel::Debug),
        "info" => Ok(LogLevel::Info),
        // Later releases of the original say `warning`.
        "warn" | "warning" => Ok(LogLevel::Warn),
        "error" => Ok(LogLevel::Error),
        _ => Err(Refused::item(value)),
    }
}

pub fn max_size(value: &str) -> Parsed<u64> {
    let text = value.trim();
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number = decimal_within(value, digits, 1, u64::MAX)?;
    number.checked_mul(1 << shift).ok_or_else(|| Refused::because(value, "too large"))
}

/// Bytes; 0 is a size, too.
pub fn least_size(value: &str) -> Parsed<u64> {
    if value.trim() == "0" { Ok(0) } else { max_size(value) }
}

pub fn inefficient_types(value: &str) -> Parsed<Inefficiencies> {
    let mut types = Inefficiencies::NONE;
    for item in items(value) {
        let item = item?;
        types |= Inefficiencies::from_word(item).ok_or_else(|| Refused::item(item))?;
    }
    Ok(types)
}

pub fn idle_threshold(value: &str) -> Parsed<u64> {
    decimal_within(value, value.trim(), 1, u64::MAX)
}

/// `--watch`: from the end of operator `start` to the end of operator `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    /// `None`: only blocks named through the Python interface.
    pub start: Option<String>,
    /// Which output tensor of `start`; `None`: all.
    pub output: Option<u32>,
    pub end: String,
    pub full_content: bool,
}

impl std::fmt::Display for Watch {
    /// What [`watch`] reads back.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.start.as_deref().unwrap_or_default())?;
        if let Some(output) = self.output {
            write!(f, ":{output}")?;
        }
        write!(f, ",{}", self.end)?;
        f.write_str(if self.full_content { ",full-content" } else { "" })
    }
}

pub fn watch(value: &str) -> Parsed<Watch> {
    let mut parts = value.split([',', FULL_WIDTH_COMMA]).map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(end) = parts.next() else {
        return Err(Refused::because(value, "END is missing, write a comma before it"));
    };
    if end.is_empty() || end == "full-content" {
        return Err(Refused::because(value, "END is missing"));
    }
    let full_content = match (parts.next(), parts.next()) {
        (None, _) => false,
        (Some("full-content"), None) => true,
        (Some("full-content"), Some(extra)) | (Some(extra), _) => return Err(Refused::item(extra)),
    };
    let (start, output) = watch_start(first)?;
    for name in [start, end] {
        if name.len() > MAX_OPERATOR_NAME {
            return Err(Refused::because(name, "too long"));
        }
    }
    if start.is_empty() && output.is_some() {
        return Err(Refused::because(first, "an output needs START"));
    }
    let start = (!start.is_empty()).then(|| start.to_owned());
    Ok(Watch { start, output, end: end.to_owned(), full_content })
}

/// `name`, `name:3` or `name:out3`. A double colon belongs to the name, as in `aten::add`.
fn watch_start(text: &str) -> Parsed<(&str, Option<u32>)> {
    let Some((name, output)) = text.rsplit_once(':') else { return Ok((text, None)) };
    if name.ends_with(':') {
        return Ok((text, None));
    }
    let number = output.strip_prefix("out").unwrap_or(output);
    // The largest number stands for "none" in what the recorder is told.
    let number = decimal_within(text, number, 0, u64::from(u32::MAX) - 1)?;
    Ok((name, u32::try_from(number).ok()))
}

pub fn output(value: &OsStr) -> Parsed<PathBuf> {
    let shown = value.to_string_lossy();
    if shown.trim().is_empty() {
        return Err(Refused::because(&shown, "empty"));
    }
    if shown.chars().count() > MAX_PATH_CHARS {
        return Err(Refused::because(&shown, "too long"));
    }
    Ok(PathBuf::from(value))
}

/// The inputs of a comparison: two paths, or one whose steps are compared. Byte-wise, so that paths need not be valid UTF-8; the
/// full-width comma is matched as its whole three-byte sequence.
pub fn inputs(value: &OsStr) -> Parsed<Vec<PathBuf>> {
    let shown = value.to_string_lossy();
    if shown.chars().count() > MAX_PATH_CHARS {
        return Err(Refused::because(&shown, "too long"));
    }
    let paths: Vec<PathBuf> = split_bytes(value.as_bytes()).into_iter().map(PathBuf::from).collect();
    if paths.len() > 2 {
        return Err(Refused::because(&shown, "more than two paths"));
    }
    for path in &paths {
        let kind =
            path.metadata().map_err(|_| Refused::because(&path.to_string_lossy(), "no such file or directory"))?;
        if !kind.is_file() && !kind.is_dir() {
            return Err(Refused::because(&path.to_string_lossy(), "neither a file nor a directory"));
        }
    }
    Ok(paths)
}

fn split_bytes(bytes: &[u8]) -> Vec<OsString> {
    let wide = FULL_WIDTH_COMMA.to_string().into_bytes();
    let (mut parts, mut part, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some((first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(&wide[..]).or(if *first == b',' { Some(tail) } else { None }) {
            parts.push(std::mem::take(&mut part));
            rest = after;
        } else {
            part.push(*first);
            rest = tail;
        }
    }
    parts.push(part);
    parts.into_iter().map(|part| OsString::from_vec(part.trim_ascii().to_vec())).collect()
}
