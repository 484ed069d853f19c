//! Two runs, or two steps of one, operator by operator: which belong together, how much memory each took, and who holds what
//! there is more of.
//!
//! [`compare`] reads both; the [`Comparison`] it returns is the rows of the file and the [`ComparisonReport`], which has the
//! views for people and programs.
mod pairing;
mod reading;
mod report;
mod text;

use crate::analyze::SCHEMA;
use crate::pass::{Progress, going_on};
use crate::place::Place;
use crate::settings::LevelSet;
use crate::usage_error::quoted;
use jiff::Zoned;
use memscope_analysis::{Aligned, Alignment, Launch, LaunchKind, Levels};
use memscope_dump::rows::{Event, NOT_APPLICABLE};
use memscope_dump::{ComparisonRow, ExportError, write_comparison};
use memscope_model::{Device, ModelError, NameId};
use rustc_hash::FxHashMap;
use serde_json::json;
use std::path::{Path, PathBuf};

pub use report::ComparisonReport;
use report::{LaunchCounts, Process, report_of};

/// What is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompareWishes {
    pub base: Side,
    pub compared: Side,
    /// `None`: whatever was recorded, be it no launch at all; then only who holds memory is compared.
    pub level: Option<LevelSet>,
}

/// A recording, dump files, or a step of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Side {
    pub place: Place,
    pub step: Option<u32>,
}

impl CompareWishes {
    fn levels(&self) -> Levels {
        let has = |level: LevelSet| self.level.is_none_or(|chosen| chosen.bits() & level.bits() != 0);
        Levels { operators: has(LevelSet::OP), kernels: has(LevelSet::KERNEL) }
    }
}

