//! What each option means, and what is said about a wrong one.
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU16;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use memscope_cli::args::CommandLine;
use memscope_cli::intent::{ApiEnv, CompareSettings, Intent, Shell};
use memscope_cli::options::{OPTIONS, SubCommand};
use memscope_cli::resolution::Resolution;
use memscope_session::brand::Brand;
use memscope_session::compare::CompareWishes;
use memscope_session::export::ExportWishes;
use memscope_session::settings::values::Watch;
use memscope_session::settings::{
    Analysis, CallStacks, CollectMode, Devices, EventSet, Format, LevelSet, LogLevel, NpuSelection, Settings, StackForm,
};
use memscope_session::usage_error::UsageError;

fn resolve_os(words: &[OsString], brand: Brand) -> Result<Resolution, UsageError> {
    CommandLine::parse(words).and_then(|line| Resolution::of(line, brand))
}

fn resolve(words: &[&str]) -> Result<Resolution, UsageError> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    resolve_os(&words, Brand::MsMemScope)
}

fn run(words: &[&str]) -> (Settings, Vec<String>) {
    let resolution = resolve(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    match resolution.intent {
        Intent::Run(settings) => (*settings, resolution.notes),
        other => panic!("{words:?} means {other:?}"),
    }
}

fn settings(option: &str) -> Settings {
    run(&[option, "prog"]).0
}

fn depth(depth: u16) -> Option<NonZeroU16> {
    NonZeroU16::new(depth)
}

#[test]
fn without_options_the_manuals_defaults_hold() {
    let (settings, notes) = run(&["prog"]);
    let expected = Settings {
        program: "prog".into(),
        arguments: Vec::new(),
        steps: Vec::new(),
        devices: Devices { npu: NpuSelection::All, cpu: false },
        level: LevelSet::OP,
        dump: EventSet::ALLOC | EventSet::FREE | EventSet::LAUNCH,
        traceback: false,
        call_stacks: CallStacks { c: None, python: None },
        collect_mode: CollectMode::Immediate,
        analysis: Analysis { leaks: true, decompose: false, inefficient: false, oom: None },
        data_format: Format::Csv,
        stacks: None,
        watch: None,
        output_dir: std::env::current_dir().unwrap().join("memscopeDumpResults"),
        log_level: LogLevel::Warn,
        watch_max_bytes: None,
        max_size: None,
        brand: Brand::MsMemScope,
    };
    assert_eq!(settings, expected);
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn under_the_old_name_the_old_output_directory_holds() {
    let resolution = resolve_os(&["prog".into()], Brand::MsLeaks).unwrap();
    let Intent::Run(settings) = resolution.intent else { panic!() };
    assert_eq!(settings.output_dir.file_name(), Some(OsStr::new("leaksDumpResults")));
    assert_eq!(settings.brand, Brand::MsLeaks);
}

#[test]
fn steps_are_a_list_of_any_length() {
    for (value, steps) in [
        ("--steps=1", &[1][..]),
        ("--steps=1,2,3,4,5,6,7", &[1, 2, 3, 4, 5, 6, 7]),
        ("--steps=3，1，2", &[3, 1, 2]),
        ("--steps= 3 , 1，3 ", &[3, 1]),
        ("--steps=4294967295", &[u32::MAX]),
    ] {
        assert_eq!(settings(value).steps, steps, "{value}");
    }
}

#[test]
fn devices_are_npus_and_the_host() {
    for (value, npu, cpu) in [
        ("--device=npu", NpuSelection::All, false),
        ("--device=cpu", NpuSelection::None, true),
        ("--device=npu,cpu", NpuSelection::All, true),
        ("--device=npu:2,npu:7", NpuSelection::Set(1 << 2 | 1 << 7), false),
        ("--device=npu:0，npu:31，npu:0，cpu", NpuSelection::Set(1 | 1 << 31), true),
        ("--device=npu:3,npu", NpuSelection::All, false),
        ("--device=npu,npu:3", NpuSelection::All, false),
    ] {
        assert_eq!(settings(value).devices, Devices { npu, cpu }, "{value}");
    }
}

#[test]
fn levels_have_a_number_and_a_name() {
    let mut both = LevelSet::OP;
    both |= LevelSet::KERNEL;
    for (value, level) in [
        ("--level=0", LevelSet::OP),
        ("--level=op", LevelSet::OP),
        ("--level=1", LevelSet::KERNEL),
        ("--level=kernel", LevelSet::KERNEL),
        ("--level=0,1", both),
        ("--level=op，kernel", both),
        ("--level=op,0", LevelSet::OP),
        ("--level=", LevelSet::NONE),
    ] {
        assert_eq!(settings(value).level, level, "{value}");
    }
}

#[test]
fn what_is_collected_completes_what_is_written() {
    const A: EventSet = EventSet::ALLOC;
    const F: EventSet = EventSet::FREE;
    const L: EventSet = EventSet::LAUNCH;
    const X: EventSet = EventSet::ACCESS;
    for (events, analysis, dump, collected) in [
        ("alloc", "none", A, A | F),
        ("free", "none", F, A | F),
        ("access", "none", X, A | F | X),
        ("launch", "none", L, L),
        ("alloc，launch", "", A | L, A | F | L),
        ("none", "none", EventSet::NONE, EventSet::NONE),
        ("", "none", EventSet::NONE, EventSet::NONE),
        ("none", "leaks", EventSet::NONE, A | F),
        ("none", "oom", EventSet::NONE, A | F),
        ("launch", "decompose", L, A | F | X | L),
        ("none", "inefficient", EventSet::NONE, A | F | X | L),
        ("alloc,alloc", "leaks,leaks", A, A | F),
    ] {
        let line = [format!("--events={events}"), format!("--analysis={analysis}"), String::from("prog")];
        let (settings, _) = run(&line.each_ref().map(String::as_str));
        assert_eq!(settings.dump, dump, "{line:?}");
        assert_eq!(settings.collected(), collected, "{line:?}");
    }
}

#[test]
fn none_among_others_clears_them_with_a_note() {
    let (settings, notes) = run(&["--events=alloc,none", "--analysis=none，leaks", "prog"]);
    assert_eq!((settings.dump, settings.analysis), (EventSet::NONE, Analysis::NONE));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("--events") && notes[1].contains("--analysis"), "{notes:?}");
}

#[test]
fn call_stacks_have_a_depth_each() {
    for (value, c, python) in [
        ("--call-stack=python", None, depth(50)),
        ("--call-stack=c", depth(50), None),
        ("--call-stack=c:20,python:10", depth(20), depth(10)),
        ("--call-stack=c:1000，python:0", depth(1000), None),
        ("--call-stack=c:5,c:7", depth(7), None),
        ("--call-stack=", None, None),
    ] {
        assert_eq!(settings(value).call_stacks, CallStacks { c, python }, "{value}");
    }
}

#[test]
fn analyses_are_a_list() {
    for (value, analysis) in [
        ("--analysis=leaks", Analysis::DEFAULT),
        ("--analysis=leaks,decompose", Analysis { decompose: true, ..Analysis::DEFAULT }),
        ("--analysis=inefficient", Analysis { inefficient: true, ..Analysis::NONE }),
        ("--analysis=oom", Analysis { oom: depth(10), ..Analysis::NONE }),
        ("--analysis=oom:1000，leaks", Analysis { oom: depth(1000), ..Analysis::DEFAULT }),
        ("--analysis=none", Analysis::NONE),
        ("--analysis=", Analysis::NONE),
    ] {
        assert_eq!(settings(value).analysis, analysis, "{value}");
    }
}

#[test]
fn single_choices() {
    assert_eq!(settings("--collect-mode=deferred").collect_mode, CollectMode::Deferred);
    assert_eq!(settings("--collect-mode=immediate").collect_mode, CollectMode::Immediate);
    for name in ["--data-format", "--format"] {
        assert_eq!(settings(&format!("{name}=db")).data_format, Format::Db);
        assert_eq!(run(&[name, "csv", "prog"]).0.data_format, Format::Csv);
        assert_eq!(run(&[name, "none", "prog"]).0.data_format, Format::NoFiles);
    }
    assert_eq!(settings("--stacks=inline").stacks, Some(StackForm::Inline));
    assert_eq!(settings("--stacks=table").stacks, Some(StackForm::Table));
}

#[test]
fn sizes_count_in_powers_of_1024() {
    for (value, bytes) in [
        ("1", 1),
        ("4096", 4096),
        ("3K", 3 << 10),
        ("500M", 500 << 20),
        ("2G", 2 << 30),
        ("2g", 2 << 30),
        ("1T", 1 << 40),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(settings(&format!("--max-size={value}")).max_size, Some(bytes), "{value}");
        assert_eq!(settings(&format!("--watch-max-bytes={value}")).watch_max_bytes, Some(bytes), "{value}");
    }
}

#[test]
fn an_explicit_log_level_wins_over_the_short_forms() {
    for (words, level) in [
        (&["--log-level=info", "p"][..], LogLevel::Info),
        (&["--log-level=warn", "p"], LogLevel::Warn),
        (&["--log-level=warning", "p"], LogLevel::Warn),
        (&["--log-level=error", "p"], LogLevel::Error),
        (&["--verbose", "p"], LogLevel::Debug),
        (&["--debug", "p"], LogLevel::Debug),
        (&["-q", "p"], LogLevel::Error),
        (&["--quiet", "--verbose", "p"], LogLevel::Debug),
        (&["--log-level=info", "--verbose", "-q", "p"], LogLevel::Info),
    ] {
        assert_eq!(run(words).0.log_level, level, "{words:?}");
    }
}

#[test]
fn watch_names_two_operators() {
    let watch = |start: &str, output, end: &str, full_content| Watch {
        start: (!start.is_empty()).then(|| start.to_owned()),
        output,
        end: end.to_owned(),
        full_content,
    };
    for (value, expected) in [
        ("op0,op1,full-content", watch("op0", None, "op1", true)),
        ("op0:3,op1", watch("op0", Some(3), "op1", false)),
        ("op0:out3，op1，full-content", watch("op0", Some(3), "op1", true)),
        (",op1", watch("", None, "op1", false)),
        ("aten::add,aten::mul", watch("aten::add", None, "aten::mul", false)),
        ("aten::add:0,aten::mul", watch("aten::add", Some(0), "aten::mul", false)),
        ("token0/layer0/module0/op0,token0/layer0/module0/op1", {
            watch("token0/layer0/module0/op0", None, "token0/layer0/module0/op1", false)
        }),
    ] {
        let parsed = settings(&format!("--watch={value}")).watch.unwrap();
        assert_eq!(parsed, expected, "{value}");
        assert_eq!(
            memscope_session::settings::values::watch(&parsed.to_string()).unwrap(),
            parsed,
            "{value} read back"
        );
    }
}

#[test]
fn the_output_directory_is_made_absolute_and_need_not_be_utf8() {
    let here = std::env::current_dir().unwrap();
    for words in [&["-o", "a/b", "p"][..], &["--output=a/b", "p"], &["--output-path", "a/b", "p"], &["-oa/b", "p"]] {
        assert_eq!(run(words).0.output_dir, here.join("a/b"), "{words:?}");
    }
    let wide = settings("--output=/tmp/权重，b");
    assert_eq!(wide.output_dir, Path::new("/tmp/权重，b"));
    let raw = OsString::from_vec(b"--output=/tmp/\xff\xbc".to_vec());
    let Intent::Run(settings) = resolve_os(&[raw, "p".into()], Brand::MsMemScope).unwrap().intent else { panic!() };
    assert_eq!(settings.output_dir, PathBuf::from(OsString::from_vec(b"/tmp/\xff\xbc".to_vec())));
}

#[test]
fn the_last_of_a_repeated_option_wins() {
    let (settings, notes) = run(&["--steps=1", "--level=1", "--steps=2", "--format=db", "--data-format=csv", "prog"]);
    assert_eq!(settings.steps, [2]);
    assert_eq!(settings.data_format, Format::Csv);
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn the_manuals_two_forms_run_the_program() {
    let (settings, _) = run(&["--level=0", "bash", "user.sh"]);
    assert_eq!((settings.program, settings.arguments), ("bash".into(), vec!["user.sh".into()]));
    let (settings, _) = run(&["--level=0", "--", "prog", "-x", "--help", "-v"]);
    assert_eq!(settings.program, "prog");
    assert_eq!(settings.arguments, ["-x", "--help", "-v"]);
}

#[test]
fn a_valid_option_after_the_program_is_taken_with_a_note() {
    let (settings, notes) = run(&["python", "t.py", "--steps=2,3", "--lr=0.1", "--level=kernel"]);
    assert_eq!(settings.steps, [2, 3]);
    assert_eq!(settings.level, LevelSet::KERNEL);
    assert_eq!(settings.arguments, ["t.py", "--lr=0.1"]);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("'--steps=2,3'") && notes[0].contains("-- python"), "{notes:?}");
    assert!(notes[1].contains("'--level=kernel'"), "{notes:?}");
}

#[test]
fn after_the_program_anything_else_stays_with_it() {
    for word in [
        "--steps",
        "--steps=many",
        "--level=debug",
        "--device=cuda:0",
        "--events=all",
        "--input=data.txt",
        "--input=/tmp,/tmp",
        "--output=",
        "--format=json",
        "--max-size=0",
        "--compare",
        "--help",
        "--version",
        "--step=1",
        "-o",
        "-o=x",
        "-v",
        "--log-level=loud",
    ] {
        let (settings, notes) = run(&["prog", word, "last"]);
        assert_eq!(settings.arguments, [word, "last"]);
        assert!(notes.is_empty(), "{word}: {notes:?}");
    }
}

#[test]
fn after_dashes_nothing_is_touched() {
    for words in [&["--", "prog", "--steps=2"][..], &["prog", "--steps=2", "--", "x"]] {
        let (settings, notes) = run(words);
        assert!(settings.steps.is_empty(), "{words:?}");
        assert!(settings.arguments.contains(&OsString::from("--steps=2")), "{words:?}");
        assert!(notes.is_empty(), "{notes:?}");
    }
}

#[test]
fn options_without_effect_are_admitted_once() {
    let (_, notes) = run(&["--input=/tmp,/tmp", "prog"]);
    assert!(notes.len() == 1 && notes[0].contains("--compare"), "{notes:?}");
}

/// One line that names the option as typed, the bad part, and what is allowed.
#[test]
fn a_bad_value_is_refused_in_one_line() {
    let long_name = format!("--watch={},b", "x".repeat(255));
    let long_path = format!("--output={}", "x".repeat(4097));
    for (word, bad) in [
        ("--steps=", "''"),
        ("--steps=0", "'0'"),
        ("--steps=01", "'01'"),
        ("--steps=1,,2", "'1,,2'"),
        ("--steps=1,", "'1,'"),
        ("--steps=x", "'x'"),
        ("--steps=-1", "'-1'"),
        ("--steps=+1", "'+1'"),
        ("--steps=4294967296", "'4294967296'"),
        ("--steps=99999999999999999999", "'99999999999999999999'"),
        ("--steps=1;2", "'1;2'"),
        ("--steps=1\n2", "'1\\n2'"),
        ("--device=", "''"),
        ("--device=npu:32", "'npu:32'"),
        ("--device=npu:010", "'npu:010'"),
        ("--device=npu:", "'npu:'"),
        ("--device=npu,gpu", "'gpu'"),
        ("--device=NPU", "'NPU'"),
        ("--device=cpu:0", "'cpu:0'"),
        ("--level=2", "'2'"),
        ("--level=op，kern", "'kern'"),
        ("--events=allocs", "'allocs'"),
        ("--events=alloc,", "'alloc,'"),
        ("--call-stack=c:1001", "'c:1001'"),
        ("--call-stack=c:05", "'c:05'"),
        ("--call-stack=c:", "'c:'"),
        ("--call-stack=java", "'java'"),
        ("--call-stack=python:ten", "'python:ten'"),
        ("--collect-mode=", "''"),
        ("--collect-mode=immediate,deferred", "'immediate,deferred'"),
        ("--analysis=oomXYZ", "'oomXYZ'"),
        ("--analysis=oom:0", "'oom:0'"),
        ("--analysis=oom:1001", "'oom:1001'"),
        ("--analysis=leak", "'leak'"),
        ("--data-format=", "''"),
        ("--data-format=csv,db", "'csv,db'"),
        ("--stacks=", "''"),
        ("--stacks=both", "'both'"),
        ("--format=json", "'json'"),
        ("--watch=", "''"),
        ("--watch=op0", "'op0'"),
        ("--watch=op0,", "'op0,'"),
        ("--watch=op0,full-content", "'op0,full-content'"),
        ("--watch=op0,op1,full", "'full'"),
        ("--watch=op0,op1,full-content,x", "'x'"),
        ("--watch=op0:x,op1", "'op0:x'"),
        ("--watch=op0:01,op1", "'op0:01'"),
        ("--watch=:3,op1", "':3'"),
        (&long_name, "'xxx"),
        ("--output=", "''"),
        ("--output-path=  ", "'  '"),
        (&long_path, "'xxx"),
        ("--max-size=0", "'0'"),
        ("--watch-max-bytes=0", "'0'"),
        ("--watch-max-bytes=much", "'much'"),
        ("--max-size=", "''"),
        ("--max-size=M", "'M'"),
        ("--max-size=1.5G", "'1.5G'"),
        ("--max-size=10X", "'10X'"),
        ("--max-size=16777216T", "'16777216T'"),
        ("--log-level=loud", "'loud'"),
        ("--input=/tmp,/tmp,/tmp", "'/tmp,/tmp,/tmp'"),
        ("--input-path=/tmp，/nowhere/at/all", "'/nowhere/at/all'"),
    ] {
        let error = resolve(&[word, "prog"]).map(|meant| meant.intent).unwrap_err();
        let text = error.to_string();
        let option = word.split('=').next().unwrap();
        let name = option.trim_start_matches("--");
        let allowed = OPTIONS.iter().find(|spec| spec.names.contains(&name)).unwrap().allowed();
        assert!(matches!(error, UsageError::BadValue { .. }), "{word}: {text}");
        assert!(!text.contains('\n'), "{word}: {text}");
        assert!(text.starts_with(&format!("bad value {bad}")), "{word}: {text}");
        assert!(text.contains(&format!("for {option}")), "{word}: {text}");
        assert!(text.ends_with(&format!("allowed: {allowed}")), "{word}: {text}");
    }
}

#[test]
fn messages_read_like_this() {
    for (words, expected) in [
        (
            &["--device=npu:2,npu:32", "prog"][..],
            "bad value 'npu:32' for --device (in 'npu:2,npu:32'): out of range; allowed: npu, npu:0 to npu:31, cpu, \
             separated by commas",
        ),
        (&["--format", "json", "prog"], "bad value 'json' for --format; allowed: csv, db, none"),
        (&["--log-level"], "--log-level needs a value; allowed: debug, info, warn, error"),
        (&["--compare=yes"], "--compare takes no value, but 'yes' was given; write --compare alone"),
        (&["--stpes=1", "prog"], "unknown option '--stpes': did you mean --steps?"),
        (&["--call=c", "prog"], "unknown option '--call': options cannot be shortened; write --call-stack"),
        (
            &[],
            "no program to run; write: msmemscope [options] bash user.sh, or msmemscope [options] -- program arguments",
        ),
        (
            &["--compare"],
            "--compare needs --input; allowed: two existing paths separated by a comma, together at most 4096 characters, or \
             one with --steps=BASE,COMPARE",
        ),
        (
            &["--compare", "--input=/tmp"],
            "--compare needs two inputs, but --input names one; write --input=BASE,COMPARE, or --steps=BASE,COMPARE for two \
             steps of it",
        ),
        (
            &["--compare", "--input=/tmp,/", "--steps=1,2,3"],
            "--compare takes at most two steps, but --steps names 3; write --steps=BASE,COMPARE",
        ),
        (
            &["export", "--steps=1", "/tmp"],
            "--steps does not belong to 'export'; allowed there: --data-format, --stacks, --analysis, --output, --log-level, --verbose, --quiet, --help",
        ),
        (
            &["export", "--format=none", "/tmp"],
            "'export' writes files, so --data-format=none means nothing there; write --data-format=csv or db, or for the \
             summary alone: msmemscope info",
        ),
        (
            &["export"],
            "'export' needs one directory: an output directory, a process directory or a spool directory, but none was \
             given",
        ),
        (&["completions", "tcsh"], "'completions' needs one shell: bash, zsh or fish, but 'tcsh' was given"),
    ] {
        assert_eq!(resolve(words).map(|meant| meant.intent).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_value_that_is_not_utf8_is_refused_where_words_are_expected() {
    let word = OsString::from_vec(b"--device=npu\xef\xbc".to_vec());
    let error = resolve_os(&[word, "prog".into()], Brand::MsMemScope).map(|meant| meant.intent).unwrap_err();
    assert!(error.to_string().contains("not valid UTF-8"), "{error}");
}

#[test]
fn sub_commands_and_questions_are_recognised() {
    let intent = |words: &[&str]| resolve(words).unwrap().intent;
    assert!(matches!(intent(&["--help"]), Intent::Help(None)));
    assert!(matches!(intent(&["-h", "--nonsense"]), Intent::Help(None)));
    assert!(matches!(intent(&["export", "-h"]), Intent::Help(Some(SubCommand::Export))));
    for word in ["-v", "-V", "--version"] {
        assert!(matches!(intent(&[word]), Intent::Version), "{word}");
    }
    let Intent::Export(export) = intent(&["export", "/tmp", "--format", "db"]) else { panic!() };
    assert_eq!((export.directory, export.wishes.format), (PathBuf::from("/tmp"), Some(Format::Db)));
    let Intent::Export(export) = intent(&["export", "/tmp"]) else { panic!() };
    assert_eq!(export.wishes, ExportWishes::default());
    let Intent::Export(export) = intent(&["export", "/tmp", "-o", "/x", "--stacks=inline"]) else { panic!() };
    let wishes = ExportWishes {
        format: None,
        stacks: Some(StackForm::Inline),
        output_dir: Some(PathBuf::from("/x")),
        analysis: None,
    };
    assert_eq!(export.wishes, wishes);
    assert!(matches!(intent(&["info", "/tmp"]), Intent::Info(_)));
    assert!(matches!(intent(&["completions", "zsh"]), Intent::Completions(Shell::Zsh)));
    assert!(matches!(intent(&["man"]), Intent::ManPage));
    assert!(matches!(intent(&["--", "info", "/tmp"]), Intent::Run(_)));
    let compare = |words: &[&str]| match intent(words) {
        Intent::Compare(settings) => settings,
        other => panic!("no comparison: {other:?}"),
    };
    let sides = |settings: &CompareSettings| {
        let CompareWishes { base, compared, .. } = &settings.wishes;
        [base, compared].map(|side| (side.place.path.to_str().unwrap().to_owned(), side.step))
    };
    let side = |path: &str, step| (path.to_owned(), step);
    let settings = compare(&["--compare", "--input=/tmp，/", "--level=kernel", "--json"]);
    assert_eq!(sides(&settings), [side("/tmp", None), side("/", None)]);
    assert_eq!((settings.wishes.level, settings.json), (Some(LevelSet::KERNEL), true));
    assert!(settings.output_dir.ends_with("memscopeDumpResults"));
    let settings = compare(&["--compare", "-i", "/tmp", "--steps=7,2"]);
    assert_eq!(sides(&settings), [side("/tmp", Some(7)), side("/tmp", Some(2))]);
    let settings = compare(&["--compare", "--input-path=/tmp,/", "--steps=2"]);
    assert_eq!(sides(&settings), [side("/tmp", Some(2)), side("/", Some(2))]);
    for words in [&["info", "/nowhere/at/all"][..], &["export", "/tmp", "/tmp"], &["man", "x"]] {
        assert!(matches!(resolve(words), Err(UsageError::BadOperands { .. })), "{words:?}");
    }
}

#[test]
fn the_environment_of_a_shell_is_changed_without_a_program() {
    for (option, change) in [("--load-api-env", ApiEnv::Load), ("--unload-api-env", ApiEnv::Unload)] {
        assert!(matches!(resolve(&[option]).unwrap().intent, Intent::ApiEnv(found) if found == change), "{option}");
        let error = resolve(&[option, "prog"]).unwrap_err();
        assert_eq!(error, UsageError::ApiEnvWithProgram { command: "msmemscope" });
    }
}
