//! The files of recorded processes, and what they say about each.
use std::path::{Path, PathBuf};

use memscope_analysis::Usage;
use memscope_dump::{DumpEvents, ExportError, ExportOptions, Format, StackForm, export_process};
use memscope_model::{Process, survey_processes};
use memscope_symbols::Symbolizer;

use crate::brand::Brand;
use crate::device_usage::SampledProcess;
use crate::keeper::Unrecorded;
use crate::printer::Printer;
use crate::report::{ProcessReport, resident_size};
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

/// What the user wants of the files, where it is not what the run was recorded for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExportWishes {
    /// `None`: that of the run; csv, if that is to write none.
    pub format: Option<Format>,
    /// `None`: that of the run.
    pub stacks: Option<StackForm>,
    /// Files go to a directory in it with the name of the process directory; `None`: into the process directory.
    pub output_dir: Option<PathBuf>,
}

impl ExportWishes {
    fn format_for(&self, process: &Process) -> Format {
        let recorded = process.config("format").and_then(|code| Format::from_code(code.parse().ok()?));
        self.format.or(recorded.filter(|format| *format != Format::NoFiles)).unwrap_or_default()
    }

    fn stacks_for(&self, process: &Process) -> Option<StackForm> {
        self.stacks.or_else(|| process.config("stacks").and_then(StackForm::from_word))
    }

    /// Where the files of the process recorded in `directory` go.
    fn destination(&self, directory: &Path) -> PathBuf {
        let Some(output_dir) = &self.output_dir else { return directory.to_owned() };
        // `.`, `..` and links have no name of their own.
        let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let spool = directory.file_name().is_some_and(|name| name == memscope_format::layout::SPOOL_DIRECTORY);
        let process_directory = if spool { directory.parent() } else { Some(directory.as_path()) };
        output_dir.join(process_directory.and_then(Path::file_name).unwrap_or_default())
    }
}

/// Exports each process; `None` if the user asked to stop.
pub fn export_all(
    directories: &[PathBuf],
    wishes: &ExportWishes,
    interruption: &Interruption,
    printer: &Printer,
) -> anyhow::Result<Option<Batch>> {
    const STEPS: u64 = 1000;
    let bar = printer.progress("exporting", directories.len() as u64 * STEPS);
    let mut batch = Batch { reports: Vec::new(), failed: 0, unrecorded: Vec::new() };
    let mut problems: Vec<String> = Vec::new();
    for (done, directory) in directories.iter().enumerate() {
        let mut progress = |fraction: f64| bar.set_position(done as u64 * STEPS + (fraction * STEPS as f64) as u64);
        let mut notice = |text: String| bar.suspend(|| printer.note(&text));
        match export_one(directory, wishes, interruption, &mut progress, &mut notice) {
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
    wishes: &ExportWishes,
    interruption: &Interruption,
    progress: &mut dyn FnMut(f64),
    notice: &mut dyn FnMut(String),
) -> Result<(ProcessReport, Vec<String>), ExportError> {
    let mut process = Process::open(directory)?;
    let setting = |key: &str| process.config(key);
    let brand = setting("brand").and_then(Brand::from_name).unwrap_or_default();
    let dump_events = setting("dump").and_then(|bits| bits.parse().ok()).map_or(DumpEvents::ALL, DumpEvents::from_bits);
    let mut symbolizer = Symbolizer::new();
    let mut usage = Usage::new();
    let (sampled, sampling_problem) = SampledProcess::open(&process, directory);
    let options = ExportOptions {
        format: wishes.format_for(&process),
        brand,
        stacks: wishes.stacks_for(&process),
        dump_events,
        notice,
        progress,
        cancel: Some(interruption.flag()),
        symbolizer: &mut symbolizer,
        usage: Some(&|device, time_ns| sampled.at(device, time_ns)),
    };
    let exported = export_process(&mut process, &wishes.destination(directory), options, &mut [&mut usage])?;
    let mut report = ProcessReport::new(&process, directory, exported.outcome, &usage, &mut symbolizer);
    report.files = exported.files.into_iter().filter(|file| !file.ends_with(memscope_dump::CONFIG_FILE)).collect();
    let problems = exported.problems.into_iter().chain(sampling_problem).collect();
    Ok((report, problems))
}
