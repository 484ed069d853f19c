//! The files of recorded processes, and what they say about each.
use std::path::{Path, PathBuf};

use memscope_analysis::Usage;
use memscope_dump::{DumpEvents, ExportError, ExportOptions, export_process};
use memscope_model::{Process, survey_processes};
use memscope_symbols::Symbolizer;

use crate::brand::Brand;
use crate::device_usage::SampledProcess;
use crate::keeper::Unrecorded;
use crate::printer::Printer;
use crate::report::{ProcessReport, resident_size};
use crate::settings::DataFormat;
use crate::signals::Interruption;

/// The process directories in `root`, of one run or all; says which cannot be read.
pub fn recorded_processes(root: &Path, run: Option<u64>, printer: &Printer) -> anyhow::Result<Vec<PathBuf>> {
    let found = survey_processes(root, run)?;
    for (_, error) in &found.unreadable {
        printer.error(error);
    }
    Ok(found.processes)
}

/// What became of several processes.
pub struct Batch {
    pub reports: Vec<ProcessReport>,
    /// Processes that could not be exported; the others were.
    pub failed: u64,
    /// Processes of the same runs without a recording.
    pub unrecorded: Vec<Unrecorded>,
}

/// Exports each process; `None` if the user asked to stop.
pub fn export_all(
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
        DataFormat::Csv => memscope_dump::Format::Csv,
        DataFormat::Db => memscope_dump::Format::Db,
    };
    let brand = match setting("brand").and_then(Brand::from_name).unwrap_or_default() {
        Brand::MsMemScope => memscope_dump::Brand::MsMemScope,
        Brand::MsLeaks => memscope_dump::Brand::MsLeaks,
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
    let exported = export_process(&mut process, directory, options, &mut [&mut usage])?;
    let mut report = ProcessReport::new(&process, directory, exported.outcome, &usage, &mut symbolizer);
    report.files = exported.files.into_iter().filter(|file| !file.ends_with(memscope_dump::CONFIG_FILE)).collect();
    let problems = exported.problems.into_iter().chain(sampling_problem).collect();
    Ok((report, problems))
}
