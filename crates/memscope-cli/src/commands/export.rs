//! `export DIR`: the files of an earlier run, written again. Also the export at the end of a run.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use memscope_analysis::Usage;
use memscope_export::{DumpEvents, ExportError, ExportOptions, export_process};
use memscope_model::{Process, survey_processes};
use memscope_symbols::Symbolizer;

use crate::brand::Brand;
use crate::device_usage::SampledProcess;
use crate::keeper::{self, Unrecorded};
use crate::printer::Printer;
use crate::process_report::ProcessReport;
use crate::settings::{DataFormat, ExportSettings};
use crate::signals::Interruption;
use crate::usage_error::quoted;
use crate::{EXIT_FAILURE, resident_size, summary, windows_home};

pub(super) fn run(settings: &ExportSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let interruption = Interruption::on_interrupt()?;
    windows_home::bring(&settings.directory, printer);
    let directories = recorded_processes(&settings.directory, None, printer)?;
    if directories.is_empty() {
        anyhow::bail!("there is no recording in {}", quoted(&settings.directory));
    }
    match export_all(&directories, settings.data_format, &interruption, printer)? {
        Some(mut batch) => {
            batch.unrecorded = keeper::read_all(&settings.directory);
            for line in summary::of_run(&batch, &settings.directory) {
                printer.summary(&line);
            }
            Ok(if batch.failed > 0 { ExitCode::from(EXIT_FAILURE) } else { ExitCode::SUCCESS })
        }
        None => {
            printer.error(&"the export was interrupted; files of earlier exports are as they were");
            Ok(ExitCode::from(EXIT_FAILURE))
        }
    }
}

/// The process directories in `root`, of one run or all; says which cannot be read.
pub(super) fn recorded_processes(root: &Path, run: Option<u64>, printer: &Printer) -> anyhow::Result<Vec<PathBuf>> {
    let found = survey_processes(root, run)?;
    for (_, error) in &found.unreadable {
        printer.error(error);
    }
    Ok(found.processes)
}

/// What became of several processes.
pub(crate) struct Batch {
    pub(crate) reports: Vec<ProcessReport>,
    /// Processes that could not be exported; the others were.
    pub(crate) failed: u64,
    /// Processes of the same runs without a recording.
    pub(crate) unrecorded: Vec<Unrecorded>,
}

/// Exports each process; `None` if the user asked to stop.
pub(super) fn export_all(
    directories: &[PathBuf],
    format: Option<DataFormat>,
    interruption: &Interruption,
    printer: &Printer,
) -> anyhow::Result<Option<Batch>> {
    const STEPS: u64 = 1000;
    let bar = printer.progress("exporting", directories.len() as u64 * STEPS);
    let mut batch = Batch { reports: Vec::new(), failed: 0, unrecorded: Vec::new() };
    let mut problems: Vec<String> = Vec::new();
    for (done, directory) in directories.iter().enumerate() {
        let mut progress = |fraction: f64| bar.set_position(done as u64 * STEPS + (fraction * STEPS as f64) as u64);
        match export_one(directory, format, interruption, &mut progress) {
            Ok((report, of_symbols)) => {
                batch.reports.push(report);
                for problem in of_symbols {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
            Err(ExportError::Cancelled) => {
                bar.finish_and_clear();
                return Ok(None);
            }
            Err(error) => {
                batch.failed += 1;
                bar.suspend(|| printer.error(&error));
            }
        }
    }
    bar.finish_and_clear();
    resident_size::fill_in(&mut batch.reports);
    for problem in &problems {
        printer.note(problem);
    }
    Ok(Some(batch))
}

fn export_one(
    directory: &Path,
    format: Option<DataFormat>,
    interruption: &Interruption,
    progress: &mut dyn FnMut(f64),
) -> Result<(ProcessReport, Vec<String>), ExportError> {
    let mut process = Process::open(directory)?;
    let setting = |key: &str| process.config(key);
    let recorded_format = || if setting("format") == Some("1") { DataFormat::Db } else { DataFormat::Csv };
    let format = match format.unwrap_or_else(recorded_format) {
        DataFormat::Csv => memscope_export::Format::Csv,
        DataFormat::Db => memscope_export::Format::Db,
    };
    let brand = match setting("brand").and_then(Brand::from_name).unwrap_or_default() {
        Brand::MsMemScope => memscope_export::Brand::MsMemScope,
        Brand::MsLeaks => memscope_export::Brand::MsLeaks,
    };
    let dump_events = setting("dump").and_then(|bits| bits.parse().ok()).map_or(DumpEvents::ALL, DumpEvents::from_bits);
    let mut symbolizer = Symbolizer::new();
    let mut usage = Usage::new();
    let (sampled, sampling_problem) = SampledProcess::open(&process, directory);
    let options = ExportOptions {
        format,
        brand,
        dump_events,
        progress,
        cancel: Some(interruption.flag()),
        symbolizer: &mut symbolizer,
        usage: Some(&|device, time_ns| sampled.at(device, time_ns)),
    };
    let exported = export_process(&mut process, directory, options, &mut |event| usage.feed(event))?;
    let mut report = ProcessReport::new(&process, directory, exported.outcome, &usage, &mut symbolizer);
    report.files = exported.files.into_iter().filter(|file| !file.ends_with(memscope_export::CONFIG_FILE)).collect();
    let problems = exported.problems.into_iter().chain(sampling_problem).collect();
    Ok((report, problems))
}
