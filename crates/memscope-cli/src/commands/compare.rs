//! `--compare`: comes with a later release.
use std::process::ExitCode;

use crate::EXIT_USAGE;
use crate::intent::CompareSettings;
use memscope_session::printer::Printer;
use memscope_session::usage_error::quoted;

pub(super) fn run(settings: &CompareSettings, printer: &Printer) -> ExitCode {
    printer.error(&format_args!(
        "--compare is not available in this version; {} and {} were not compared",
        quoted(&settings.base),
        quoted(&settings.compared)
    ));
    ExitCode::from(EXIT_USAGE)
}
