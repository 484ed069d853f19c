//! The recording libraries, and the `LD_PRELOAD` that brings them into the program.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::environment;
use crate::usage_error::quoted;

/// torch_npu and MindSpore report their pools only if a preloaded file really has this name.
pub const RECORDER: &str = "libascend_kernel_hook.so";
/// The malloc family; loaded only where host memory is asked for.
pub const HOST: &str = "libmsmemscope_host.so";
/// What makes a running program use them, and what shows that it does.
pub const ATTACH: &str = "libmsmemscope_attach.so";
pub const PROBE: &str = "libmsmemscope_probe.so";

#[derive(Debug, Error)]
pub enum LibraryError {
    #[error(
        "the recording library {name} was not found in {searched}; install it there or set {variable}",
        variable = environment::LIBRARY_DIR
    )]
    Missing { name: &'static str, searched: String },
    #[error("{path} is a link to a file of another name; frameworks only accept a file really called {name}")]
    Renamed { path: String, name: &'static str },
    #[error(
        "{path} cannot be preloaded: the loader splits LD_PRELOAD at blanks and colons; install into a path without \
         them, or set {variable}",
        variable = environment::LIBRARY_DIR
    )]
    Unloadable { path: String },
}

/// Absolute real paths, in the order of loading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Libraries(Vec<PathBuf>);

/// What is loaded into a program that runs already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachedLibraries {
    pub recorders: Libraries,
    pub attach: PathBuf,
    pub probe: PathBuf,
}

impl Libraries {
    /// `chosen`: the user's directory, which is then the only one; `command`: the real path of this executable.
    pub fn find(chosen: Option<&OsStr>, command: Option<&Path>, host_memory: bool) -> Result<Self, LibraryError> {
        let directories = directories(chosen, command);
        let names = if host_memory { &[RECORDER, HOST][..] } else { &[RECORDER] };
        names.iter().map(|name| find_one(name, &directories)).collect::<Result<_, _>>().map(Self)
    }

    /// To be loaded into a running program: all of the others, then those of [`ATTACH`] and [`PROBE`].
    pub fn to_attach(
        chosen: Option<&OsStr>,
        command: &Path,
        host_memory: bool,
    ) -> Result<AttachedLibraries, LibraryError> {
        let directories = directories(chosen, Some(command));
        let recorders = Self::find(chosen, Some(command), host_memory)?;
        let [attach, probe] = [find_one(ATTACH, &directories)?, find_one(PROBE, &directories)?];
        Ok(AttachedLibraries { recorders, attach, probe })
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    /// Ours first, then what was there, without a second mention of ours.
    pub fn preload(&self, existing: Option<&OsStr>) -> OsString {
        let mut preload = OsString::new();
        let present = existing.unwrap_or_default().as_bytes().split(|byte| matches!(byte, b':' | b' '));
        let present = present.map(OsStr::from_bytes).filter(|entry| !entry.is_empty());
        let others = present.filter(|entry| !self.0.iter().any(|path| path == entry));
        for entry in self.0.iter().map(|path| path.as_os_str()).chain(others) {
            if !preload.is_empty() {
                preload.push(":");
            }
            preload.push(entry);
        }
        preload
    }

    /// What was there but for libraries of the directory of ours, by whatever name.
    pub fn preload_without(&self, existing: Option<&OsStr>) -> OsString {
        let directories: Vec<&Path> = self.0.iter().filter_map(|path| path.parent()).collect();
        let is_ours = |entry: &&OsStr| {
            let real = Path::new(entry).canonicalize().unwrap_or_else(|_| PathBuf::from(entry));
            real.parent().is_some_and(|directory| directories.contains(&directory))
        };
        let present = existing.unwrap_or_default().as_bytes().split(|byte| matches!(byte, b':' | b' '));
        let present = present.map(OsStr::from_bytes).filter(|entry| !entry.is_empty());
        let others: Vec<&OsStr> = present.filter(|entry| !is_ours(entry)).collect();
        others.join(OsStr::new(":"))
    }
}

fn directories(chosen: Option<&OsStr>, command: Option<&Path>) -> Vec<PathBuf> {
    if let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) {
        return vec![PathBuf::from(chosen)];
    }
    let prefix = command.and_then(Path::parent).and_then(Path::parent);
    prefix.map(|prefix| vec![prefix.join("lib64"), prefix.join("lib")]).unwrap_or_default()
}

