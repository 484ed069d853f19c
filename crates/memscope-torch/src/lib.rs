//! torch's operators as they pass by, read from torch's own objects in the target process.
//!
//! torch tells whoever asks (`at::addGlobalCallback`) of each call of its dispatcher, with an object of a class that has no
//! stable layout and hardly a function to ask it anything. What is read of it is in a [`layout`] table, by torch's
//! [`version`] and its form of `std::string`. A new torch may move things: nothing is believed before it was compared with
//! what torch's exported functions and the objects among each other say ([`check`]), and where that fails names are all
//! that is told.
//!
//! Nothing here calls an operator, allocates, or changes an object: the program is the same with and without it. Fields are
//! read and accessors not called, because those of tensors copy what is shared lazily, or throw.
//!
//! torch makes an object for each call as long as anybody listens. Whoever is asked for the [`listeners`] of a call in torch's
//! place is spared the calls that are made within others.
//!
//! The caller's duties: to find torch's functions, to register [`callback`] once, and to remember what [`operator::Facts`]
//! were found of a schema, for they are looked up once for each operator.
#![cfg_attr(not(test), no_std)]

pub mod callback;
pub mod check;
pub mod layout;
pub mod listeners;
mod memory;
pub mod operator;
mod record_function;
mod schema;
pub mod table;
mod tensor;
mod text;
pub mod version;

pub use record_function::{Functions, RecordFunction, Torch};
pub use schema::Schema;
pub use tensor::{PRIVATE_USE, Place, Seen, Tensor, Use};
pub use text::Text;
