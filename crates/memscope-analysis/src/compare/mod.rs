//! Two traces, or two steps of one, operator by operator.
mod alignment;
mod launches;
mod owners;
mod search;

pub use alignment::{Aligned, Alignment, Run};
pub use launches::{Launch, LaunchKind, LaunchTally, Launches, Levels};
pub use owners::OwnerTally;
