//! From the words to the meaning.
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use memscope_session::analyze::Kind;
use memscope_session::brand::Brand;
use memscope_session::compare::{CompareWishes, Side};
use memscope_session::export::ExportWishes;
use memscope_session::keeper::side::Watched;
use memscope_session::place::Place;
use memscope_session::settings::values::{self, Clearable, Events, Refused, Watch};
use memscope_session::settings::{
    Analysis, CallStacks, CollectMode, Devices, EventSet, Format, LevelSet, LogLevel, Settings, StackForm,
};
use memscope_session::usage_error::{UsageError, quoted};
use memscope_session::views::reading::holds_recording;

use crate::analyze_settings::AnalyzeDraft;
use crate::args::{CommandLine, GivenOption, ProgramWords, Words, split_long};
use crate::intent::{ApiEnv, CompareSettings, ExportSettings, InfoSettings, Intent, Shell};
use crate::options::{self, OptionId, SUB_COMMANDS, SubCommand, SubCommandSpec};
use crate::view_settings::{ViewDraft, WrongUse};

/// What a command line means, and what to tell the user about it beforehand.
#[derive(Clone, Debug)]
pub struct Resolution {
    pub intent: Intent,
    pub log_level: LogLevel,
    pub notes: Vec<String>,
}

impl Resolution {
    pub fn of(line: CommandLine, brand: Brand) -> Result<Self, UsageError> {
        // The parser stops at the first of these two.
        let command = match &line.words {
            Words::SubCommand(spec, _) => Some(spec.id),
            _ => None,
        };
        let plain = |intent| Self { intent, log_level: LogLevel::default(), notes: Vec::new() };
        match line.options.last().map(|option| option.id) {
            Some(OptionId::Help) => return Ok(plain(Intent::Help(command))),
            Some(OptionId::Version) => return Ok(plain(Intent::Version)),
            _ => {}
        }
        let mut line = line;
        if let Words::SubCommand(spec, _) = &line.words {
            for option in &mut line.options {
                option.id = spec.option(&option.spelling).map_or(option.id, |own| own.id);
            }
        }
        let mut draft = Draft::default();
        for option in &line.options {
            draft.apply(option)?;
        }
        match line.words {
            Words::SubCommand(spec, operands) => {
                let intent = sub_command(spec, operands, &line.options, &draft, brand)?;
                Ok(Self { intent, log_level: draft.log_level(), notes: Vec::new() })
            }
            _ if draft.compare => {
                let intent = Intent::Compare(draft.comparison(brand)?);
                Ok(Self { intent, log_level: draft.log_level(), notes: Vec::new() })
            }
            Words::Nothing => match draft.api_env {
                Some(api_env) => Ok(plain(Intent::ApiEnv(api_env))),
                None => Err(UsageError::NoProgram { command: brand.name() }),
            },
            Words::Program(_) if draft.api_env.is_some() => {
                Err(UsageError::ApiEnvWithProgram { command: brand.name() })
            }
            Words::Program(words) => {
                refuse_mistyped_command(&words, brand)?;
                if let Some(foreign) = line.options.iter().find(|option| options::is_of_views(option.id)) {
                    return Err(foreign_to_runs(foreign));
                }
                draft.into_run(words, brand)
            }
        }
    }
}

/// A word that is nearly one of ours, with a recording behind it, is no program's name. Whoever has such a program writes
/// `--` before it.
fn refuse_mistyped_command(words: &ProgramWords, brand: Brand) -> Result<(), UsageError> {
    let typed = words.program.to_string_lossy();
    let analysis = Kind::from_word(&typed);
    let meant = options::mistyped_sub_command(&typed);
    if words.protected || (analysis.is_none() && meant.is_none()) {
        return Ok(());
    }
    let behind = words.arguments.iter().find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
    let Some(recording) = behind.filter(|path| holds_recording(Path::new(path))) else { return Ok(()) };
    let (typed, command) = (quoted(&words.program), brand.name());
    Err(match (analysis, meant) {
        (Some(analysis), _) => {
            let (analysis, recording) = (analysis.word(), quoted(recording));
            UsageError::AnalysisAsCommand { typed, analysis, recording, command }
        }
        (None, Some(meant)) => UsageError::MistypedCommand { typed, meant: meant.name, command },
        (None, None) => return Ok(()),
    })
}

fn foreign_to_runs(option: &GivenOption) -> UsageError {
    let of = |spec: &&SubCommandSpec| spec.takes(option.id);
    let commands: Vec<&str> = SUB_COMMANDS.iter().filter(of).map(|spec| spec.name).collect();
    UsageError::ViewOption { option: option.spelling.clone(), commands: commands.join(", ") }
}

