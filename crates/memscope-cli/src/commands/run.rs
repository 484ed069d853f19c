//! Runs a program and records it. Everything that can be wrong is checked before the first thing is created.
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use memscope_session::device_usage::DeviceUsage;
use memscope_session::invocation::{Invocation, RunRecord, StartError, end_like};
use memscope_session::keeper::oom_kills::OomKillWatch;
use memscope_session::keeper::{Family, Keeper, Run};
use memscope_session::libraries::Libraries;
use memscope_session::printer::Printer;
use memscope_session::program::{Identity, Program};
use memscope_session::record_config::{RecordConfig, new_run_id, utc_offset};
use memscope_session::report::{ReportOutcome, report_run};
use memscope_session::settings::Settings;
use memscope_session::usage_error::quoted;
use memscope_session::{EXIT_FAILURE, EXIT_UNWRITTEN, EXIT_USAGE, environment, output_dir, windows_home};

pub(super) fn run(settings: &Settings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let stop = |error: &dyn Display, code: u8| {
        printer.error(error);
        Ok(ExitCode::from(code))
    };
    let search_path = std::env::var_os(environment::PATH);
    let program = match Program::find(&settings.program, search_path.as_deref(), Identity::own()) {
        Ok(program) => program,
        Err(error) => return stop(&error, error.exit_code()),
    };
    let chosen = std::env::var_os(environment::LIBRARY_DIR);
    // `current_exe` is the real path on Linux, also where the command is reached through a link.
    let command = std::env::current_exe().ok();
    let libraries = match Libraries::find(chosen.as_deref(), command.as_deref(), settings.devices.cpu) {
        Ok(libraries) => libraries,
        Err(error) => return stop(&error, EXIT_FAILURE),
    };
    let (run_id, utc_offset) = (new_run_id(), utc_offset());
    let record = RecordConfig::of(settings, run_id, utc_offset);
    if let Err(error) = output_dir::check_length(&settings.output_dir, record.longest_dir()) {
        return stop(&error, EXIT_USAGE);
    }
    if let Err(error) = output_dir::prepare(&settings.output_dir) {
        return stop(&error, EXIT_USAGE);
    }
    if let Some(note) = output_dir::room_for_watching(settings) {
        printer.note(&note);
    }

    let invocation = Invocation {
        program: &program,
        typed: &settings.program,
        arguments: &settings.arguments,
        preload: libraries.preload(std::env::var_os(environment::PRELOAD).as_deref()),
        record: record.encode(),
    };
    let usage = DeviceUsage::start(settings, run_id, printer);
    let run = Run { run_id, brand: settings.brand, utc_offset, output_dir: settings.output_dir.clone() };
    let keeper = Keeper::start(run, Family::Own)
        .inspect_err(|error| {
            printer.note(&format_args!("processes of other users cannot be recorded in this run: {error}"));
        })
        .ok();
    let oom_kills = OomKillWatch::begin();
    let ended = match invocation.run_to_end() {
        Ok(ended) => ended,
        Err(error) => {
            let code = error.downcast_ref::<StartError>().map_or(EXIT_FAILURE, StartError::exit_code);
            return stop(&format_args!("{error:#}"), code);
        }
    };
    let oom_kills = oom_kills.end();
    usage.end(printer);
    let unrecorded = keeper.map(|keeper| keeper.end(PATIENCE)).unwrap_or_default();

    let run = RunRecord {
        run_id,
        output_dir: settings.output_dir.clone(),
        started: ended.started,
        ended: ended.ended,
        child_pid: ended.pid,
        status: Some(ended.status),
        brand: settings.brand,
        oom_kills,
    };
    let later = format!("{} export {}", settings.brand.name(), quoted(&settings.output_dir));
    windows_home::bring(&settings.output_dir, printer);
    match report_run(settings, &run, unrecorded, &ended.interruption, printer) {
        Ok(ReportOutcome::Complete) => return Ok(end_like(ended.status)),
        Ok(ReportOutcome::Unwritten) => printer
            .error(&format_args!("not all files could be written; the recording is kept, export it with: {later}")),
        Ok(ReportOutcome::Interrupted) => {
            printer.error(&format_args!("the export was interrupted; the recording is kept, export it with: {later}"));
        }
        Err(error) => printer.error(&format_args!("{error:#}; the recording is kept, export it with: {later}")),
    }
    // Whatever happened to the report, an end of the program other than a good one is what the caller must see.
    Ok(if ended.status.success() { ExitCode::from(EXIT_UNWRITTEN) } else { end_like(ended.status) })
}

/// How long the user waits, after the program's end, for the keeper.
const PATIENCE: Duration = Duration::from_secs(1);
