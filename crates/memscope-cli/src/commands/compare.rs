//! `--compare`: two earlier runs, or two steps of one, operator by operator.
use std::process::ExitCode;

use anyhow::Context;
use memscope_session::compare::compare;
use memscope_session::printer::Printer;
use memscope_session::views::layout::Layout;
use memscope_session::{EXIT_USAGE, output_dir, windows_home};

use crate::intent::CompareSettings;

pub(super) fn run(settings: &CompareSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    const STEPS: f64 = 1000.0;
    let wishes = &settings.wishes;
    for side in [&wishes.base, &wishes.compared] {
        windows_home::bring(&side.place.path, printer);
    }
    let bar = printer.progress("reading", STEPS as u64);
    let compared = compare(wishes, &mut |fraction| bar.set_position((fraction * STEPS) as u64));
    bar.finish_and_clear();
    let comparison = match compared {
        Ok(comparison) => comparison,
        Err(error) => {
            printer.error(&error);
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    if let Err(error) = output_dir::prepare(&settings.output_dir) {
        printer.error(&error);
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let file = comparison.write(&settings.output_dir).context("the comparison was not written")?;
    let printed = if settings.json {
        printer.json(&comparison.document(&file))
    } else {
        printer.document(&comparison.lines(&Layout::stdout()))
    };
    for note in comparison.notes.iter().chain(&comparison.remarks()) {
        printer.note(note);
    }
    printer.summary(&format_args!("written: {}", file.display()));
    Ok(printed)
}
