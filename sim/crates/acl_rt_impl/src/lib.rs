//! `libacl_rt_impl.so`: what the functions of the acl interface do.
//!
//! Every function `aclXImpl` here is reached through `aclX` in `libascendcl.so`, which the build makes from these names.
//! Functions with results that have no meaning here are left out on purpose: a framework copes with a missing function, but
//! not with one that claims success and writes nothing.

mod allocator;
mod capture;
mod description;
mod kernel;
mod memory;
mod options;
mod runtime;
mod schedule;
mod system;
mod virtual_memory;