fn sub_command(
    spec: &'static SubCommandSpec,
    operands: Vec<OsString>,
    given: &[GivenOption],
    draft: &Draft,
    brand: Brand,
) -> Result<Intent, UsageError> {
    if let Some(foreign) = given.iter().find(|option| !spec.takes(option.id)) {
        let allowed: Vec<String> = spec.options().map(options::OptionSpec::spelling).collect();
        let option = foreign.spelling.clone();
        return Err(UsageError::ForeignOption { option, command: spec.name, allowed: allowed.join(", ") });
    }
    let expected = spec.operand.map_or("nothing after it", |(_, what)| what).to_owned();
    let wrong = |given: String| UsageError::BadOperands { command: spec.name, expected: expected.clone(), given };
    let wrong_use = |wrong_use: WrongUse| match wrong_use {
        WrongUse::NothingToCompare => wrong(String::from("only one was given")),
        WrongUse::OnlyDiffTakesTwo { option } => UsageError::OnlyDiffTakesTwo { option, command: spec.name },
        WrongUse::TotalIsNoMoment => UsageError::TotalIsNoMoment { command: spec.name },
    };
    let most = spec.most_operands();
    if operands.len() > most {
        return Err(wrong(format!("{} is too much", quoted(&operands[most]))));
    }
    let operand = || operands.first().cloned().ok_or_else(|| wrong(String::from("none was given")));
    let second = operands.get(1).cloned();
    let directory = || {
        let path = PathBuf::from(operand()?);
        if path.is_dir() { Ok(path) } else { Err(wrong(format!("{} is no directory", quoted(&path)))) }
    };
    // A dump file is as good as a directory.
    let recording = |word: OsString| {
        let path = PathBuf::from(word);
        if path.is_dir() || path.is_file() { Ok(path) } else { Err(wrong(no_recording(&path))) }
    };
    Ok(match spec.id {
        SubCommand::Export => {
            if draft.data_format == Some(Format::NoFiles) {
                let formats: Vec<&str> =
                    Format::all().filter(|format| *format != Format::NoFiles).map(Format::word).collect();
                return Err(UsageError::NothingToExport { command: brand.name(), formats: formats.join(" or ") });
            }
            let output_dir = draft.output.as_ref().map(std::path::absolute).transpose();
            let output_dir =
                output_dir.map_err(|error| UsageError::NoWorkingDirectory { reason: error.to_string() })?;
            let analysis = draft.analysis_given.then_some(draft.analysis.chosen);
            let wishes = ExportWishes { format: draft.data_format, stacks: draft.stacks, output_dir, analysis };
            Intent::Export(ExportSettings { directory: directory()?, wishes, brand })
        }
        SubCommand::Info => Intent::Info(InfoSettings { directory: recording(operand()?)?, all: draft.all, brand }),
        SubCommand::Top | SubCommand::Tree | SubCommand::Flamegraph | SubCommand::Diff => {
            let second = second.map(recording).transpose()?;
            let view = draft.view.settings(spec.id, recording(operand()?)?, second);
            Intent::View(view.map_err(wrong_use)?)
        }
        SubCommand::Completions => Intent::Completions(match operand()?.to_str() {
            Some("bash") => Shell::Bash,
            Some("zsh") => Shell::Zsh,
            Some("fish") => Shell::Fish,
            _ => return Err(wrong(format!("{} was given", quoted(operand()?)))),
        }),
        SubCommand::ManPage => Intent::ManPage,
        SubCommand::SideKeeper => {
            let process = operand()?.to_str().and_then(Watched::parse);
            Intent::SideKeeper(process.ok_or_else(|| wrong(String::from("something else was given")))?)
        }
        SubCommand::Analyze => {
            let mut settings = draft.analyze.settings(&operands, draft.view.json());
            settings.wishes.at = draft.view.moment().map_err(wrong_use)?;
            if settings.paths.is_empty() {
                return Err(wrong(String::from("none was given")));
            }
            if let Some(missing) = settings.paths.iter().find(|path| !path.exists()) {
                return Err(wrong(format!("{} does not exist", quoted(missing))));
            }
            if settings.wishes.marks.as_ref().is_some_and(|marks| marks.text.is_empty()) {
                return Err(UsageError::StartIndexOfWhat);
            }
            if settings.write && settings.named != [Kind::Inefficient] {
                return Err(UsageError::WriteOfWhat);
            }
            Intent::Analyze(settings)
        }
    })
}

/// A program may be called like one of our commands.
fn no_recording(path: &Path) -> String {
    format!("{} is no directory (a program of that name is run with -- before it)", quoted(path))
}

