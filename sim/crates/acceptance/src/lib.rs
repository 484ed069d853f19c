//! Runs C programs against the tree that `build.sh` made.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The installation under test.
///
/// # Panics
/// When it has not been built.
pub fn toolkit(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let tree = target.join(name).join("latest");
    assert!(tree.join("env.sh").exists(), "{} is missing: run sim/build.sh first", tree.display());
    tree
}

fn compile(source: &str, output: &Path, arguments: &[String]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let status = Command::new("cc")
        .args(["-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-o"])
        .arg(output)
        .arg(source)
        .args(arguments)
        .status()
        .expect("a C compiler named cc is needed");
    assert!(status.success(), "the test program does not compile");
}

/// A run of one scenario of the driver program.
pub struct Scenario {
    tree: PathBuf,
    directory: PathBuf,
    name: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl Scenario {
    /// `directory` is for the compiled programs of this scenario alone.
    pub fn new(name: &'static str, directory: &Path) -> Self {
        let directory = directory.join(name);
        std::fs::create_dir_all(&directory).expect("the test directory can be made");
        Self { tree: toolkit("ascend-toolkit"), directory, name, variables: Vec::new() }
    }

    /// Uses another installation.
    pub fn on(mut self, toolkit_name: &str) -> Self {
        self.tree = toolkit(toolkit_name);
        self
    }

    /// Sets an environment variable of the run.
    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    /// Preloads the test tool, which stands in front of driver, runtime and mstx functions and reports what it saw.
    pub fn with_tool(self) -> Self {
        self.with_tool_in("LD_PRELOAD")
    }

    /// Names the test tool in an environment variable.
    pub fn with_tool_in(self, variable: &'static str) -> Self {
        let tool = self.directory.join("libtool.so");
        compile("tool.c", &tool, &["-shared".into(), "-ldl".into()]);
        self.with(variable, tool.display().to_string())
    }

    /// The facts the program printed, one `key=value` per line.
    ///
    /// # Panics
    /// When the program does not compile or fails.
    pub fn run(self) -> Facts {
        let lib = self.tree.join("lib64");
        let program = self.directory.join("driver");
        let libraries = ["opapi", "ascendcl", "ms_tools_ext", "dcmi", "profapi", "runtime", "ascend_hal"];
        let mut arguments = vec![format!("-L{}", lib.display()), "-Wl,--allow-shlib-undefined".into()];
        arguments.extend(libraries.map(|library| format!("-l{library}")));
        compile("driver.c", &program, &arguments);
        let output = Command::new(&program)
            .arg(self.name)
            .env("LD_LIBRARY_PATH", lib)
            .envs(self.variables)
            .output()
            .expect("the driver program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{text}\n{errors}", self.name, output.status);
        Facts { text }
    }
}

/// What a program printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    text: String,
}

impl Facts {
    /// The value printed for a key; of several, the last.
    ///
    /// # Panics
    /// When the key was not printed.
    pub fn get(&self, key: &str) -> &str {
        let facts: BTreeMap<&str, &str> = self.text.lines().filter_map(|line| line.split_once('=')).collect();
        facts.get(key).unwrap_or_else(|| panic!("no {key} in:\n{}", self.text))
    }

    /// All values printed for a key, in order.
    pub fn all(&self, key: &str) -> Vec<&str> {
        let lines = self.text.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value).collect()
    }

    /// A value as a number.
    ///
    /// # Panics
    /// When it is none.
    pub fn number(&self, key: &str) -> u64 {
        let value = self.get(key);
        let parsed = value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u64::from_str_radix(hex, 16));
        parsed.unwrap_or_else(|_| panic!("{key}={value} is not a number"))
    }
}
