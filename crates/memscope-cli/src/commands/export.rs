//! `export DIR`: the files of an earlier run, written again.
use std::process::ExitCode;

use memscope_session::export::{export_all, recorded_processes};
use memscope_session::printer::Printer;
use memscope_session::report::{ends, summary};
use memscope_session::signals::Interruption;
use memscope_session::usage_error::quoted;
use memscope_session::{EXIT_FAILURE, EXIT_UNWRITTEN, EXIT_USAGE, keeper, output_dir, windows_home};

use crate::intent::ExportSettings;

pub(super) fn run(settings: &ExportSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    if let Some(output_dir) = &settings.wishes.output_dir
        && let Err(error) = output_dir::prepare(output_dir)
    {
        printer.error(&error);
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let interruption = Interruption::on_interrupt()?;
    windows_home::bring(&settings.directory, printer);
    let recordings = recorded_processes(&settings.directory, None, printer)?;
    if recordings.processes.is_empty() {
        anyhow::bail!("there is no recording in {}", quoted(&settings.directory));
    }
    match export_all(&recordings, &settings.wishes, &interruption, printer) {
        Some(mut batch) => {
            batch.unrecorded = keeper::read_all(&settings.directory);
            ends::fill_in(&mut batch.reports, None);
            let written_to = settings.wishes.output_dir.as_ref().unwrap_or(&settings.directory);
            printer.report(&summary::of_run(&batch, &settings.directory, written_to));
            Ok(match (batch.unwritten(), batch.unreadable) {
                (0, 0) => ExitCode::SUCCESS,
                (0, _) => ExitCode::from(EXIT_FAILURE),
                _ => ExitCode::from(EXIT_UNWRITTEN),
            })
        }
        None => {
            printer.error(&"the export was interrupted; files of processes that it did not reach are as they were");
            Ok(ExitCode::from(EXIT_UNWRITTEN))
        }
    }
}
