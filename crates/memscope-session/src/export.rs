//! The files of recorded processes, and what they say about each.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use indicatif::ProgressBar;
use memscope_analysis::{InefficiencySettings, InefficiencyTally};
use memscope_dump::{
    DumpEvents, ExportError, ExportOptions, Format, Problem, Room, Source, Sources, StackForm, export_process,
    file_sources,
};
use memscope_model::{Annotations, ModelError, Process, SPOOL_DIRECTORY, TraceSource, survey_processes};
use memscope_symbols::{Symbolizer, Symbols};

use crate::brand::Brand;
use crate::device_usage::SampledRuns;
use crate::keeper::Unrecorded;
use crate::printer::Printer;
use crate::report::holders::Largest;
use crate::report::{Analyses, ProcessReport, resident_size};
use crate::settings::Analysis;
use crate::signals::Interruption;
use crate::workers;

/// What was found of a run, or of several.
#[derive(Debug)]
pub struct Recordings {
    /// The directories of processes, in order of start.
    pub processes: Vec<PathBuf>,
    /// How many more there are that cannot be read.
    pub unreadable: u64,
}

/// The recordings in `root`, of one run or all; says which cannot be read.
pub fn recorded_processes(root: &Path, run: Option<u64>, printer: &Printer) -> anyhow::Result<Recordings> {
    // A dump file is no recording.
    if root.is_file() {
        return Ok(Recordings { processes: Vec::new(), unreadable: 0 });
    }
    let found = survey_processes(root, run)?;
    for (_, error) in &found.unreadable {
        printer.error(error);
    }
    Ok(Recordings { processes: found.processes, unreadable: found.unreadable.len() as u64 })
}

/// What several recordings say.
#[derive(Debug, Default)]
pub struct Batch {
    /// Of all processes whose recording can be read, whether files could be made of it or not.
    pub reports: Vec<ProcessReport>,
    /// Processes whose recording cannot be read.
    pub unreadable: u64,
    /// Processes of the same runs without a recording.
    pub unrecorded: Vec<Unrecorded>,
}

impl Batch {
    /// Processes of which some file could not be written.
    pub fn unwritten(&self) -> u64 {
        self.reports.iter().filter(|report| !report.unwritten.is_empty()).count() as u64
    }

    /// In the order of the recordings, whichever was read first.
    fn take_in<E: std::fmt::Display>(&mut self, results: Vec<Result<ProcessReport, E>>, printer: &Printer) {
        for result in results {
            match result {
                Ok(report) => self.reports.push(report),
                Err(error) => {
                    self.unreadable += 1;
                    printer.error(&error);
                }
            }
        }
        resident_size::fill_in(&mut self.reports);
    }
}

/// Replays each recording for nothing but its report.
pub fn read_all(recordings: &Recordings, printer: &Printer) -> Batch {
    let progress = Progress::new("reading", &recordings.processes, printer);
    let shared = Shared::default();
    let reports: Vec<Result<ProcessReport, ModelError>> = workers::each(
        &recordings.processes,
        |directory| recorded_bytes(directory),
        |index, directory| {
            let mut symbolizer = Symbolizer::sharing(&shared.symbols);
            ProcessReport::read(directory, &mut symbolizer, &shared.largest, &mut progress.of(index))
        },
    );
    progress.bar.finish_and_clear();
    let mut batch = Batch { unreadable: recordings.unreadable, ..Batch::default() };
    batch.take_in(reports, printer);
    batch
}

