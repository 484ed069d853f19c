//! What the end-to-end tests share: real programs, compiled when they have changed, run bare and recorded, their recordings opened.
//!
//! * [`Workshop`]: a temporary directory in which programs of `tests/programs` are compiled and run.
//! * [`Recorder`]: the environment that makes a program record itself.
//! * [`Recorded`]: one recorded process, read through the decoder and through the model.
//!
//! The caller's duties: the staged libraries must exist (`make build`, or `MSMEMSCOPE_STAGE`). Nothing is skipped when
//! something is missing: a test that cannot run fails and says what it needs. Only what needs root says SKIPPED without.
#![forbid(unsafe_code)]

mod recorded;
mod recorder;
mod stage;
mod workshop;

pub use memscope_testkit::rounds;
pub use recorded::{Read, Recorded, Recording, read_events};
pub use recorder::Recorder;
pub use stage::{command, library, staged};
pub use workshop::{Workshop, finish, glibc_minor, is_root, python, python_minor, random, root_for};
