//! The settings of a run as the recorder is told them: [`RecordSettings`], in an environment variable.
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU16;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use memscope_format::layout::CONFIG_CAPACITY;
pub use memscope_format::settings::RecordSettings;
use memscope_format::settings::{Escaped, Mask, Steps, VERSION, event};

use crate::brand::Brand;
use crate::settings::{
    Analysis, CallStacks, CollectMode, Devices, EventSet, Format, LevelSet, LogLevel, NpuSelection, Settings,
    StackForm, values,
};

/// The standard library seeds each of its hashers at random, which is all an id needs; 0 means "no run".
pub fn new_run_id() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// Of this machine, now, in seconds east of Greenwich.
pub fn utc_offset() -> i32 {
    jiff::tz::TimeZone::system().to_offset(jiff::Timestamp::now()).seconds()
}

#[derive(Clone, Copy, Debug)]
pub struct RecordConfig<'s> {
    settings: &'s Settings,
    /// Shared by all processes of a run.
    run: u64,
    /// Seconds east of Greenwich, for the local times in file names.
    utc_offset: i32,
    attached: bool,
}

impl<'s> RecordConfig<'s> {
    pub fn of(settings: &'s Settings, run: u64, utc_offset: i32) -> Self {
        Self { settings, run, utc_offset, attached: false }
    }

    /// The same for a process that runs already.
    pub fn attached(self) -> Self {
        Self { attached: true, ..self }
    }

    /// The longest directory with which the whole still fits into what a recorder reads, whatever the run id.
    pub fn longest_dir(&self) -> usize {
        let others = self.text(u64::MAX, b"").len();
        CONFIG_CAPACITY.saturating_sub(others)
    }

    pub fn encode(&self) -> OsString {
        OsString::from_vec(self.text(self.run, self.settings.output_dir.as_os_str().as_bytes()))
    }

    fn text(&self, run: u64, dir: &[u8]) -> Vec<u8> {
        let Settings { call_stacks, devices, analysis, .. } = &self.settings;
        let number = |number: Option<NonZeroU16>| number.map_or(0, NonZeroU16::get);
        let traceback = if self.settings.traceback { event::TRACEBACK } else { 0 };
        let steps = Steps::join(&self.settings.steps);
        let watch = self.settings.watch.as_ref().map(|watch| Escaped::escape(&watch.to_string())).unwrap_or_default();
        let settings = RecordSettings {
            version: Some(VERSION),
            run: Some(run),
            owner: Some(rustix::process::getuid().as_raw()),
            brand: Some(self.settings.brand.name()),
            utc_offset: Some(self.utc_offset),
            c_depth: Some(number(call_stacks.c).into()),
            python_depth: Some(number(call_stacks.python).into()),
            cpu: Some(devices.cpu),
            npus: Some(Mask(devices.npu.mask())),
            level: Some(self.settings.level.bits()),
            events: Some(self.settings.collected().bits() | traceback),
            dump: Some(self.settings.dump.bits() | traceback),
            analysis: Some(analysis.bits()),
            oom_holders: Some(number(analysis.oom)),
            deferred: Some(self.settings.collect_mode == CollectMode::Deferred),
            steps: Some(Steps::of(&steps)),
            max_size: Some(self.settings.max_size.unwrap_or(0)),
            data_format: Some(self.settings.data_format.code()),
            stacks: Some(self.settings.stacks.map_or("", StackForm::word)),
            log_level: Some(self.settings.log_level as u8),
            watch: Some(Escaped::of(&watch)),
            watch_max_bytes: self.settings.watch_max_bytes,
            attached: self.attached.then_some(true),
            dir: Some(dir),
        };
        settings.encode()
    }
}

/// What [`RecordConfig`] encoded, read back; the program and its arguments are not told to recorders. `None` without a
/// directory or a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedConfig {
    pub settings: Settings,
    pub run: u64,
    pub utc_offset: i32,
}

impl DecodedConfig {
    pub fn decode(text: &OsStr) -> Option<DecodedConfig> {
        let record = RecordSettings::parse(text.as_bytes());
        let depth = |depth: Option<u32>| depth.and_then(|depth| NonZeroU16::new(u16::try_from(depth).ok()?));
        let settings = Settings {
            program: OsString::new(),
            arguments: Vec::new(),
            steps: record.steps.map(|steps| steps.iter().collect()).unwrap_or_default(),
            devices: Devices { npu: NpuSelection::of_mask(record.npus?.0), cpu: record.cpu? },
            level: LevelSet::of_bits(record.level?),
            dump: EventSet::of_bits(record.dump? & !event::TRACEBACK),
            traceback: record.events? & event::TRACEBACK != 0,
            call_stacks: CallStacks { c: depth(record.c_depth), python: depth(record.python_depth) },
            collect_mode: if record.deferred? { CollectMode::Deferred } else { CollectMode::Immediate },
            analysis: Analysis::of_recording(&record),
            data_format: Format::from_code(record.data_format?)?,
            stacks: record.stacks.and_then(StackForm::from_word),
            watch: record.watch.and_then(|watch| values::watch(&watch.to_string()).ok()),
            watch_max_bytes: record.watch_max_bytes,
            output_dir: PathBuf::from(OsStr::from_bytes(record.dir?)),
            log_level: LogLevel::of_number(record.log_level?)?,
            max_size: record.max_size.filter(|size| *size != 0),
            brand: Brand::from_name(record.brand?)?,
        };
        Some(DecodedConfig { settings, run: record.run?, utc_offset: record.utc_offset? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recorder_is_told_is_read_back() {
        let settings = Settings {
            program: OsString::new(),
            arguments: Vec::new(),
            steps: vec![3, 1],
            devices: values::devices("cpu,npu:3,npu:31").unwrap(),
            level: values::level("kernel").unwrap(),
            dump: values::events("access,free").unwrap().chosen.dump,
            traceback: false,
            call_stacks: values::call_stacks("c:7,python:9").unwrap(),
            collect_mode: CollectMode::Deferred,
            analysis: values::analysis("leaks,oom:5").unwrap().chosen,
            data_format: values::data_format("db").unwrap(),
            stacks: Some(values::stacks("inline").unwrap()),
            watch: Some(values::watch("a;b:2,c%d,full-content").unwrap()),
            watch_max_bytes: Some(1 << 20),
            output_dir: PathBuf::from("/tmp/a;dir=b"),
            log_level: LogLevel::Info,
            max_size: Some(1 << 30),
            brand: Brand::MsLeaks,
        };
        for settings in [
            Settings {
                devices: Devices::default(),
                steps: Vec::new(),
                watch: None,
                watch_max_bytes: None,
                max_size: None,
                ..settings.clone()
            },
            Settings { traceback: true, ..settings.clone() },
            Settings { stacks: None, analysis: Analysis::NONE, call_stacks: CallStacks::default(), ..settings.clone() },
            settings,
        ] {
            let text = RecordConfig::of(&settings, 77, -3600).attached().encode();
            let decoded = DecodedConfig::decode(&text).unwrap();
            assert_eq!(decoded, DecodedConfig { settings, run: 77, utc_offset: -3600 });
        }
        assert_eq!(DecodedConfig::decode(OsStr::new("v=1;run=7;dir=/a")), None);
    }
}
