//! What a recording says about memory, for people: one stack of both languages ([`merged`]), sums by function, by call site and
//! by way of calls ([`profile`], [`tree`]), and how they are shown.
//!
//! Everything here works on any [`memscope_model::TraceSource`]; names are made only of what is shown.
pub mod diff;
pub mod flamegraph;
pub mod json;
pub mod layout;
pub mod merged;
pub mod names;
pub mod profile;
pub mod reading;
pub mod role;
pub mod rows;
pub mod spelling;
pub mod tree;
