//! A recorded process as the files the manual describes.
//!
//! [`export_process`] streams the events of a [`memscope_model::Process`] once and writes, for each device,
//! `device_<id>/dump/memscope_dump_<time>.csv` or `.db`, and the run's `config.json`. The rows and their words are in
//! [`rows`], the forms in [`csv`] and [`sqlite`], the list of them in [`format`](mod@format). A file appears under its
//! name when it is complete, not before, and is not begun where there is no room for it.
//!
//! The caller's duties: show [`Exported::problems`] to the user.
//!
//! Such files, and those of the existing tool, are read back as traces: [`open`] and [`sources`] take whatever is at a path.
//!
//! What stays in memory is what the model keeps, one text for each distinct frame, and for a database the addresses of
//! live blocks; of the files, what is being written and what waits for it.
#![forbid(unsafe_code)]

mod annotate;
pub mod brand;
mod comparison;
pub mod config_json;
pub mod csv;
mod destination;
mod digits;
mod error;
mod event_rows;
mod export;
pub mod format;
mod pairing;
mod problem;
mod read;
mod room;
mod router;
pub mod rows;
pub mod sqlite;
mod stack_table;
mod stack_text;
mod tensor_words;
mod watch_dump;
mod worker;

pub use annotate::{AnnotateError, BlockFindings, FileAsRead, annotate};
pub use brand::Brand;
pub use comparison::{ComparisonRow, write_comparison};
pub use destination::file_time;
pub use error::ExportError;
pub use export::{CONFIG_FILE, DumpEvents, ExportOptions, Exported, SampledUsage, UsageLookup, export_process};
pub use format::{Format, StackForm};
pub use pairing::UnpairedCounts;
pub use problem::{Files, Problem};
pub use read::error::ReadError;
pub use read::source::FileSource;
pub use read::sources::{Source, Sources, file_sources, open, sources};
pub use room::Room;
