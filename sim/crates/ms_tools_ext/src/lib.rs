//! `libms_tools_ext.so`: the mstx entry points.
//!
//! At the first call a tool is looked for: the library named by `MSTX_INJECTION_PATH`, or else anything in the process that
//! exports `InitInjectionMstx`. It is handed tables of slots, one table per module, and puts its own functions there. A slot
//! left empty makes its entry point do nothing.

mod entry_points;
mod injection;
