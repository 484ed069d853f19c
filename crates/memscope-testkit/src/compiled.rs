//! Programs and libraries in C and C++, compiled once and kept by content, below the target directory.
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

/// Puts what `compiler` makes of the arguments, files among them, to `output`. It is a copy: a test may do with it what it likes.
///
/// Kept by the arguments, the text of the files and of what they include, and the compiler's version. What refers to the
/// place of `output`, which is another one each time, is compiled each time.
///
/// # Panics
/// If there is no compiler, or it refuses.
pub fn compile(compiler: &str, arguments: &[&str], output: &Path) {
    let place = output.parent().and_then(Path::to_str).expect("the output is in a directory whose path is text");
    if arguments.iter().any(|argument| argument.contains(place)) {
        return run(Command::new(compiler).args(arguments).arg("-o").arg(output));
    }
    let name = output.file_name().expect("the output is a file");
    let kept = kept_programs().join(format!("{:016x}", fingerprint(compiler, arguments))).join(name);
    if !kept.is_file() {
        // Others may be at it; whoever is last replaces the same by the same.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = kept.parent().expect("it is in a directory");
        fs::create_dir_all(directory).expect("the target directory can be written to");
        let unfinished = directory.join(format!("unfinished-{}-{number}", std::process::id()));
        run(Command::new(compiler).args(arguments).arg("-o").arg(&unfinished));
        fs::rename(&unfinished, &kept).expect("both are in one directory");
    }
    // By another process: a program cannot be started as long as somebody may write to it, and children of this one that
    // are just beginning have whatever it has opened.
    run(Command::new("cp").arg(kept).arg(output));
}

/// In the target directory that this test is run from: `debug/deps/name` of it, or of a processor's below it.
fn kept_programs() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    test.ancestors().nth(3).expect("tests are in a directory of cargo's").join("programs")
}

fn fingerprint(compiler: &str, arguments: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    version(compiler).hash(&mut hasher);
    // Debug information says where it was compiled.
    env::current_dir().expect("tests run in a directory").hash(&mut hasher);
    for argument in arguments {
        argument.hash(&mut hasher);
        for text in texts(Path::new(argument)) {
            text.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// A file, if it is one, and those it includes by a path from its own place; what is elsewhere comes with the compiler.
fn texts(file: &Path) -> Vec<Vec<u8>> {
    let (mut paths, mut texts) = (vec![file.to_owned()], Vec::new());
    while let Some(path) = paths.get(texts.len()) {
        let text = fs::read(path).unwrap_or_default();
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        for line in String::from_utf8_lossy(&text).lines() {
            let included = line.trim_start().strip_prefix("#include \"").and_then(|rest| rest.split('"').next());
            let included = included.map(|included| directory.join(included));
            paths.extend(included.filter(|included| !paths.contains(included)));
        }
        texts.push(text);
    }
    texts
}

/// What the compiler says of itself.
fn version(compiler: &str) -> Vec<u8> {
    static C: OnceLock<Vec<u8>> = OnceLock::new();
    static CPP: OnceLock<Vec<u8>> = OnceLock::new();
    let ask = || Command::new(compiler).arg("--version").output().map(|answer| answer.stdout).unwrap_or_default();
    match compiler {
        "cc" => C.get_or_init(ask).clone(),
        "c++" => CPP.get_or_init(ask).clone(),
        _ => ask(),
    }
}

fn run(command: &mut Command) {
    let answer = command.output().unwrap_or_else(|error| panic!("{command:?} is needed and cannot be run: {error}"));
    assert!(answer.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&answer.stderr));
}
