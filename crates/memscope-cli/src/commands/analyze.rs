//! `analyze`: what an earlier run, or dump files, say about leaks and the like.
use std::process::ExitCode;

use memscope_session::analyze::inefficient::check_inefficient;
use memscope_session::analyze::{Analyzed, analyze, document, lines};
use memscope_session::printer::Printer;
use memscope_session::usage_error::quoted;
use memscope_session::views::layout::Layout;
use memscope_session::{EXIT_FINDINGS, EXIT_USAGE, windows_home};

use crate::analyze_settings::AnalyzeSettings;

pub(super) fn run(settings: &AnalyzeSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    const STEPS: f64 = 1000.0;
    for path in &settings.paths {
        windows_home::bring(path, printer);
    }
    let bar = printer.progress("reading", STEPS as u64);
    let mut progress = |fraction: f64| bar.set_position((fraction * STEPS) as u64);
    let analyzed = match settings.write {
        false => {
            analyze(&settings.paths, &settings.kinds(), &settings.wishes, &mut progress).map_err(anyhow::Error::from)
        }
        true => check(settings, &mut progress, printer),
    };
    bar.finish_and_clear();
    let analyzed = match analyzed {
        Ok(analyzed) => analyzed,
        Err(error) => {
            printer.error(&error);
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    for error in &analyzed.unreadable {
        printer.error(error);
    }
    // What was asked for by name and can be had of nothing that was read.
    let mut wanting = false;
    for kind in settings.named.iter().chain(&settings.fail_on) {
        if let Some(why) = analyzed.wanting(*kind, &settings.paths) {
            printer.error(&why);
            wanting = true;
        }
    }
    if wanting || analyzed.processes.is_empty() {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let printed = match settings.json {
        true => printer.json(&document(&analyzed)),
        false => printer.document(&lines(&analyzed, &Layout::stdout())),
    };
    if !analyzed.unreadable.is_empty() {
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let is_found = settings.fail_on.iter().any(|kind| analyzed.findings(*kind) > 0);
    Ok(if is_found { ExitCode::from(EXIT_FINDINGS) } else { printed })
}

/// Analyzes one file after the other and adds to each what is found in it.
fn check(
    settings: &AnalyzeSettings,
    progress: &mut (dyn FnMut(f64) + Send),
    printer: &Printer,
) -> anyhow::Result<Analyzed> {
    let mut analyzed = Analyzed::default();
    for path in &settings.paths {
        let checked = check_inefficient(path, &settings.wishes, progress)?;
        analyzed.processes.extend(checked.processes);
        printer.note(&match checked.changed_rows {
            0 => format!("{} says all of it already", quoted(path)),
            1 => format!("a row of {} has a new inefficient_type", quoted(path)),
            number => format!("{number} rows of {} have a new inefficient_type", quoted(path)),
        });
    }
    Ok(analyzed)
}
