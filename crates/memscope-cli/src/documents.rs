//! Help, version, man page and shell completions, all from the table in [`crate::options`].
use clap::{Arg, ArgAction, Command, ValueHint, builder::PossibleValuesParser};

use crate::intent::Shell;
use crate::options::{self, OPTIONS, Offer, OptionSpec, SUB_COMMANDS, SubCommand, SubCommandSpec, VIEW_OPTIONS};
use memscope_session::brand::Brand;

const ABOUT: &str = "Memory analysis for AI training and inference: records every allocation, free, operator launch \
                     and memory access of a program.";

/// clap is only ever asked to describe; our own parser reads the command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Help,
    /// The man page generator leaves out second names, so the help text says them.
    Man,
    Completions,
}

pub fn version(brand: Brand) -> String {
    format!("{} {}\n", brand.name(), env!("CARGO_PKG_VERSION"))
}

pub fn help(brand: Brand, command: Option<SubCommand>) -> String {
    match command {
        None => top_command(brand, Purpose::Help).render_help().to_string(),
        Some(id) => {
            let spec = options::sub_command(id);
            sub_command(spec, brand, Purpose::Help).render_help().to_string()
        }
    }
}

pub fn completions(brand: Brand, shell: Shell) -> String {
    let mut command = top_command(brand, Purpose::Completions);
    let mut script = Vec::new();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, brand.name(), &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub fn man_page(brand: Brand) -> std::io::Result<String> {
    let page = clap_mangen::Man::new(top_command(brand, Purpose::Man)).section("1");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    text.extend(man_sections(brand, MAN_BEFORE_OPTIONS).into_bytes());
    page.render_options_section(&mut text)?;
    text.extend(man_view_options().into_bytes());
    text.extend(man_sections(brand, MAN_AFTER_OPTIONS).into_bytes());
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The options of commands that read a recording: the generator of the page knows those of the whole command only.
fn man_view_options() -> String {
    let mut text = String::from(".SH OPTIONS OF TOP, TREE, FLAMEGRAPH AND DIFF\n");
    for option in VIEW_OPTIONS {
        let letters = option.shorts.iter().map(|letter| format!("\\fB\\-{letter}\\fR, ")).collect::<String>();
        let value = option.value.map_or(String::new(), |value| format!("=\\fI{}\\fR", value.placeholder));
        let commands: Vec<&str> =
            SUB_COMMANDS.iter().filter(|spec| spec.takes(option.id)).map(|spec| spec.name).collect();
        let help = format!("{} ({})", option.help, commands.join(", ")).replace('-', "\\-");
        text.push_str(&format!(".TP\n{letters}\\fB\\-\\-{}\\fR{value}\n{help}\n", option.names[0]));
    }
    text
}

fn man_sections(brand: Brand, template: &str) -> String {
    template.replace("@NAME@", brand.name()).replace("@DIR@", brand.default_output_dir())
}

const MAN_BEFORE_OPTIONS: &str = r".SH SYNOPSIS
.nf
\fB@NAME@\fR [\fIoptions\fR] \fIprogram\fR [\fIarguments\fR]
\fB@NAME@\fR [\fIoptions\fR] \-\- \fIprogram\fR [\fIarguments\fR]
\fB@NAME@\fR \-\-compare \-\-input=\fIbase\fR,\fIcompared\fR
\fB@NAME@ export\fR \fIdir\fR [\-\-format \fIformat\fR] [\-\-stacks \fIinline\fR|\fItable\fR] [\-\-output \fIdir\fR]
\fB@NAME@ info\fR \fIdir\fR [\-\-all]
\fB@NAME@ top\fR|\fBtree\fR|\fBflamegraph\fR \fIdir\fR [\-\-at \fImoment\fR]
\fB@NAME@ diff\fR \fIdir\fR \fIdir\fR
.fi
.SH DESCRIPTION
Runs the program, records its memory events on Ascend NPUs and, with \fB\-\-device=cpu\fR, on the host, and writes
the results below the output directory when it has ended. The program keeps its terminal, its standard streams and its
signals; its exit status becomes that of \fB@NAME@\fR.
.PP
Options stand before the program. After its name, and only where no \fB\-\-\fR is used, a word
\fI\-\-name=value\fR that is a valid option is taken too, with a note; after \fB\-\-\fR nothing is touched.
Lists are separated by commas, ASCII or full-width. A repeated option replaces the earlier one.
.PP
Rows of host memory do not repeat call stacks: a cell \fI#n\fR stands for row \fIn\fR of \fImemscope_stacks_*.csv\fR beside
the rows (in a db: table \fImemscope_stacks\fR), which has each frame once below its caller. \fB\-\-stacks=inline\fR
writes them into each row. Files that do not fit the file system are refused before they are begun; the recording is kept.
\fB\-\-data\-format=none\fR writes no files: summary and recording only.
.PP
\fBexport\fR writes the files of an earlier run again, or elsewhere with \fB\-\-output\fR, \fBinfo\fR says what a run
recorded (of many processes the ten largest and the sums; with \fB\-\-all\fR each of them); all take an output directory, a
process directory or a spool directory, and all but \fBexport\fR also a csv or db file, or a directory of such files, of
this tool or the existing one.
.PP
\fBtop\fR lists the functions and call sites that hold most memory, \fBtree\fR shows who called whom to get it,
\fBflamegraph\fR draws that for a browser, and \fBdiff\fR ranks what grew and what shrank between two runs, processes or
moments. All of them are about one process and one pool, by default those with the highest peak.
.PP
A program called like one of these commands is run with \fB\-\-\fR before its name.
";

const MAN_AFTER_OPTIONS: &str = r".SH EXIT STATUS
That of the program; if a signal ended the program, the same signal ends \fB@NAME@\fR. Otherwise:
.TP
\fB1\fR
A part of the installation is missing or failed; of \fBexport\fR and \fBinfo\fR: a recording cannot be read.
.TP
\fB2\fR
An option is wrong or the program cannot be recorded. Nothing was created.
.TP
\fB3\fR
The program ended with status 0, but not all files of its recording could be written (a full disk, Ctrl\-C during the
export); the summary names them, and \fBexport\fR writes them later.
.TP
\fB126\fR, \fB127\fR
The program cannot be executed; the program was not found.
.SH ENVIRONMENT
.TP
\fBMSMEMSCOPE_LIB_DIR\fR
Directory of the recording libraries, instead of \fIlib64\fR or \fIlib\fR beside the directory of the command.
.TP
\fBLD_PRELOAD\fR
Kept for the program, after the recording libraries.
.SH FILES
.TP
\fI@DIR@\fR
The default output directory, in the working directory.
.SH EXAMPLES
.nf
@NAME@ \-\-level=op,kernel \-\-call\-stack=python bash train.sh
@NAME@ \-\-device=cpu \-\-call\-stack=c:20 \-\- ./server \-\-port=80
@NAME@ export @DIR@ \-\-format db
@NAME@ top @DIR@
@NAME@ flamegraph @DIR@ \-\-at main \-o leak.svg
@NAME@ diff before after
@NAME@ diff @DIR@ \-\-at step:2,step:9
@NAME@ export @DIR@ \-\-output=/large/disk
.fi
";

fn top_command(brand: Brand, purpose: Purpose) -> Command {
    let mut command = Command::new(brand.name())
        .about(ABOUT)
        .override_usage(format!(
            "{name} [options] <program> [arguments]...\n       {name} [options] -- <program> [arguments]...\n       \
             {name} --compare --input=<base>,<compared>\n       {name} export <dir> [--format <format>] [--output <dir>]\n       \
             {name} info <dir> [--all]\n       {name} top|tree|flamegraph <dir> [--at <moment>]\n       \
             {name} diff <dir> <dir>",
            name = brand.name()
        ))
        .after_help(
            "Options stand before the program; after it only --name=value is taken, and only where no -- is used. \
             Lists may be separated by full-width commas.",
        )
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true);
    for option in OPTIONS {
        command = command.arg(argument(option, purpose));
    }
    // In the help and the man page the usage says it better.
    if purpose == Purpose::Completions {
        command = command
            .arg(Arg::new("program").num_args(1..).trailing_var_arg(true).value_hint(ValueHint::CommandWithArguments));
    }
    for spec in SUB_COMMANDS {
        command = command.subcommand(sub_command(spec, brand, purpose).hide(spec.hidden));
    }
    command
}

fn sub_command(spec: &'static SubCommandSpec, brand: Brand, purpose: Purpose) -> Command {
    let operand = spec.operand.map_or_else(String::new, |(name, _)| format!(" <{}>", name.to_lowercase()));
    let operand = match spec.id {
        SubCommand::Analyze => format!("{operand}… [analysis]…"),
        _ => operand.repeat(spec.most_operands()),
    };
    let mut command = Command::new(spec.name)
        .about(spec.help)
        .override_usage(format!("{} {} [options]{operand}", brand.name(), spec.name))
        .disable_help_flag(true)
        .disable_version_flag(true);
    if let Some((name, what)) = spec.operand {
        let operand = Arg::new(name).value_name(name).required(true).help(what);
        command = command.arg(match spec.id {
            SubCommand::Completions => operand.value_parser(PossibleValuesParser::new(["bash", "zsh", "fish"])),
            SubCommand::Diff => operand.value_hint(ValueHint::DirPath).num_args(1..=2),
            SubCommand::Analyze => operand.value_hint(ValueHint::AnyPath).num_args(1..),
            _ => operand.value_hint(ValueHint::DirPath),
        });
    }
    for option in spec.options() {
        command = command.arg(argument(option, purpose));
    }
    command
}

fn argument(option: &'static OptionSpec, purpose: Purpose) -> Arg {
    let [name, other_names @ ..] = option.names else { unreachable!("every option has a name") };
    let mut help = option.help.to_owned();
    let mut argument = Arg::new(*name).long(*name);
    if let [letter, other_letters @ ..] = option.shorts {
        argument = argument.short(*letter);
        match purpose {
            Purpose::Man => help.extend(other_letters.iter().map(|letter| format!(". Also -{letter}"))),
            _ => argument = argument.visible_short_aliases(other_letters.to_vec()),
        }
    }
    match purpose {
        Purpose::Man => help.extend(other_names.iter().map(|name| format!(". Also --{name}"))),
        _ => argument = argument.visible_aliases(other_names.to_vec()),
    }
    let Some(value) = option.value else {
        return argument.help(help).action(ArgAction::SetTrue);
    };
    argument = argument.help(help).value_name(value.placeholder).action(ArgAction::Set);
    match value.offer {
        Offer::Nothing => argument.value_hint(ValueHint::Other),
        Offer::Directory => argument.value_hint(ValueHint::DirPath),
        Offer::Path => argument.value_hint(ValueHint::AnyPath),
        // The help texts name the values already; clap would print the list a second time.
        Offer::Words(words) if purpose == Purpose::Completions => {
            argument.value_parser(PossibleValuesParser::new(words))
        }
        Offer::Words(_) => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings() -> impl Iterator<Item = String> {
        OPTIONS.iter().flat_map(|option| {
            let names = option.names.iter().map(|name| format!("--{name}"));
            names.chain(option.shorts.iter().map(|letter| format!("-{letter}")))
        })
    }

    #[test]
    fn the_help_shows_every_spelling_and_no_hidden_command() {
        let help = help(Brand::MsMemScope, None);
        for spelling in spellings() {
            assert!(help.contains(&spelling), "{spelling} is missing in\n{help}");
        }
        assert!(help.contains("export") && help.contains("info"), "{help}");
        assert!(!help.contains("completions"), "{help}");
    }

    #[test]
    fn the_man_page_shows_every_spelling() {
        let page = man_page(Brand::MsMemScope).unwrap().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
        for spelling in spellings() {
            assert!(page.contains(&spelling), "{spelling} is missing in\n{page}");
        }
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"] {
            assert!(page.contains(section), "{section}");
        }
    }

    #[test]
    fn completions_know_every_long_option_in_every_shell() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(Brand::MsMemScope, shell);
            for option in OPTIONS {
                for name in option.names {
                    // fish writes `-l name`.
                    assert!(
                        script.contains(&format!("--{name}")) || script.contains(&format!("-l {name}")),
                        "{shell:?}: {name}"
                    );
                }
            }
            assert!(script.contains("immediate"), "{shell:?} offers no values");
        }
    }

    #[test]
    fn the_old_name_has_its_own_documents() {
        assert!(version(Brand::MsLeaks).starts_with("msleaks "));
        assert!(man_page(Brand::MsLeaks).unwrap().contains("leaksDumpResults"));
        assert!(completions(Brand::MsLeaks, Shell::Bash).contains("_msleaks"));
        assert!(help(Brand::MsLeaks, None).contains("msleaks [options]"));
    }

    #[test]
    fn a_sub_command_has_its_own_help() {
        let help = help(Brand::MsMemScope, Some(SubCommand::Export));
        assert!(help.contains("msmemscope export [options] <dir>"), "{help}");
        assert!(help.contains("--format"), "{help}");
        assert!(!help.contains("--steps"), "{help}");
    }
}
