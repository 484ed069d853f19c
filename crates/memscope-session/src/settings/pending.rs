//! What is accepted but has no effect yet. Whoever makes one work deletes its line; the list must be empty one day.
use super::Settings;

pub struct Pending {
    pub applies: fn(&Settings) -> bool,
    pub note: &'static str,
}

pub static PENDING: &[Pending] = &[Pending {
    applies: |settings| settings.watch.is_some(),
    note: "--watch has no effect in this version; the program runs without watching",
}];
