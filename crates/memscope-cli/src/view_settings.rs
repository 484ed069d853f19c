//! What the commands that read a recording are to show.
use std::path::PathBuf;

use memscope_session::settings::values::Refused;
use memscope_session::views::reading::{At, Question};
use memscope_session::views::rows::Order;
use memscope_session::views::spelling::{self, Chart};

use crate::options::{OptionId, SubCommand};

#[derive(Clone, PartialEq, Debug)]
pub struct ViewSettings {
    /// What is looked at, in the recording of this directory.
    pub subject: (PathBuf, Question),
    pub show: Show,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Show {
    Top { order: Order, rows: usize, json: bool },
    Tree { least: f64, json: bool },
    Flamegraph { chart: Chart, file: Option<PathBuf> },
    Diff { compared: (PathBuf, Question), rows: usize, json: bool, svg: bool, file: Option<PathBuf> },
}

/// The options of these commands, as far as they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct ViewDraft {
    at: (At, Option<At>),
    pid: (Option<u32>, Option<u32>),
    question: Question,
    order: Order,
    rows: Option<usize>,
    least: Option<f64>,
    chart: Chart,
    svg: bool,
    json: bool,
    pub(crate) output: Option<PathBuf>,
}

/// Options and operands that do not go together.
pub(crate) enum WrongUse {
    NothingToCompare,
    OnlyDiffTakesTwo {
        option: &'static str,
    },
    /// All that was ever allocated is of no moment.
    TotalIsNoMoment,
}

const ROWS: usize = 20;
const LEAST: f64 = 0.01;

impl ViewDraft {
    pub(crate) fn apply(&mut self, id: OptionId, text: &str) -> Result<(), Refused> {
        match id {
            OptionId::At => self.at = spelling::one_or_two(text, spelling::at)?,
            OptionId::Pid => {
                let (first, second) = spelling::one_or_two(text, spelling::pid)?;
                self.pid = (Some(first), second);
            }
            OptionId::OfDevice => self.question.device = Some(spelling::device(text)?),
            OptionId::Pool => self.question.pool = Some(spelling::pool(text)?),
            OptionId::Sort => self.order = spelling::order(text)?,
            OptionId::Rows => self.rows = Some(spelling::rows(text)?),
            OptionId::Least => self.least = Some(spelling::percent(text)?),
            OptionId::Chart => self.chart = spelling::chart(text)?,
            OptionId::Svg => self.svg = true,
            OptionId::Json => self.json = true,
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// The one moment that was asked for, or else the peak.
    pub(crate) fn moment(&self) -> Result<At, WrongUse> {
        match self.at {
            (_, Some(_)) => Err(WrongUse::OnlyDiffTakesTwo { option: "--at" }),
            (At::Total, None) => Err(WrongUse::TotalIsNoMoment),
            (at, None) => Ok(at),
        }
    }

    pub(crate) fn settings(
        &self,
        command: SubCommand,
        directory: PathBuf,
        second: Option<PathBuf>,
    ) -> Result<ViewSettings, WrongUse> {
        let question = Question { at: self.at.0, pid: self.pid.0, ..self.question };
        let twice = match (self.at.1, self.pid.1) {
            (Some(_), _) => Some(OptionId::At),
            (None, Some(_)) => Some(OptionId::Pid),
            (None, None) => None,
        };
        if let Some(option) = twice.filter(|_| command != SubCommand::Diff) {
            let option = if option == OptionId::At { "--at" } else { "--pid" };
            return Err(WrongUse::OnlyDiffTakesTwo { option });
        }
        let show = match command {
            SubCommand::Tree => Show::Tree { least: self.least.unwrap_or(LEAST), json: self.json },
            SubCommand::Flamegraph => Show::Flamegraph { chart: self.chart, file: self.output.clone() },
            SubCommand::Diff => {
                if second.is_none() && twice.is_none() {
                    return Err(WrongUse::NothingToCompare);
                }
                let (at, pid) = (self.at.1.unwrap_or(self.at.0), self.pid.1.or(self.pid.0));
                Show::Diff {
                    compared: (second.unwrap_or_else(|| directory.clone()), Question { at, pid, ..self.question }),
                    rows: self.rows.unwrap_or(ROWS),
                    json: self.json,
                    svg: self.svg,
                    file: self.output.clone(),
                }
            }
            _ => Show::Top { order: self.order, rows: self.rows.unwrap_or(ROWS), json: self.json },
        };
        Ok(ViewSettings { subject: (directory, question), show })
    }
}
