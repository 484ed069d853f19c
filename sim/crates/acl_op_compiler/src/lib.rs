//! `libacl_op_compiler.so`: options of the operator compiler, and single operators by name.

mod execution;
mod options;