/// The options seen so far; a repeated option replaces its earlier value.
#[derive(Clone, Debug)]
struct Draft {
    steps: Vec<u32>,
    devices: Devices,
    level: LevelSet,
    events: Clearable<Events>,
    call_stacks: CallStacks,
    collect_mode: CollectMode,
    analysis: Clearable<Analysis>,
    analysis_given: bool,
    data_format: Option<Format>,
    stacks: Option<StackForm>,
    watch: Option<Watch>,
    output: Option<PathBuf>,
    watch_max_bytes: Option<u64>,
    max_size: Option<u64>,
    log_level: Option<LogLevel>,
    verbose: bool,
    quiet: bool,
    compare: bool,
    api_env: Option<ApiEnv>,
    all: bool,
    inputs: Option<Vec<PathBuf>>,
    view: ViewDraft,
    analyze: AnalyzeDraft,
}

impl Default for Draft {
    fn default() -> Self {
        let dump = EventSet::ALLOC | EventSet::FREE | EventSet::LAUNCH;
        Self {
            steps: Vec::new(),
            devices: Devices::default(),
            level: LevelSet::OP,
            events: Clearable { chosen: Events { dump, traceback: false }, none_won: false },
            call_stacks: CallStacks::default(),
            collect_mode: CollectMode::default(),
            analysis: Clearable { chosen: Analysis::DEFAULT, none_won: false },
            analysis_given: false,
            data_format: None,
            stacks: None,
            watch: None,
            output: None,
            watch_max_bytes: None,
            max_size: None,
            log_level: None,
            verbose: false,
            quiet: false,
            compare: false,
            api_env: None,
            all: false,
            inputs: None,
            view: ViewDraft::default(),
            analyze: AnalyzeDraft::default(),
        }
    }
}

impl Draft {
    /// Changes nothing if the value is refused.
    fn apply(&mut self, option: &GivenOption) -> Result<(), UsageError> {
        let empty = OsString::new();
        let value = option.value.as_ref().unwrap_or(&empty);
        let done = match option.id {
            OptionId::Output => values::output(value).map(|path| self.output = Some(path)),
            OptionId::Input => values::inputs(value).map(|paths| self.inputs = Some(paths)),
            OptionId::File => values::output(value).map(|path| self.view.output = Some(path)),
            _ => self.apply_text(option.id, value),
        };
        done.map_err(|refused| bad_value(option, value, refused))
    }

    fn apply_text(&mut self, id: OptionId, value: &OsStr) -> Result<(), Refused> {
        let text = value
            .to_str()
            .ok_or_else(|| Refused { item: value.to_string_lossy().into_owned(), reason: "not valid UTF-8" })?;
        match id {
            OptionId::Steps => self.steps = values::steps(text)?,
            OptionId::Device => self.devices = values::devices(text)?,
            OptionId::Level => self.level = values::level(text)?,
            OptionId::Events => self.events = values::events(text)?,
            OptionId::CallStack => self.call_stacks = values::call_stacks(text)?,
            OptionId::CollectMode => self.collect_mode = values::collect_mode(text)?,
            OptionId::Analysis => {
                self.analysis = values::analysis(text)?;
                self.analysis_given = true;
            }
            OptionId::DataFormat => self.data_format = Some(values::data_format(text)?),
            OptionId::Stacks => self.stacks = Some(values::stacks(text)?),
            OptionId::Watch => self.watch = Some(values::watch(text)?),
            OptionId::WatchMaxBytes => self.watch_max_bytes = Some(values::max_size(text)?),
            OptionId::MaxSize => self.max_size = Some(values::max_size(text)?),
            OptionId::LogLevel => self.log_level = Some(values::log_level(text)?),
            OptionId::Verbose => self.verbose = true,
            OptionId::Quiet => self.quiet = true,
            OptionId::Compare => self.compare = true,
            OptionId::LoadApiEnv => self.api_env = Some(ApiEnv::Load),
            OptionId::UnloadApiEnv => self.api_env = Some(ApiEnv::Unload),
            OptionId::All => self.all = true,
            OptionId::Help | OptionId::Version | OptionId::Output | OptionId::Input | OptionId::File => {}
            OptionId::At
            | OptionId::Pid
            | OptionId::OfDevice
            | OptionId::Pool
            | OptionId::Sort
            | OptionId::Rows
            | OptionId::Least
            | OptionId::Chart
            | OptionId::Svg
            | OptionId::Json => self.view.apply(id, text)?,
            OptionId::FailOn
            | OptionId::MstxInfo
            | OptionId::StartIndex
            | OptionId::MemSize
            | OptionId::InefficientType
            | OptionId::IdleThreshold
            | OptionId::Write => self.analyze.apply(id, text)?,
        }
        Ok(())
    }

    fn log_level(&self) -> LogLevel {
        match self.log_level {
            Some(level) => level,
            None if self.verbose => LogLevel::Debug,
            None if self.quiet => LogLevel::Error,
            None => LogLevel::default(),
        }
    }

