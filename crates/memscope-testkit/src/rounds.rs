//! How often a test that depends on chance tries; `make test-long` asks for more.
use std::env;

/// As many cases of a property as usual, or so many times as many as `MSMEMSCOPE_PROPERTY_TIMES` says. Where a property has no number of
/// its own, proptest's `PROPTEST_CASES` is it.
///
/// # Panics
/// If it does not say a number.
pub fn cases(usual: u32) -> u32 {
    usual * rounds("MSMEMSCOPE_PROPERTY_TIMES", 1)
}

/// As often as usual, or as often as the variable says.
///
/// # Panics
/// As [`cases`].
pub fn rounds(variable: &str, usual: u32) -> u32 {
    let asked = env::var(variable).ok();
    asked.map_or(usual, |rounds| rounds.parse().unwrap_or_else(|error| panic!("{variable}={rounds}: {error}")))
}