fn find_one(name: &'static str, directories: &[PathBuf]) -> Result<PathBuf, LibraryError> {
    let found = directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file());
    let real = found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| LibraryError::Missing {
        name,
        searched: directories.iter().map(quoted).collect::<Vec<_>>().join(" or "),
    })?;
    if real.file_name() != Some(OsStr::new(name)) {
        return Err(LibraryError::Renamed { path: quoted(&real), name });
    }
    if real.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        return Err(LibraryError::Unloadable { path: quoted(&real) });
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(directories: &[&str], names: &[&str]) -> tempfile::TempDir {
        let prefix = tempfile::tempdir().unwrap();
        for directory in directories {
            std::fs::create_dir(prefix.path().join(directory)).unwrap();
            for name in names {
                std::fs::write(prefix.path().join(directory).join(name), b"").unwrap();
            }
        }
        prefix
    }

    #[test]
    fn the_host_library_is_loaded_only_for_host_memory() {
        let prefix = installed(&["lib64"], &[RECORDER, HOST]);
        let command = prefix.path().join("bin/msmemscope");
        let real = prefix.path().canonicalize().unwrap().join("lib64");
        assert_eq!(Libraries::find(None, Some(&command), false).unwrap().0, [real.join(RECORDER)]);
        assert_eq!(Libraries::find(None, Some(&command), true).unwrap().0, [real.join(RECORDER), real.join(HOST)]);
    }

    #[test]
    fn lib_is_searched_after_lib64_and_a_chosen_directory_instead_of_both() {
        let prefix = installed(&["lib"], &[RECORDER]);
        let command = prefix.path().join("bin/msmemscope");
        assert!(Libraries::find(None, Some(&command), false).is_ok());
        let elsewhere = installed(&[], &[]);
        let error = Libraries::find(Some(elsewhere.path().as_os_str()), Some(&command), false).unwrap_err();
        assert!(error.to_string().contains(RECORDER), "{error}");
        assert!(error.to_string().contains(elsewhere.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_link_to_another_name_is_refused() {
        let prefix = installed(&["lib64"], &["libother.so"]);
        let directory = prefix.path().join("lib64");
        std::os::unix::fs::symlink(directory.join("libother.so"), directory.join(RECORDER)).unwrap();
        let error = Libraries::find(Some(directory.as_os_str()), None, false).unwrap_err();
        assert!(matches!(error, LibraryError::Renamed { .. }), "{error}");
    }

    #[test]
    fn a_path_the_loader_would_split_is_refused() {
        let prefix = installed(&["a b"], &[RECORDER]);
        let error = Libraries::find(Some(prefix.path().join("a b").as_os_str()), None, false).unwrap_err();
        assert!(matches!(error, LibraryError::Unloadable { .. }), "{error}");
    }

    #[test]
    fn ours_are_taken_out_by_whatever_name() {
        let prefix = installed(&["lib64", "lib"], &[RECORDER, "other.so"]);
        let real = prefix.path().canonicalize().unwrap();
        let ours = Libraries(vec![real.join("lib64").join(RECORDER)]);
        let [recorder, other, foreign] =
            [real.join("lib64").join(RECORDER), real.join("lib64/../lib64/other.so"), real.join("lib/other.so")]
                .map(|path| path.into_os_string().into_string().unwrap());
        for (existing, left) in [
            (String::new(), ""),
            (recorder.clone(), ""),
            (format!("{recorder}:{foreign} {other}"), foreign.as_str()),
            (format!("/gone/{RECORDER}:libx.so"), "/gone/libascend_kernel_hook.so:libx.so"),
        ] {
            assert_eq!(ours.preload_without(Some(OsStr::new(&existing))), left, "{existing}");
        }
        assert_eq!(ours.preload_without(None), "");
    }

    #[test]
    fn ours_come_first_and_once() {
        let ours = Libraries(vec![PathBuf::from("/l/a.so"), PathBuf::from("/l/b.so")]);
        for (existing, expected) in [
            (None, "/l/a.so:/l/b.so"),
            (Some(""), "/l/a.so:/l/b.so"),
            (Some("/x.so"), "/l/a.so:/l/b.so:/x.so"),
            (Some("/x.so /l/a.so:/y.so"), "/l/a.so:/l/b.so:/x.so:/y.so"),
        ] {
            assert_eq!(ours.preload(existing.map(OsStr::new)), expected, "{existing:?}");
        }
    }
}
