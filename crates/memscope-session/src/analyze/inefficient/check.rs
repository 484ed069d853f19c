//! Looks for memory held for nothing in one file, and writes into it what was found.
use super::Search;
use crate::analyze::{AnalyzedProcess, Ended, Kind, Lacking, Wishes, name_of};
use crate::pass::{Progress, going_on, pass};
use crate::usage_error::quoted;
use crate::views::merged::Naming;
use memscope_analysis::InefficiencyTally;
use memscope_dump::{AnnotateError, BlockFindings, FileAsRead, Source, Sources, annotate, file_sources};
use memscope_model::ModelError;
use memscope_symbols::{Symbolizer, Symbols};
use std::path::{Path, PathBuf};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(
        "{} is a directory; name a csv or db file to write into, or export the recording again with --analysis=inefficient",
        quoted(.0)
    )]
    Directory(PathBuf),
    #[error("no inefficient memory of {}: {}", quoted(.path), .what.0)]
    Lacking { path: PathBuf, what: Lacking },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Write(#[from] AnnotateError),
}

/// What came of a file.
#[derive(Debug)]
pub struct Checked {
    /// One for each process that has rows in it.
    pub processes: Vec<AnalyzedProcess>,
    /// Rows that say more than they did.
    pub changed_rows: u64,
}

/// Finds the memory that is held for nothing in a csv or db file, and adds it to the rows that allocate it. What an earlier
/// call found stays. The file is changed as a whole or not at all.
pub fn check_inefficient(
    path: &Path,
    wishes: &Wishes,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Checked, CheckError> {
    check_inefficient_until(path, wishes, &mut going_on(progress))
}

/// As [`check_inefficient`], for whoever may break off.
pub fn check_inefficient_until(
    path: &Path,
    wishes: &Wishes,
    progress: &mut Progress<'_>,
) -> Result<Checked, CheckError> {
    if path.is_dir() {
        return Err(CheckError::Directory(path.to_owned()));
    }
    let file = FileAsRead::begin(path)?;
    let Sources { found, mut unreadable } = file_sources(path, &[]);
    if let Some((_, error)) = unreadable.pop() {
        return Err(error.into());
    }
    let number = found.len();
    let (symbols, mut findings, mut processes) = (Symbols::default(), BlockFindings::default(), Vec::new());
    for (place, Source { path, mut trace }) in found.into_iter().enumerate() {
        let tally = InefficiencyTally::annotating(wishes.inefficient);
        let mut search = Search::new(tally, wishes.inefficient);
        let outcome =
            pass(&mut *trace, &mut [&mut search.tally], &mut |done| progress((place as f64 + done) / number as f64))?;
        let mut symbolizer = Symbolizer::sharing(&symbols);
        let mut naming = Naming::new(trace.stacks(), &mut symbolizer);
        let mut info = trace.info();
        if info.command.is_empty() {
            info.command = name_of(&path);
        }
        let (conclusion, annotations) = search.conclude(&Ended::new(&info, &outcome, &path), &mut naming);
        findings.add((number > 1).then_some(info.pid), annotations);
        processes.push(AnalyzedProcess { info, path, conclusions: vec![(Kind::Inefficient, conclusion)] });
    }
    let conclusions = || processes.iter().flat_map(|process| &process.conclusions);
    if conclusions().all(|(_, conclusion)| conclusion.is_err()) {
        let what = conclusions().find_map(|(_, conclusion)| conclusion.as_ref().err()).cloned();
        let what = what.unwrap_or_else(|| Lacking(String::from("it has no rows")));
        return Err(CheckError::Lacking { path: path.to_owned(), what });
    }
    let changed_rows = annotate(&file, &findings)?;
    Ok(Checked { processes, changed_rows })
}
