//! What the command is to do.
use std::path::PathBuf;

use memscope_session::brand::Brand;
use memscope_session::compare::CompareWishes;
use memscope_session::export::ExportWishes;
use memscope_session::keeper::side::Watched;
use memscope_session::settings::Settings;

use crate::analyze_settings::AnalyzeSettings;
use crate::options::SubCommand;
use crate::view_settings::ViewSettings;

/// What the command is to do.
#[derive(Clone, Debug)]
pub enum Intent {
    /// Of the whole command or of one sub-command.
    Help(Option<SubCommand>),
    Version,
    Run(Box<Settings>),
    Compare(CompareSettings),
    Export(ExportSettings),
    Info(InfoSettings),
    Analyze(AnalyzeSettings),
    View(ViewSettings),
    Completions(Shell),
    ManPage,
    /// Print what a shell is to do.
    ApiEnv(ApiEnv),
    /// Keep the run of this process.
    SideKeeper(Watched),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompareSettings {
    pub wishes: CompareWishes,
    /// Absolute.
    pub output_dir: PathBuf,
    pub json: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportSettings {
    /// An output directory, a process directory or a spool directory.
    pub directory: PathBuf,
    pub wishes: ExportWishes,
    pub brand: Brand,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InfoSettings {
    /// An output directory, a process directory or a spool directory, or a dump file.
    pub directory: PathBuf,
    /// Everything about each process, however many there are.
    pub all: bool,
    pub brand: Brand,
}

/// What becomes of a shell's environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApiEnv {
    Load,
    Unload,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
