//! The only place that prints. Messages go to the standard error stream, behind the tool's name: standard output
//! belongs to the program, and to the few commands whose whole purpose is a text.
//!
//! Whatever it is given, a terminal is not made to obey: messages are escaped here, texts come as [`Line`]s, which are.
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::EXIT_FAILURE;
use crate::brand::Brand;
use crate::line::{Line, json_for_terminal};
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

    /// Several such lines.
    pub fn report(&self, lines: &[Line]) {
        if self.level <= LogLevel::Warn {
            lines.iter().for_each(|line| self.print(line));
        }
    }

    fn line(&self, message: &dyn Display) {
        self.print(&Line::new(message.to_string()));
    }

    fn print(&self, line: &Line) {
        // One write, so that lines of several processes on one terminal do not mix. There is nobody to tell that the
        // error stream is gone.
        let line = format!("[{}] {}\n", self.brand.name(), &**line);
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    /// A text for a person that was asked for, to standard output.
    pub fn document(&self, lines: &[Line]) -> ExitCode {
        self.write(&Line::text(lines))
    }

    /// A document for programs, which may be shown on a terminal all the same.
    pub fn json(&self, document: &str) -> ExitCode {
        self.write(&json_for_terminal(document))
    }

    /// A text that must arrive as it is: a file that was asked for on standard output, a word for a shell, and what is all of
    /// our own making, such as the help.
    pub fn verbatim(&self, text: &str) -> ExitCode {
        self.write(text)
    }

    /// A reader who has seen enough (`| head`) is no failure.
    fn write(&self, text: &str) -> ExitCode {
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
