//! What can be wrong with a spool: as a whole, or in places.
use crate::layout;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The spool cannot be read at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpoolError {
    Io {
        path: PathBuf,
        source: io::Error,
    },
    /// The file is a link to where the windows were kept, and they are not there.
    Elsewhere {
        path: PathBuf,
        target: PathBuf,
    },
    NotASpool {
        path: PathBuf,
        why: &'static str,
    },
    Version {
        path: PathBuf,
        found: u32,
    },
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::Io { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            SpoolError::Elsewhere { path, target } => write!(
                f,
                "cannot read {}: the output is on a file system that mappings cannot rely on, so the windows were kept at \
                 {}, on the machine that recorded",
                path.display(),
                target.display()
            ),
            SpoolError::NotASpool { path, why } => write!(f, "{} is not a recording: {why}", path.display()),
            SpoolError::Version { path, found } => write!(
                f,
                "{} was recorded in format version {found}; this program reads version {}",
                path.display(),
                layout::VERSION
            ),
        }
    }
}

impl std::error::Error for SpoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpoolError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A place that could not be read; everything else was.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Damage {
    /// Bytes of `events.spool` that belong to no intact spool block.
    Gap { offset: u64, length: u64 },
    /// A spool block whose content does not match its checksum.
    Checksum { lane: u32, generation: u32 },
    /// Spool blocks that are in neither file; `events` is how many events they held, where a later spool block tells.
    Missing { lane: u32, first: u32, last: u32, events: Option<u64> },
    /// A record that makes no sense; the rest of its spool block is skipped.
    Record { lane: u32, generation: u32, offset: usize },
    /// A place of `windows.spool` where a window should be, and is none.
    Window { offset: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Gap { offset, length } => {
                write!(f, "{}: {length} damaged bytes at offset {offset}", layout::EVENTS_FILE)
            }
            Damage::Checksum { lane, generation } => {
                write!(f, "lane {lane}: block {generation} fails its checksum and was skipped")
            }
            Damage::Missing { lane, first, last, events } => {
                write!(f, "lane {lane}: ")?;
                if first == last {
                    write!(f, "block {first} is missing")?;
                } else {
                    write!(f, "blocks {first} to {last} are missing")?;
                }
                match events {
                    Some(events) => write!(f, " with {events} events"),
                    None => Ok(()),
                }
            }
            Damage::Record { lane, generation, offset } => {
                write!(f, "lane {lane}: block {generation} is unreadable from byte {offset} on")
            }
            Damage::Window { offset } => {
                write!(f, "{}: the window at offset {offset} is damaged", layout::WINDOWS_FILE)
            }
        }
    }
}
