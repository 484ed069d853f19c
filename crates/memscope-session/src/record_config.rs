//! The settings of a run as the recorder is told them: [`RecordSettings`], in an environment variable.
use std::ffi::OsString;
use std::num::NonZeroU16;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use memscope_format::layout::CONFIG_CAPACITY;
pub use memscope_format::settings::RecordSettings;
use memscope_format::settings::{Escaped, Mask, Steps, VERSION};

use crate::settings::{CollectMode, Settings, StackForm};

#[derive(Clone, Copy, Debug)]
pub struct RecordConfig<'s> {
    settings: &'s Settings,
    /// Shared by all processes of a run.
    run: u64,
    /// Seconds east of Greenwich, for the local times in file names.
    utc_offset: i32,
}

impl<'s> RecordConfig<'s> {
    pub fn of(settings: &'s Settings, run: u64, utc_offset: i32) -> Self {
        Self { settings, run, utc_offset }
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
            events: Some(self.settings.collected().bits()),
            dump: Some(self.settings.dump.bits()),
            analysis: Some(analysis.bits()),
            oom_holders: Some(number(analysis.oom)),
            deferred: Some(self.settings.collect_mode == CollectMode::Deferred),
            steps: Some(Steps::of(&steps)),
            max_size: Some(self.settings.max_size.unwrap_or(0)),
            data_format: Some(self.settings.data_format.code()),
            stacks: Some(self.settings.stacks.map_or("", StackForm::word)),
            log_level: Some(self.settings.log_level as u8),
            watch: Some(Escaped::of(&watch)),
            dir: Some(dir),
        };
        settings.encode()
    }
}
