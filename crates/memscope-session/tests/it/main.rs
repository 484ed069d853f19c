//! Recordings read, compared and analyzed.
mod compare;
mod inefficient;
mod leaks;
mod opened;