/// As [`read_all`], of dump files of processes that have no recording in `root`, which may be such a file itself.
pub fn read_dumps(root: &Path, recordings: &Recordings, printer: &Printer) -> Batch {
    let Sources { found, unreadable } = file_sources(root, &recordings.processes);
    let mut results: Vec<Result<ProcessReport, ModelError>> =
        unreadable.into_iter().map(|(_, error)| Err(error)).collect();
    let paths: Vec<PathBuf> = found.iter().map(|source| source.path.clone()).collect();
    let progress = Progress::new("reading", &paths, printer);
    let largest = Largest::default();
    for (index, Source { path, mut trace }) in found.into_iter().enumerate() {
        let mut analyses = Analyses::of_dump();
        let outcome = trace.run(&mut analyses.sinks(), &mut progress.of(index));
        let mut symbolizer = Symbolizer::new();
        let report = |outcome| ProcessReport::of_dump(&*trace, &path, outcome, analyses, &mut symbolizer, &largest);
        results.push(outcome.map(report));
    }
    progress.bar.finish_and_clear();
    let mut batch = Batch::default();
    batch.take_in(results, printer);
    batch
}

/// Programs may have hundreds of libraries without symbols.
const PROBLEMS_SHOWN: usize = 8;

/// What the user wants of the files, where it is not what the run was recorded for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExportWishes {
    /// `None`: that of the run; csv, if that is to write none.
    pub format: Option<Format>,
    /// `None`: that of the run.
    pub stacks: Option<StackForm>,
    /// Files go to a directory in it with the name of the process directory; `None`: into the process directory.
    pub output_dir: Option<PathBuf>,
    /// What the report and the rows are to say; `None`: what the run was asked for.
    pub analysis: Option<Analysis>,
}

impl ExportWishes {
    fn format_for(&self, process: &Process) -> Format {
        let recorded = process.settings().data_format.and_then(Format::from_code);
        self.format.or(recorded.filter(|format| *format != Format::NoFiles)).unwrap_or_default()
    }

    fn stacks_for(&self, process: &Process) -> Option<StackForm> {
        self.stacks.or_else(|| process.settings().stacks.and_then(StackForm::from_word))
    }

    fn analysis_for(&self, process: &Process) -> Analysis {
        self.analysis.unwrap_or_else(|| Analysis::of_recording(&process.settings()))
    }

    /// Where the files of the process recorded in `directory` go.
    fn destination(&self, directory: &Path) -> PathBuf {
        let Some(output_dir) = &self.output_dir else { return directory.to_owned() };
        // `.`, `..` and links have no name of their own.
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let spool = directory.file_name().is_some_and(|name| name == SPOOL_DIRECTORY);
        let process_directory = if spool { directory.parent() } else { Some(directory.as_path()) };
        output_dir.join(process_directory.and_then(Path::file_name).unwrap_or_default())
    }
}

/// Exports each process; `None` if the user asked to stop.
pub fn export_all(
    recordings: &Recordings,
    wishes: &ExportWishes,
    interruption: &Interruption,
    printer: &Printer,
) -> Option<Batch> {
    let progress = Progress::new("exporting", &recordings.processes, printer);
    let shared = Shared::default();
    let exports = workers::each(
        &recordings.processes,
        |directory| recorded_bytes(directory),
        |index, directory| {
            let mut notice = |text: String| progress.bar.suspend(|| printer.note(&text));
            export_one(directory, wishes, &shared, interruption, &mut progress.of(index), &mut notice)
        },
    );
    progress.bar.finish_and_clear();
    let mut problems: Vec<Problem> = Vec::new();
    let mut reports = Vec::with_capacity(exports.len());
    for export in exports {
        match export {
            Err(ExportError::Cancelled) => return None,
            Ok((report, of_process)) => {
                for problem in of_process {
                    if !problems.iter_mut().any(|known| known.join(&problem)) {
                        problems.push(problem);
                    }
                }
                reports.push(Ok(report));
            }
            Err(error) => reports.push(Err(error)),
        }
    }
    let mut batch = Batch { unreadable: recordings.unreadable, ..Batch::default() };
    batch.take_in(reports, printer);
    for problem in problems.iter().take(PROBLEMS_SHOWN) {
        printer.note(problem);
    }
    if let more @ 1.. = problems.len().saturating_sub(PROBLEMS_SHOWN) {
        printer.note(&format_args!("and {more} more such notes"));
    }
    Some(batch)
}

