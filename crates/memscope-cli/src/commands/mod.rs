//! One module for each thing the command can do.
mod analyze;
mod api_env;
mod compare;
mod export;
mod info;
mod run;
mod view;

use std::process::ExitCode;

use memscope_session::keeper::side;
use memscope_session::printer::Printer;
use memscope_session::{EXIT_FAILURE, environment};

use crate::documents;
use crate::intent::Intent;

pub fn carry_out(intent: &Intent, printer: &Printer) -> ExitCode {
    let brand = printer.brand();
    let result = match intent {
        Intent::Help(command) => Ok(printer.verbatim(&documents::help(brand, *command))),
        Intent::Version => Ok(printer.verbatim(&documents::version(brand))),
        Intent::Completions(shell) => Ok(printer.verbatim(&documents::completions(brand, *shell))),
        Intent::ManPage => documents::man_page(brand).map(|page| printer.verbatim(&page)).map_err(Into::into),
        Intent::ApiEnv(change) => api_env::run(*change, printer),
        Intent::Run(settings) => run::run(settings, printer),
        Intent::Compare(settings) => compare::run(settings, printer),
        Intent::Export(settings) => export::run(settings, printer),
        Intent::Info(settings) => info::run(settings, printer),
        Intent::SideKeeper(watched) => {
            let record = std::env::var_os(environment::RECORD).unwrap_or_default();
            side::keep(*watched, &record).map(|()| ExitCode::SUCCESS)
        }
        Intent::Analyze(settings) => analyze::run(settings, printer),
        Intent::View(settings) => view::run(settings, printer),
    };
    result.unwrap_or_else(|error| {
        printer.error(&format_args!("{error:#}"));
        ExitCode::from(EXIT_FAILURE)
    })
}
