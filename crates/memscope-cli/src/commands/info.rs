//! `info DIR`: what an earlier run recorded.
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use memscope_analysis::Usage;
use memscope_model::{ModelError, Process};
use memscope_symbols::Symbolizer;

use super::export::recorded_processes;
use crate::printer::Printer;
use crate::process_report::ProcessReport;
use crate::settings::InfoSettings;
use crate::usage_error::quoted;
use crate::{EXIT_FAILURE, keeper, resident_size, summary};

pub(super) fn run(settings: &InfoSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let directories = recorded_processes(&settings.directory, None, printer)?;
    if directories.is_empty() {
        anyhow::bail!("there is no recording in {}", quoted(&settings.directory));
    }
    let mut reports = Vec::new();
    let mut failed = false;
    for directory in &directories {
        match read(directory) {
            Ok(report) => reports.push(report),
            Err(error) => {
                printer.error(&error);
                failed = true;
            }
        }
    }
    resident_size::fill_in(&mut reports);
    let mut text = summary::of_recording(&reports, &keeper::read_all(&settings.directory)).join("\n");
    text.push('\n');
    let printed = printer.document(&text);
    Ok(if failed { ExitCode::from(EXIT_FAILURE) } else { printed })
}

fn read(directory: &Path) -> Result<ProcessReport, ModelError> {
    let mut process = Process::open(directory)?;
    let mut usage = Usage::new();
    let outcome = process.replay(
        &mut |event, _| {
            usage.feed(event);
            ControlFlow::Continue(())
        },
        &mut |_| {},
    )?;
    Ok(ProcessReport::new(&process, directory, outcome, &usage, &mut Symbolizer::new()))
}
