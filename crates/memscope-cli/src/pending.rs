//! What is accepted but has no effect yet. Whoever makes one work deletes its line; the list must be empty one day.
use memscope_session::settings::Settings;

pub(crate) struct Pending {
    pub(crate) applies: fn(&Settings) -> bool,
    pub(crate) note: &'static str,
}

pub(crate) static PENDING: &[Pending] = &[
    Pending {
        applies: |settings| settings.watch.is_some(),
        note: "--watch has no effect in this version; the program runs without watching",
    },
    Pending {
        applies: |settings| settings.traceback,
        note: "--events=traceback has no effect on the command line; the Python interface collects it",
    },
];