    /// `--compare`: two inputs, or two steps of one; with two inputs, a step of both, or one of each.
    fn comparison(&self, brand: Brand) -> Result<CompareSettings, UsageError> {
        let allowed = options::option(OptionId::Input).allowed();
        let inputs = self.inputs.as_deref().ok_or(UsageError::CompareWithoutInput { allowed })?;
        let (base, compared) = match inputs {
            [base, compared] => (base, compared),
            [one] if self.steps.len() >= 2 => (one, one),
            _ => return Err(UsageError::CompareWithOneInput),
        };
        let steps = match self.steps[..] {
            [] => (None, None),
            [both] => (Some(both), Some(both)),
            [base, compared] => (Some(base), Some(compared)),
            _ => return Err(UsageError::CompareSteps { given: self.steps.len() }),
        };
        let side = |path: &PathBuf, step| Side { place: Place::from(path.clone()), step };
        let wishes =
            CompareWishes { base: side(base, steps.0), compared: side(compared, steps.1), level: Some(self.level) };
        Ok(CompareSettings { wishes, output_dir: self.output_dir(brand)?, json: self.view.json() })
    }

    /// Absolute.
    fn output_dir(&self, brand: Brand) -> Result<PathBuf, UsageError> {
        let output = self.output.clone().unwrap_or_else(|| PathBuf::from(brand.default_output_dir()));
        std::path::absolute(&output).map_err(|error| UsageError::NoWorkingDirectory { reason: error.to_string() })
    }

    fn into_run(mut self, words: ProgramWords, brand: Brand) -> Result<Resolution, UsageError> {
        let mut notes = Vec::new();
        let ProgramWords { program, arguments, protected } = words;
        let arguments = if protected { arguments } else { self.take_trailing(&program, arguments, brand, &mut notes) };
        for (option, none_won) in
            [(OptionId::Events, self.events.none_won), (OptionId::Analysis, self.analysis.none_won)]
        {
            if none_won {
                notes.push(format!("'none' clears the other values of {}", options::option(option).spelling()));
            }
        }
        if self.inputs.is_some() {
            notes.push(String::from("--input is used with --compare only; it has no effect here"));
        }
        if self.all {
            notes.push(String::from("--all is used with info only; it has no effect here"));
        }
        let output_dir = self.output_dir(brand)?;
        let settings = Settings {
            program,
            arguments,
            steps: self.steps.clone(),
            devices: self.devices,
            level: self.level,
            dump: self.events.chosen.dump,
            traceback: self.events.chosen.traceback,
            call_stacks: self.call_stacks,
            collect_mode: self.collect_mode,
            analysis: self.analysis.chosen,
            data_format: self.data_format.unwrap_or_default(),
            stacks: self.stacks,
            watch: self.watch.clone(),
            output_dir,
            log_level: self.log_level(),
            watch_max_bytes: self.watch_max_bytes,
            max_size: self.max_size,
            brand,
        };
        Ok(Resolution { log_level: settings.log_level, intent: Intent::Run(Box::new(settings)), notes })
    }

    /// The manual's examples write our options behind the program. Only `--name=value` with a name and a value that
    /// are valid for us is taken, and the user is told; anything else stays with the program. So does `--input`, which
    /// means nothing to us where a program is run.
    fn take_trailing(
        &mut self,
        program: &OsStr,
        arguments: Vec<OsString>,
        brand: Brand,
        notes: &mut Vec<String>,
    ) -> Vec<OsString> {
        let mut kept = Vec::new();
        for word in arguments {
            let (name, value) = split_long(&word);
            let spec =
                name.and_then(options::option_named).filter(|spec| spec.value.is_some() && spec.id != OptionId::Input);
            let (Some(spec), Some(name), Some(value)) = (spec, name, value) else {
                kept.push(word);
                continue;
            };
            let option = GivenOption { id: spec.id, spelling: format!("--{name}"), value: Some(value) };
            match self.apply(&option) {
                Ok(()) => notes.push(format!(
                    "{} after the program name was taken as an option of {name}; to pass it to the program write: \
                     {name} [options] -- {} …",
                    quoted(&word),
                    program.to_string_lossy().escape_debug(),
                    name = brand.name(),
                )),
                Err(_) => kept.push(word),
            }
        }
        kept
    }
}

fn bad_value(option: &GivenOption, value: &OsStr, refused: Refused) -> UsageError {
    let whole = value.to_string_lossy();
    let mut reason = String::new();
    if refused.item != whole && !refused.item.is_empty() {
        reason = format!(" (in {})", quoted(value));
    }
    if !refused.reason.is_empty() {
        reason.push_str(": ");
        reason.push_str(refused.reason);
    }
    let shown = if refused.item.is_empty() { &*whole } else { &refused.item };
    UsageError::BadValue {
        option: option.spelling.clone(),
        value: quoted(shown),
        reason,
        allowed: options::option(option.id).allowed(),
    }
}
