//! The two names of the tool. `msleaks` is the old one: same tool, its own names for what it writes.
use std::ffi::OsStr;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Brand {
    #[default]
    MsMemScope,
    MsLeaks,
}

impl Brand {
    /// From `argv[0]`. Installations call the binary behind a wrapper `msleaks.bin`, hence the stem.
    pub fn of_command(command: Option<&OsStr>) -> Self {
        let stem = command.and_then(|command| Path::new(command).file_stem());
        if stem == Some(OsStr::new("msleaks")) { Self::MsLeaks } else { Self::MsMemScope }
    }

    /// The command, the Python package, the prefix of messages, and the first part of a process directory's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MsMemScope => "msmemscope",
            Self::MsLeaks => "msleaks",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::MsMemScope, Self::MsLeaks].into_iter().find(|brand| brand.name() == name)
    }

    /// The table of the rows; also first part of the file's name.
    pub const fn table(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscope_dump",
            Self::MsLeaks => "leaks_dump",
        }
    }

    /// The table of the rows that [`Brand::table`] must not hold.
    pub const fn unpaired_table(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscope_unpaired",
            Self::MsLeaks => "leaks_unpaired",
        }
    }

    /// The table of frames that cells of call stacks refer to; also first part of the file's name.
    pub const fn stacks_table(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscope_stacks",
            Self::MsLeaks => "leaks_stacks",
        }
    }

    /// The view of whole stacks in a database.
    pub const fn stack_texts_view(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscope_stack_texts",
            Self::MsLeaks => "leaks_stack_texts",
        }
    }

    /// The table of the allocations that were never freed, in a database.
    pub const fn alive_table(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscope_alive",
            Self::MsLeaks => "leaks_alive",
        }
    }

    /// The table of the Python calls of a process, in a database.
    pub fn calls_table(self, process: u32) -> String {
        match self {
            Self::MsMemScope => format!("python_trace_{process}"),
            Self::MsLeaks => String::from("python_trace"),
        }
    }

    /// Relative to the working directory.
    pub const fn default_output_dir(self) -> &'static str {
        match self {
            Self::MsMemScope => "memscopeDumpResults",
            Self::MsLeaks => "leaksDumpResults",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_of_the_command_decides() {
        for (command, brand) in [
            ("msleaks", Brand::MsLeaks),
            ("/opt/bin/msleaks", Brand::MsLeaks),
            ("./msleaks.bin", Brand::MsLeaks),
            ("msmemscope", Brand::MsMemScope),
            ("/opt/msleaks/bin/msmemscope", Brand::MsMemScope),
            ("", Brand::MsMemScope),
        ] {
            assert_eq!(Brand::of_command(Some(OsStr::new(command))), brand, "{command}");
        }
        assert_eq!(Brand::of_command(None), Brand::MsMemScope);
    }
}
