//! `libopapi.so`: aclnn operators.
//!
//! An operator has two functions. The first plans: its last two arguments receive the size of the workspace and an executor.
//! The second launches one kernel with the operator's name. Most operators compute nothing; those in `computing` do.

mod argument;
mod computing;
mod element;
mod execution;
mod operators;
mod tensor;
