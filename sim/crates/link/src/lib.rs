//! Link-time identity of a simulated library, for use in build scripts.
//!
//! A cdylib of the simulator needs other cdylibs of the same workspace, and cargo does not order those. So every NEEDED
//! entry is made by linking an empty library with the right soname, built on the spot; the loader meets the real one at run
//! time. The functions themselves stay undefined in the linked file, which is what makes them interposable.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the library being built `lib<name>.so` and makes it need `lib<each of needed>.so`, found beside it.
///
/// # Panics
/// When run outside a build script or when the C compiler cannot make the empty libraries: the build must stop.
pub fn shared_library(name: &str, needed: &[&str]) {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    for library in needed {
        empty_library(&out, library);
    }
    let argument = |argument: &str| println!("cargo:rustc-cdylib-link-arg={argument}");
    argument(&format!("-Wl,-soname,lib{name}.so"));
    argument("-Wl,--enable-new-dtags");
    argument("-Wl,-rpath,$ORIGIN");
    argument(&format!("-L{}", out.display()));
    argument("-Wl,--no-as-needed");
    for library in needed {
        argument(&format!("-l{library}"));
    }
}

fn empty_library(directory: &Path, name: &str) {
    let status = Command::new("cc")
        .args(["-shared", "-nostdlib", &format!("-Wl,-soname,lib{name}.so"), "-x", "c", "/dev/null", "-o"])
        .arg(directory.join(format!("lib{name}.so")))
        .status()
        .expect("a C compiler named cc is needed to link the simulated libraries");
    assert!(status.success(), "cc could not make an empty lib{name}.so");
}
