//! `info PATH`: what an earlier run recorded, or what dump files say.
use std::process::ExitCode;

use crate::intent::InfoSettings;
use memscope_session::export::{read_all, read_dumps, recorded_processes};
use memscope_session::printer::Printer;
use memscope_session::report::{ends, summary};
use memscope_session::usage_error::quoted;
use memscope_session::{EXIT_FAILURE, keeper};

pub(super) fn run(settings: &InfoSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let recordings = recorded_processes(&settings.directory, None, printer)?;
    let mut batch = read_all(&recordings, printer);
    let dumps = read_dumps(&settings.directory, &recordings, printer);
    batch.reports.extend(dumps.reports);
    batch.unreadable += dumps.unreadable;
    if batch.reports.is_empty() && batch.unreadable == 0 {
        anyhow::bail!("there is neither a recording nor a dump in {}", quoted(&settings.directory));
    }
    batch.unrecorded = keeper::read_all(&settings.directory);
    ends::fill_in(&mut batch.reports, None);
    let printed = printer.document(&summary::of_recording(&batch, &settings.directory, settings.all));
    Ok(if batch.unreadable > 0 { ExitCode::from(EXIT_FAILURE) } else { printed })
}
