//! The words of `config()`.
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use memscope_session::brand::Brand;
use memscope_session::environment;
use memscope_session::record_config::DecodedConfig;
use memscope_session::settings::values::{self, Events, Refused};
use memscope_session::settings::{
    self as session, Analysis, CallStacks, CollectMode, Devices, EventSet, Format, LevelSet, LogLevel, allowed,
};
use memscope_session::usage_error::quoted;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a recording is to be.
#[pyclass(frozen)]
pub(crate) struct Settings {
    pub(crate) settings: session::Settings,
}

#[pymethods]
impl Settings {
    /// `brand` is the name of the tool that was imported; `values` are the keywords that were given, with their texts.
    #[new]
    fn new(brand: &str, values: Vec<(String, String)>) -> PyResult<Self> {
        let brand = Brand::from_name(brand).unwrap_or_default();
        let mut draft = Draft::default();
        for (key, value) in &values {
            draft.apply(key, value).map_err(|problem| PyValueError::new_err(problem.say(key, value)))?;
        }
        draft.into_settings(brand)
    }

    #[getter]
    fn output_dir(&self) -> PathBuf {
        self.settings.output_dir.clone()
    }

    /// Whether memory of an NPU is asked for.
    #[getter]
    fn npu(&self) -> bool {
        self.settings.devices.npu != session::NpuSelection::None
    }

    /// Whether memory is to be decomposed; under the command, whether its options say so.
    #[getter]
    fn decompose(&self) -> bool {
        let told = std::env::var_os(environment::RECORD).and_then(|text| DecodedConfig::decode(&text));
        told.map_or(self.settings.analysis, |told| told.settings.analysis).decompose
    }
}

/// The keywords seen so far.
struct Draft {
    devices: Option<Devices>,
    level: LevelSet,
    events: Events,
    call_stacks: CallStacks,
    analysis: Analysis,
    data_format: Option<Format>,
    watch: Option<values::Watch>,
    watch_max_bytes: Option<u64>,
    output: Option<PathBuf>,
}

impl Default for Draft {
    fn default() -> Self {
        let dump = EventSet::ALLOC | EventSet::FREE | EventSet::LAUNCH;
        Self {
            devices: None,
            level: LevelSet::OP,
            events: Events { dump, traceback: false },
            call_stacks: CallStacks::default(),
            analysis: Analysis::DEFAULT,
            data_format: None,
            watch: None,
            watch_max_bytes: None,
            output: None,
        }
    }
}

/// What is wrong with a keyword.
enum Problem {
    UnknownKey,
    BadValue(Refused, &'static str),
}

impl Problem {
    fn say(&self, key: &str, value: &str) -> String {
        match self {
            Problem::UnknownKey => format!("config() has no keyword {}", quoted(key)),
            Problem::BadValue(refused, allowed) => {
                let shown = if refused.item.is_empty() { value } else { &refused.item };
                let whole = if shown == value { String::new() } else { format!(" (in {})", quoted(OsStr::new(value))) };
                let reason = if refused.reason.is_empty() { String::new() } else { format!(": {}", refused.reason) };
                format!("bad value {} for {key}{whole}{reason}; allowed: {allowed}", quoted(shown))
            }
        }
    }
}

impl Draft {
    fn apply(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let allowed = match key {
            "device" => allowed::DEVICE,
            "level" => allowed::LEVEL,
            "events" => allowed::EVENTS,
            "call_stack" => allowed::CALL_STACK,
            "analysis" => allowed::ANALYSIS,
            "watch" => allowed::WATCH,
            "watch_max_bytes" => allowed::SIZE,
            "output" => allowed::OUTPUT,
            "data_format" => allowed::FORMAT,
            _ => return Err(Problem::UnknownKey),
        };
        self.set(key, value).map_err(|refused| Problem::BadValue(refused, allowed))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        match key {
            "device" => self.devices = Some(values::devices(value)?),
            "level" => self.level = values::level(value)?,
            "events" => self.events = values::events(value)?.chosen,
            "call_stack" => self.call_stacks = values::call_stacks(value)?,
            "analysis" => self.analysis = values::analysis(value)?.chosen,
            // Empty switches an item off.
            "watch" => self.watch = (!value.trim().is_empty()).then(|| values::watch(value)).transpose()?,
            "watch_max_bytes" => {
                self.watch_max_bytes = (!value.trim().is_empty()).then(|| values::max_size(value)).transpose()?;
            }
            "output" => self.output = Some(values::output(OsStr::new(value))?),
            _ => self.data_format = Some(values::data_format(value)?),
        }
        Ok(())
    }

    fn into_settings(self, brand: Brand) -> PyResult<Settings> {
        let output = self.output.unwrap_or_else(|| PathBuf::from(brand.default_output_dir()));
        let output_dir = std::path::absolute(&output).map_err(|error| {
            PyValueError::new_err(format!("the working directory cannot be found ({error}); give an absolute output"))
        })?;
        let settings = session::Settings {
            program: OsString::new(),
            arguments: Vec::new(),
            steps: Vec::new(),
            devices: self.devices.unwrap_or_else(default_devices),
            level: self.level,
            dump: self.events.dump,
            traceback: self.events.traceback,
            call_stacks: self.call_stacks,
            // Tracing is from start() to stop().
            collect_mode: CollectMode::Deferred,
            analysis: self.analysis,
            data_format: self.data_format.unwrap_or_default(),
            stacks: None,
            watch: self.watch,
            output_dir,
            log_level: LogLevel::default(),
            watch_max_bytes: self.watch_max_bytes,
            max_size: None,
            brand,
        };
        Ok(Settings { settings })
    }
}

/// As the command line's; where the machine has no NPU, host memory as well: there is nothing else to see.
fn default_devices() -> Devices {
    Devices { cpu: !Path::new("/dev/davinci_manager").exists(), ..Devices::default() }
}
