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

    /// The command, the Python package and the prefix of messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MsMemScope => "msmemscope",
            Self::MsLeaks => "msleaks",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::MsMemScope, Self::MsLeaks].into_iter().find(|brand| brand.name() == name)
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
