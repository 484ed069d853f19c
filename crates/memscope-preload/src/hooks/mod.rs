//! The hooked functions, by the library they belong to.
mod dl;
