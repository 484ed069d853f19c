//! Makes one public function per implementation found in `../acl_rt_impl/src`.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    sim_link::shared_library("ascendcl", &["acl_rt_impl", "runtime"]);
    let sources = Path::new("../acl_rt_impl/src");
    println!("cargo:rerun-if-changed={}", sources.display());
    let mut names: Vec<String> = fs::read_dir(sources)
        .expect("the implementation's sources lie beside this crate")
        .flat_map(|entry| {
            public_names(&fs::read_to_string(entry.expect("readable directory").path()).expect("readable source"))
        })
        .collect();
    names.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let calls: String = names.iter().map(|name| format!("jump!({name}, {name}Impl);\n")).collect();
    fs::write(out.join("jumps.rs"), calls).expect("OUT_DIR can be written");
}

fn public_names(source: &str) -> Vec<String> {
    source
        .lines()
        .filter_map(|line| line.strip_prefix("pub extern \"C\" fn "))
        .filter_map(|rest| rest.split_once("Impl(").map(|(name, _)| name.to_owned()))
        .collect()
}