/// What is read once for all processes.
#[derive(Default)]
struct Shared {
    symbols: Symbols,
    sampled: SampledRuns,
    largest: Largest,
    room: Room,
}

/// One bar for all recordings.
struct Progress {
    bar: ProgressBar,
    /// How far each is, and the sum of that.
    done: Mutex<(Vec<u64>, u64)>,
}

impl Progress {
    /// Of a recording.
    const WHOLE: u64 = 1000;

    fn new(what: &str, directories: &[PathBuf], printer: &Printer) -> Progress {
        let number = directories.len();
        let bar = printer.progress(what, number as u64 * Self::WHOLE);
        Progress { bar, done: Mutex::new((vec![0; number], 0)) }
    }

    /// For whoever works on one of them.
    fn of(&self, index: usize) -> impl FnMut(f64) + '_ {
        move |fraction| {
            let Ok(mut done) = self.done.lock() else { return };
            let (each, sum) = &mut *done;
            let now = (fraction * Self::WHOLE as f64) as u64;
            *sum = *sum + now - each[index].min(now);
            each[index] = now.max(each[index]);
            self.bar.set_position(*sum);
        }
    }
}

/// What is on the disk, roughly what there is to do.
fn recorded_bytes(directory: &Path) -> u64 {
    const UNIT: u64 = 512;
    let files =
        [directory.join(SPOOL_DIRECTORY), directory.to_owned()].into_iter().find_map(|path| fs::read_dir(path).ok());
    files.into_iter().flatten().flatten().filter_map(|file| Some(file.metadata().ok()?.blocks() * UNIT)).sum()
}

/// What is said in rows of allocations and known only later: a pass of its own.
fn inefficient_blocks(process: &mut Process) -> Result<Annotations, ModelError> {
    let mut tally = InefficiencyTally::annotating(InefficiencySettings::default());
    process.run(&mut [&mut tally], &mut |_| {})?;
    Ok(tally.take_annotations())
}

fn export_one(
    directory: &Path,
    wishes: &ExportWishes,
    shared: &Shared,
    interruption: &Interruption,
    progress: &mut dyn FnMut(f64),
    notice: &mut dyn FnMut(String),
) -> Result<(ProcessReport, Vec<Problem>), ExportError> {
    if interruption.requested() {
        return Err(ExportError::Cancelled);
    }
    let mut process = Process::open(directory)?;
    let brand = process.settings().brand.and_then(Brand::from_name).unwrap_or_default();
    let dump_events = process.settings().dump.map_or(DumpEvents::ALL, DumpEvents::from_bits);
    let mut symbolizer = Symbolizer::sharing(&shared.symbols);
    let analysis = wishes.analysis_for(&process);
    let mut analyses = Analyses::of(&process, &analysis);
    let annotations = if analysis.inefficient { Some(inefficient_blocks(&mut process)?) } else { None };
    let (sampled, sampling_problem) = shared.sampled.process(&process, directory);
    let options = ExportOptions {
        format: wishes.format_for(&process),
        brand,
        stacks: wishes.stacks_for(&process),
        dump_events,
        room: &shared.room,
        notice,
        progress,
        cancel: Some(interruption.flag()),
        symbolizer: &mut symbolizer,
        usage: Some(&|device, time| sampled.at(device, time)),
        annotations: annotations.as_ref(),
    };
    let exported = export_process(&mut process, &wishes.destination(directory), options, &mut analyses.sinks())?;
    let mut report =
        ProcessReport::new(&process, directory, exported.outcome, analyses, &mut symbolizer, &shared.largest);
    report.files = exported.files.into_iter().filter(|file| !file.ends_with(memscope_dump::CONFIG_FILE)).collect();
    report.unwritten = exported.failures.iter().map(ToString::to_string).collect();
    let problems = exported.problems.into_iter().chain(sampling_problem.map(Problem::Missing)).collect();
    Ok((report, problems))
}
