//! A recording of the process we are in, from its first `start()`.
use std::path::{Path, PathBuf};

use memscope_hook::{ALREADY_BEGUN, Api, Attachment, BEGUN};
use memscope_session::libraries::{AttachedLibraries, Libraries};
use memscope_session::record_config::{RecordConfig, new_run_id, utc_offset};
use memscope_session::settings::{NpuSelection, Settings as RunSettings};
use memscope_session::{environment, output_dir};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::side_keeper::{self, Answer};
use crate::text::utf8;
use crate::{calls, failure, libraries, own, settings::Settings, table};

/// Begins the recording if there is none yet, and a span of it; one thread at a time. `package` is the directory of the Python
/// package. Gives what the user has to know.
#[pyfunction]
pub(crate) fn start(py: Python<'_>, settings: &Settings, package: PathBuf) -> PyResult<Vec<String>> {
    let mut notes = Vec::new();
    // Without the GIL: the loader's lock is taken, and a thread that has it may be waiting for the GIL in a constructor.
    let begun = py.detach(|| begin(&settings.settings, &package, &mut notes));
    let api = begun.map_err(failure)?;
    (api.start)();
    own::count_start();
    notes.extend(calls::begin_with_span(py, api));
    Ok(notes)
}

/// The same without a span: for what is recorded whether tracing is on or not.
#[pyfunction]
pub(crate) fn prepare(py: Python<'_>, settings: &Settings, package: PathBuf) -> PyResult<Vec<String>> {
    let mut notes = Vec::new();
    py.detach(|| begin(&settings.settings, &package, &mut notes)).map_err(failure)?;
    Ok(notes)
}

/// Whether a recording has begun, by whomever.
#[pyfunction]
pub(crate) fn is_recording() -> bool {
    table::find().is_some_and(|api| tell(api, b"") == ALREADY_BEGUN)
}

/// Lets frameworks that allocate from now on find the recorder, which records nothing yet. Says whether they could not before.
#[pyfunction]
pub(crate) fn announce(py: Python<'_>, package: PathBuf) -> bool {
    if table::is_there() {
        return false;
    }
    py.detach(|| {
        // Libraries that are missing or cannot be loaded are what start() complains of.
        if let Ok(found) = find_libraries(&package, false) {
            let _ = libraries::announce(&found);
        }
    });
    true
}

/// The end of a span: its files are written in the background. Says whether there is a recording.
#[pyfunction]
pub(crate) fn stop(py: Python<'_>) -> bool {
    let Some(api) = table::find() else { return false };
    calls::end_with_span(py, api);
    (api.stop)();
    side_keeper::export();
    true
}

#[pyfunction]
pub(crate) fn step() {
    if let Some(api) = table::find() {
        (api.step)();
    }
}

/// Until the files of the spans that ended are written.
#[pyfunction]
pub(crate) fn wait(py: Python<'_>) -> PyResult<()> {
    /// Between two looks at what the user presses.
    const PATIENCE_MS: i32 = 100;
    let mut answer = side_keeper::ask();
    loop {
        match answer {
            Answer::Done => return Ok(()),
            Answer::NotYet => py.check_signals()?,
            Answer::Unwritten | Answer::Gone => return Err(failure(side_keeper::complaint(answer))),
        }
        answer = py.detach(|| side_keeper::hear(PATIENCE_MS));
    }
}

#[pyfunction]
pub(crate) fn mark(message: &Bound<'_, PyString>) -> PyResult<()> {
    let message = utf8(message)?;
    if let Some(api) = table::find() {
        // SAFETY: bytes with their length.
        unsafe { (api.mark)(message.as_ptr(), message.len()) };
    }
    Ok(())
}

/// The range's number; 0 where nothing records.
#[pyfunction]
pub(crate) fn range_start(message: &Bound<'_, PyString>) -> PyResult<u64> {
    let message = utf8(message)?;
    // SAFETY: bytes with their length.
    Ok(table::find().map_or(0, |api| unsafe { (api.range_start)(message.as_ptr(), message.len()) }))
}

#[pyfunction]
pub(crate) fn range_end(range: u64) {
    if let Some(api) = table::find().filter(|_| range != 0) {
        (api.range_end)(range);
    }
}

/// Begins the recording if there is none yet, and no span.
fn begin(settings: &RunSettings, package: &Path, notes: &mut Vec<String>) -> Result<&'static Api, String> {
    if table::is_of_another_version() {
        return Err(String::from(
            "another version of the recording library is preloaded; start the program without it",
        ));
    }
    let run = new_run_id();
    let record = RecordConfig::of(settings, run, utc_offset()).attached();
    if let Some(api) = table::find()
        && tell(api, b"") == ALREADY_BEGUN
    {
        // The command that started the program keeps the run, or an earlier start() has begun.
        return Ok(api);
    }
    output_dir::check_length(&settings.output_dir, record.longest_dir()).map_err(|error| in_words(&error))?;
    output_dir::prepare(&settings.output_dir).map_err(|error| in_words(&error))?;
    notes.extend(output_dir::room_for_watching(settings));
    let found = find_libraries(package, settings.devices.cpu)?;
    let attachment = libraries::attach(&found)?;
    let api = table::find().ok_or("the recording library was loaded and is not found")?;
    if settings.devices.npu != NpuSelection::None {
        libraries::name_in_environment(&found);
    }
    let text = record.encode();
    match tell(api, text.as_encoded_bytes()) {
        BEGUN => own::remember(&settings.output_dir, run),
        // The command's settings were still in the environment.
        ALREADY_BEGUN => return Ok(api),
        _ => {
            let reason = "the recorder cannot begin: the kernel is too old to follow forks (4.14 is needed)";
            return Err(String::from(reason));
        }
    }
    notes.extend(attachment.and_then(|attachment| what_may_be_missing(&attachment, settings.devices.cpu)));
    if let Err(error) = side_keeper::start(&command_of(package), settings.brand, &text, &settings.output_dir) {
        notes.push(format!(
            "the process that writes the files cannot be started: {error}; write them afterwards with: {} export {}",
            settings.brand.name(),
            settings.output_dir.display()
        ));
    }
    Ok(api)
}

/// Options of the command are keywords here.
fn in_words(error: &dyn std::error::Error) -> String {
    error.to_string().replace("--output", "output=")
}

fn command_of(package: &Path) -> PathBuf {
    package.join("bin/msmemscope")
}

fn find_libraries(package: &Path, host: bool) -> Result<AttachedLibraries, String> {
    let chosen = std::env::var_os(environment::LIBRARY_DIR);
    Libraries::to_attach(chosen.as_deref(), &command_of(package), host).map_err(|error| error.to_string())
}

fn tell(api: &Api, text: &[u8]) -> u32 {
    // SAFETY: bytes with their length.
    unsafe { (api.begin)(text.as_ptr(), text.len()) }
}

/// Where the loader of this C library is not as we know it.
fn what_may_be_missing(attachment: &Attachment, host: bool) -> Option<String> {
    if attachment.has_own_allocator != 0 {
        return Some(String::from(
            "host memory is not recorded: the program has an allocator of its own, which no library can stand in front of",
        ));
    }
    let what = if host { "memory allocated by" } else { "device memory allocated through" };
    if attachment.is_in_scope == 0 || attachment.is_proven == 0 {
        return Some(format!(
            "{what} libraries that are loaded from now on is not recorded: this C library's loader is not known; to record \
             all of it, start the program with: msmemscope python …"
        ));
    }
    (attachment.refused > 0).then(|| {
        format!("{what} some libraries is not recorded: the system does not allow to change where their calls lead")
    })
}
