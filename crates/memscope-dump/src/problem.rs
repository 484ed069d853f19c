//! What a user should know of files that were written.
use crate::pairing::UnpairedCounts;
use std::fmt;
use std::path::{Path, PathBuf};

/// Files that have the same said of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    first: PathBuf,
    more: u64,
}

impl Files {
    pub(crate) fn only(file: &Path) -> Files {
        Files { first: file.to_owned(), more: 0 }
    }

    fn join(&mut self, other: &Files) {
        self.more += 1 + other.more;
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Files { first, more } = self;
        match more {
            0 => write!(f, "{}", first.display()),
            1 => write!(f, "{} and 1 more file", first.display()),
            more => write!(f, "{} and {more} more files", first.display()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// Names that are missing, and why; or samples that are.
    Missing(String),
    /// Events of no device, in a run of which no device has a file.
    NoDevice { events: u64 },
    /// Rows of a database that are kept out of the way of the viewer.
    Unpaired { files: Files, table: &'static str, counts: UnpairedCounts },
    /// Databases the viewer refuses because there is no block in them.
    NothingToShow { files: Files },
    /// Databases that are larger than the viewer takes.
    TooLarge { files: Files },
}

impl Problem {
    /// Takes in what is said of the files of another process, if it is the same; `false` if it is something else.
    pub fn join(&mut self, other: &Problem) -> bool {
        match (self, other) {
            (Problem::Missing(mine), Problem::Missing(theirs)) => mine == theirs,
            (Problem::NoDevice { events }, Problem::NoDevice { events: more }) => {
                *events += more;
                true
            }
            (
                Problem::Unpaired { files, table, counts },
                Problem::Unpaired { files: more, table: same, counts: theirs },
            ) if table == same => {
                files.join(more);
                counts.add(theirs);
                true
            }
            (Problem::NothingToShow { files }, Problem::NothingToShow { files: more })
            | (Problem::TooLarge { files }, Problem::TooLarge { files: more }) => {
                files.join(more);
                true
            }
            _ => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Missing(what) => f.write_str(what),
            Problem::NoDevice { events } => write!(
                f,
                "{events} events, such as operators of torch, belong to none of the recorded devices: they are in no file"
            ),
            Problem::Unpaired { files, table, counts } => write!(
                f,
                "{files}: {} rows are in table {table} because MindStudio Insight cannot pair them: {counts}",
                counts.total()
            ),
            Problem::NothingToShow { files } => {
                write!(f, "{files}: no block to show, MindStudio Insight will refuse it")
            }
            Problem::TooLarge { files } => write!(f, "{files}: MindStudio Insight refuses files above 20 GiB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpaired(file: &str, by_size: u64, by_address: u64) -> Problem {
        let counts = UnpairedCounts { by_size, by_address };
        Problem::Unpaired { files: Files::only(Path::new(file)), table: "memscope_unpaired", counts }
    }

    #[test]
    fn the_same_of_many_files_is_one_sentence() {
        let mut first = unpaired("a.db", 3, 0);
        assert!(first.join(&unpaired("b.db", 4, 0)) && first.join(&unpaired("c.db", 0, 2)));
        let text = first.to_string();
        assert!(text.starts_with("a.db and 2 more files: 9 rows") && text.contains("7 of blocks"), "{text}");
    }

    #[test]
    fn what_differs_stays_apart() {
        let mut missing = Problem::Missing("libx.so has no symbols".to_owned());
        assert!(missing.join(&missing.clone()));
        assert!(!missing.join(&Problem::Missing("liby.so has no symbols".to_owned())));
        assert!(!missing.join(&unpaired("a.db", 1, 0)));
    }
}
