//! Makes the two functions of every operator in `ops.txt`.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    sim_link::shared_library("opapi", &["runtime", "ascend_hal"]);
    println!("cargo:rerun-if-changed=ops.txt");
    let list = fs::read_to_string("ops.txt").expect("ops.txt lies beside this script");
    let operators: String = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
            let arity: usize = arguments.parse().unwrap_or(0);
            let arguments: String = (0..arity).map(|index| format!("_{index}, ")).collect();
            format!("operator!(c\"{name}\", aclnn{name}, aclnn{name}GetWorkspaceSize, [{arguments}]);\n")
        })
        .collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    fs::write(out.join("operators.rs"), operators).expect("OUT_DIR can be written");
}
