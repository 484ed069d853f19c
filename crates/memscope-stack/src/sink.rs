//! What a stack capture defines in the spool, each thing once.
use crate::NodeId;
pub use memscope_format::record::FrameRecord as Frame;

/// A loaded ELF object, defined before the first frame that lies in it.
#[derive(Clone, Copy, Debug)]
pub struct ModuleDefinition<'a> {
    /// Number within the lane, from 0 upwards.
    pub id: u32,
    /// Run-time address of the first and one past the last mapped byte.
    pub start: u64,
    pub end: u64,
    /// Run-time address minus address in the file (`l_addr`).
    pub bias: u64,
    pub path: &'a [u8],
    /// Contents of the `NT_GNU_BUILD_ID` note, empty if there is none.
    pub build_id: &'a [u8],
}

/// A Python code object, defined before the first frame that runs it.
#[derive(Clone, Copy, Debug)]
pub struct CodeDefinition<'a> {
    /// Number within the lane, from 0 upwards.
    pub id: u32,
    /// `PY_VERSION_HEX >> 16`, e.g. 0x030b: says how `line_table` is encoded.
    pub python_version: u16,
    pub first_line: u32,
    /// UTF-8.
    pub file: &'a [u8],
    /// Qualified name where the version has one, UTF-8.
    pub function: &'a [u8],
    /// `co_linetable` (`co_lnotab` before 3.10), verbatim.
    pub line_table: &'a [u8],
}

/// What something is called that a trace of calls refers to: a function written in C, or a class.
#[derive(Clone, Copy, Debug)]
pub struct CallNameDefinition<'a> {
    /// Number within the lane, from 0 upwards.
    pub id: u32,
    pub text: &'a [u8],
    /// The type whose method it is, empty if it is none's.
    pub owner: &'a [u8],
}

/// Takes definitions; implemented by the recorder's lane.
pub trait DefinitionSink {
    fn module(&mut self, module: &ModuleDefinition<'_>);
    fn code(&mut self, code: &CodeDefinition<'_>);
    /// Only a trace of calls defines them.
    fn call_name(&mut self, _: &CallNameDefinition<'_>) {}
    /// Nodes come in the order of their ids, without gaps.
    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame);
}