/// Why two things cannot be compared. Each is one line, and nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("--compare needs a level: --level=op, --level=kernel or --level=op,kernel")]
    NoLevel,
    #[error("there is neither a recording nor a csv or db file in {}; a run leaves one there with --output=DIR", quoted(.0))]
    Nothing(PathBuf),
    #[error("no {what} in {}: record it with --level={level} and launch among the --events", quoted(.path))]
    NoLaunches { what: &'static str, level: &'static str, path: PathBuf },
    #[error("no allocation, no operator and no kernel in {}", quoted(.path))]
    NoEvents { path: PathBuf },
    #[error("no {what} in step {step} of {}, which has {steps}", quoted(.path))]
    NoLaunchesInStep { what: &'static str, step: u32, steps: String, path: PathBuf },
    #[error("{} never came to step {asked}: {known}", quoted(.path))]
    NoSuchStep { path: PathBuf, asked: u32, known: String },
    #[error("{} cannot be read to its end: {why}", quoted(.file))]
    Incomplete { file: PathBuf, why: String },
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What a comparison came to.
#[derive(Debug)]
pub struct Comparison {
    pub report: ComparisonReport,
    /// What the user should know besides.
    pub notes: Vec<String>,
    pairs: Vec<PairedLaunches>,
}

/// The launches of two devices, and which of them belong together.
#[derive(Debug)]
struct PairedLaunches {
    device: Device,
    base: Vec<Launch>,
    compared: Vec<Launch>,
    /// By number, in both.
    names: Vec<(LaunchKind, String)>,
    /// What each launch is called.
    symbols: (Vec<u32>, Vec<u32>),
    alignment: Alignment,
}

/// Reads both sides and compares them. `progress` is told how much of all is done.
pub fn compare(wishes: &CompareWishes, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Comparison, CompareError> {
    compare_until(wishes, &mut going_on(progress))
}

/// As [`compare`], for whoever may break off.
pub fn compare_until(wishes: &CompareWishes, progress: &mut Progress<'_>) -> Result<Comparison, CompareError> {
    let levels = wishes.levels();
    if !levels.operators && !levels.kernels {
        return Err(CompareError::NoLevel);
    }
    let reading::Read { base, compared, notes } = reading::read(wishes, levels, progress)?;
    let pairing = pairing::pair(base, compared);
    let mut pairs = Vec::with_capacity(pairing.pairs.len());
    let mut report = ComparisonReport { pairs: Vec::new(), left_over: pairing.left_over };
    for mut pair in pairing.pairs {
        let (base, compared) = (std::mem::take(&mut pair.base.launches), std::mem::take(&mut pair.compared.launches));
        let paired = PairedLaunches::of(&pair.processes, pair.base.device, base, compared);
        let mut told = report_of(&pair, &paired, levels);
        if wishes.level.is_none() {
            for level in [&mut told.operators, &mut told.kernels] {
                level.take_if(|level| level.launches == LaunchCounts::default());
            }
        }
        report.pairs.push(told);
        pairs.push(paired);
    }
    Ok(Comparison { report, notes, pairs })
}

impl PairedLaunches {
    fn of(processes: &(Process, Process), device: Device, base: Vec<Launch>, compared: Vec<Launch>) -> PairedLaunches {
        let mut known: FxHashMap<(LaunchKind, String), u32> = FxHashMap::default();
        let mut symbols_of = |launches: &[Launch], process: &Process| -> Vec<u32> {
            // Spelled once, however often it is launched.
            let mut numbers: FxHashMap<(LaunchKind, Option<NameId>), u32> = FxHashMap::default();
            let number = |launch: &Launch| {
                *numbers.entry((launch.kind, launch.name)).or_insert_with(|| {
                    let name =
                        launch.name.and_then(|id| process.names.get(id)).map_or(NOT_APPLICABLE, |name| name.text);
                    let next = known.len() as u32;
                    *known.entry((launch.kind, name.to_owned())).or_insert(next)
                })
            };
            launches.iter().map(number).collect()
        };
        let symbols = (symbols_of(&base, &processes.0), symbols_of(&compared, &processes.1));
        let mut names: Vec<((LaunchKind, String), u32)> = known.into_iter().collect();
        names.sort_unstable_by_key(|(_, number)| *number);
        let names = names.into_iter().map(|(name, _)| name).collect();
        let alignment = Alignment::of(&symbols.0, &symbols.1);
        PairedLaunches { device, base, compared, names, symbols, alignment }
    }

    /// All launches of both, in order, with the number of their name.
    fn entries(&self) -> impl Iterator<Item = (u32, Option<&Launch>, Option<&Launch>)> {
        self.alignment.entries().map(|entry| match entry {
            Aligned::Both { base, compared } => {
                (self.symbols.0[base], Some(&self.base[base]), Some(&self.compared[compared]))
            }
            Aligned::BaseOnly(base) => (self.symbols.0[base], Some(&self.base[base]), None),
            Aligned::ComparedOnly(compared) => (self.symbols.1[compared], None, Some(&self.compared[compared])),
        })
    }

    fn rows(&self) -> impl Iterator<Item = ComparisonRow<'_>> {
        self.entries().map(|(symbol, base, compared)| {
            let (kind, name) = &self.names[symbol as usize];
            ComparisonRow {
                event: match kind {
                    LaunchKind::Operator => Event::OpLaunch,
                    LaunchKind::Kernel => Event::KernelLaunch,
                },
                name,
                device: self.device,
                base: base.map(|launch| launch.change),
                compared: compared.map(|launch| launch.change),
            }
        })
    }
}

impl Comparison {
    /// Writes the file of all launches; returns its name.
    pub fn write(&self, output_dir: &Path) -> Result<PathBuf, ExportError> {
        write_comparison(output_dir, &Zoned::now(), self.pairs.iter().flat_map(PairedLaunches::rows))
    }

    /// The document for programs, as text; `file` is what was written.
    pub fn document(&self, file: &Path) -> String {
        format!("{:#}\n", self.value(Some(file)))
    }

    /// The document for programs; `file` is what was written, if anything was.
    pub fn value(&self, file: Option<&Path>) -> serde_json::Value {
        let mut compare = json!({ "file": file.map(Path::to_string_lossy) });
        // Numbers, texts and lists of them are JSON, whatever they are.
        if let (Some(document), Ok(serde_json::Value::Object(report))) =
            (compare.as_object_mut(), serde_json::to_value(&self.report))
        {
            document.extend(report);
        }
        json!({ "schema": SCHEMA, "compare": compare })
    }
}
