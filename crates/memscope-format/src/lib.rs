//! The spool: the one thing the recording process and the analysing process share.
//!
//! What it does: names the events ([`record`]), lays out the two files ([`layout`]), encodes without allocating
//! ([`encode`]) and, with feature `decode`, reads any bytes back without trusting them ([`decode`]).
//! The bytes are specified in `docs/format.md`; a change of them is a new [`layout::VERSION`].
//!
//! The encoder's duties: one writer per window, [`encode::MAX_EVENT`] bytes of room before each event.
//!
//! What it is not: it opens no file in the target process and knows neither threads nor hooks.
#![cfg_attr(not(any(test, feature = "decode")), no_std)]

mod choices;
#[cfg(any(test, feature = "decode"))]
pub mod decode;
pub mod encode;
mod followers;
pub mod keeper;
pub mod layout;
pub mod record;
mod records;
pub mod settings;
pub mod watch;
