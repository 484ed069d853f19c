//! The installed command is a text: the kernel executes it as the program, a shell that sources it changes its environment.
use memscope_tests::{command, library};
use std::process::{Command, Output};

fn in_shell(shell: &str, script: &str) -> Output {
    let installed = command();
    let directory = std::path::Path::new(installed.get_program()).parent().expect("a directory of commands");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new(shell);
    shell.args(["-c", script, "shell", "argument"]).env("PATH", path).env_remove("LD_PRELOAD");
    shell.output().expect("the shell runs")
}

#[test]
fn a_shell_that_sources_the_command_loads_and_unloads_the_library() {
    let recorder = library("libascend_kernel_hook.so");
    let recorder = recorder.canonicalize().expect("it is there").display().to_string();
    for shell in ["bash", "zsh"] {
        let script = "set -eu; source msmemscope --load-api-env; echo $LD_PRELOAD $1; source msleaks --unload-api-env; \
                      echo ${LD_PRELOAD-unset} $1; set +e; source msmemscope --version; echo $?";
        let output = in_shell(shell, script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, format!("{recorder} argument\nunset argument\n2\n"), "{shell}: {output:?}");
    }
}

#[test]
fn executed_it_is_the_program_by_the_name_that_was_typed() {
    let output = in_shell("sh", "msmemscope --version; msleaks --version; msleaks --nothing");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["msmemscope", "msleaks"]);
    assert!(errors.starts_with("[msleaks] error: unknown option"), "{errors}");
    assert_eq!(output.status.code(), Some(2));
}
