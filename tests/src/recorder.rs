//! The environment that makes a program record itself.
use crate::{glibc_minor, library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct Recorder {
    output: PathBuf,
    c_depth: u32,
    python_depth: u32,
    size_cap: u64,
    /// Further settings, each with a semicolon behind it.
    further: String,
    preloaded_after: Vec<PathBuf>,
}

impl Recorder {
    /// Host memory without stacks, into `output`.
    pub fn into_directory(output: &Path) -> Recorder {
        Recorder {
            output: output.to_owned(),
            c_depth: 0,
            python_depth: 0,
            size_cap: 0,
            further: String::new(),
            preloaded_after: Vec::new(),
        }
    }

    pub fn c_stacks(self, depth: u32) -> Recorder {
        Recorder { c_depth: depth, ..self }
    }

    pub fn python_stacks(self, depth: u32) -> Recorder {
        Recorder { python_depth: depth, ..self }
    }

    pub fn size_cap(self, bytes: u64) -> Recorder {
        Recorder { size_cap: bytes, ..self }
    }

    pub fn setting(mut self, key: &str, value: &str) -> Recorder {
        self.further.push_str(&format!("{key}={value};"));
        self
    }

    /// Preloads a further library behind ours.
    pub fn preload_after(mut self, library: &Path) -> Recorder {
        self.preloaded_after.push(library.to_owned());
        self
    }

    /// How many allocations of the recorder itself may pass a counter behind it, each with its free: looking for a symbol
    /// in vain makes the loader keep messages, which are given back at once. It looks for an interpreter's, and, for C
    /// stacks, for a function of the loader that glibc has since 2.35.
    pub fn most_own_allocations(&self) -> u64 {
        let in_vain = self.python_depth > 0 || (self.c_depth > 0 && glibc_minor() < 35);
        if in_vain { 16 } else { 0 }
    }

    pub fn output(&self) -> &Path {
        &self.output
    }

    pub fn environment(&self) -> [(&'static str, String); 2] {
        let ours = [library("libascend_kernel_hook.so"), library("libmsmemscope_host.so")];
        let libraries: Vec<String> =
            ours.iter().chain(&self.preloaded_after).map(|path| path.display().to_string()).collect();
        let settings = format!(
            "v=1;run=4711;utc=0;c={};py={};cpu=1;max={};{}dir={}",
            self.c_depth,
            self.python_depth,
            self.size_cap,
            self.further,
            self.output.display()
        );
        [("LD_PRELOAD", libraries.join(":")), ("MSMEMSCOPE_RECORD", settings)]
    }

    /// What the bare run of a comparison preloads: only the further libraries.
    pub(crate) fn bare_environment(&self) -> Option<(&'static str, String)> {
        let libraries: Vec<String> = self.preloaded_after.iter().map(|path| path.display().to_string()).collect();
        (!libraries.is_empty()).then(|| ("LD_PRELOAD", libraries.join(":")))
    }

    pub fn apply<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.environment())
    }
}
