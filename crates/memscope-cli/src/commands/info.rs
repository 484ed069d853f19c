//! `info DIR`: what an earlier run recorded.
use std::process::ExitCode;

use crate::intent::InfoSettings;
use memscope_session::export::recorded_processes;
use memscope_session::printer::Printer;
use memscope_session::report::{ProcessReport, resident_size, summary};
use memscope_session::usage_error::quoted;
use memscope_session::{EXIT_FAILURE, keeper};

pub(super) fn run(settings: &InfoSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let directories = recorded_processes(&settings.directory, None, printer)?;
    if directories.is_empty() {
        anyhow::bail!("there is no recording in {}", quoted(&settings.directory));
    }
    let mut reports = Vec::new();
    let mut failed = false;
    for directory in &directories {
        match ProcessReport::read(directory) {
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
