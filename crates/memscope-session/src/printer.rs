//! The only place that prints. Messages go to the standard error stream, behind the tool's name: standard output
//! belongs to the program, and to the few commands whose whole purpose is a text.
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::EXIT_FAILURE;
use crate::brand::Brand;
use crate::settings::LogLevel;

#[derive(Clone, Copy, Debug)]
pub struct Printer {
    brand: Brand,
    level: LogLevel,
}

impl Printer {
    pub fn new(brand: Brand, level: LogLevel) -> Self {
        Self { brand, level }
    }

    pub fn brand(&self) -> Brand {
        self.brand
    }

    pub fn error(&self, message: &dyn Display) {
        self.line(&format_args!("error: {message}"));
    }

    /// Something the user should know but need not change.
    pub fn note(&self, message: &dyn Display) {
        if self.level <= LogLevel::Warn {
            self.line(&format_args!("note: {message}"));
        }
    }

    pub fn info(&self, message: &dyn Display) {
        if self.level <= LogLevel::Info {
            self.line(message);
        }
    }

    /// A line of the summary after a run: what the user ran the tool for, silenced by nothing but `--quiet`.
    pub fn summary(&self, message: &dyn Display) {
        if self.level <= LogLevel::Warn {
            self.line(message);
        }
    }

    fn line(&self, message: &dyn Display) {
        // One write, so that lines of several processes on one terminal do not mix. There is nobody to tell that the
        // error stream is gone.
        let line = format!("[{}] {message}\n", self.brand.name());
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    /// A text that was asked for, to standard output. A reader who has seen enough (`| head`) is no failure.
    pub fn document(&self, text: &str) -> ExitCode {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.error(&format_args!("standard output cannot be written: {error}"));
                ExitCode::from(EXIT_FAILURE)
            }
            _ => ExitCode::SUCCESS,
        }
    }

    /// A bar on a terminal, nothing elsewhere.
    pub fn progress(&self, what: &str, total: u64) -> ProgressBar {
        if self.level > LogLevel::Warn || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let template = format!("[{}] {{msg}} {{wide_bar}} {{percent}}%", self.brand.name());
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar
    }
}
