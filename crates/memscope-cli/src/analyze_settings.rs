//! What `analyze` is to find out.
use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;

use memscope_session::analyze::leaks::Marks;
use memscope_session::analyze::{ANALYSES, Kind, Wishes};
use memscope_session::settings::values::{self, Refused};

use crate::options::OptionId;

#[derive(Clone, PartialEq, Debug)]
pub struct AnalyzeSettings {
    pub paths: Vec<PathBuf>,
    /// Those that were named.
    pub named: Vec<Kind>,
    pub wishes: Wishes,
    pub json: bool,
    pub fail_on: Vec<Kind>,
    /// What is found is added to the files.
    pub write: bool,
}

impl AnalyzeSettings {
    /// What is looked for: all, if nothing was named.
    pub fn kinds(&self) -> Vec<Kind> {
        let named: Vec<Kind> = self.named.iter().chain(&self.fail_on).copied().collect();
        let wanted = |kind: &Kind| self.named.is_empty() || named.contains(kind);
        ANALYSES.iter().map(|row| row.kind).filter(wanted).collect()
    }
}

/// The options of this command, as far as they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnalyzeDraft {
    wishes: Wishes,
    fail_on: Vec<Kind>,
    write: bool,
}

impl AnalyzeDraft {
    pub(crate) fn apply(&mut self, id: OptionId, text: &str) -> Result<(), Refused> {
        let inefficient = &mut self.wishes.inefficient;
        match id {
            OptionId::FailOn => self.fail_on = kinds(text)?,
            OptionId::MstxInfo if text.trim().is_empty() => return Err(refused(text)),
            OptionId::MstxInfo => self.marks().text = text.to_owned(),
            OptionId::StartIndex => self.marks().start = text.parse().map_err(|_| refused(text))?,
            OptionId::MemSize => inefficient.least_bytes = values::least_size(text)?,
            OptionId::InefficientType => inefficient.kinds = values::inefficient_types(text)?,
            OptionId::IdleThreshold => inefficient.idle_threshold = values::idle_threshold(text)?,
            OptionId::Write => self.write = true,
            _ => {}
        }
        Ok(())
    }

    fn marks(&mut self) -> &mut Marks {
        self.wishes.marks.get_or_insert_default()
    }

    /// Words that name an analysis name it, whatever files there are; `./leaks` is a file.
    pub(crate) fn settings(&self, operands: &[OsString], json: bool) -> AnalyzeSettings {
        let (mut paths, mut named, mut wishes) = (Vec::new(), Vec::new(), self.wishes.clone());
        for operand in operands {
            let word = operand.to_str().unwrap_or_default();
            if let Some(listed) = listed_at_oom(word) {
                named.push(Kind::Oom);
                wishes.oom_listed = Some(listed);
                continue;
            }
            match Kind::from_word(word) {
                Some(kind) => named.push(kind),
                None => paths.push(PathBuf::from(operand)),
            }
        }
        // Marks are about leaks.
        if named.is_empty() && wishes.marks.is_some() {
            named.push(Kind::Leaks);
        }
        let AnalyzeDraft { fail_on, write, .. } = self.clone();
        AnalyzeSettings { paths, named, wishes, json, fail_on, write }
    }
}

fn refused(item: &str) -> Refused {
    Refused { item: item.to_owned(), reason: "" }
}

/// `oom:20`, as in `--analysis`.
fn listed_at_oom(word: &str) -> Option<NonZeroU16> {
    let word = word.strip_prefix("oom:").map(|_| word)?;
    values::analysis(word).ok()?.chosen.oom
}

fn kinds(text: &str) -> Result<Vec<Kind>, Refused> {
    text.split([',', '，']).map(|word| Kind::from_word(word.trim()).ok_or_else(|| refused(word))).collect()
}
