//! The program to run: found as `execvp` would, and looked at before anything is created, because the loader silently
//! ignores `LD_PRELOAD` for some programs and the user would wait for a recording that never comes.
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::elf::{DT_SONAME, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use thiserror::Error;

use crate::EXIT_USAGE;
use crate::usage_error::quoted;

/// What `execvp` searches when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// A script may name a script as its interpreter; the kernel gives up at this depth, too.
const MAX_INTERPRETERS: usize = 4;
/// As much of a `#!` line as the kernel reads.
const SHEBANG_BYTES: u64 = 256;
/// In the name of its loader.
const MUSL: &[u8] = b"ld-musl";
const SET_UID: u32 = 0o4000;
const SET_GID_AND_EXECUTE: u32 = 0o2010;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Contains a slash, so that nobody searches for it again.
    pub path: PathBuf,
    pub kind: ProgramKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    Executable,
    /// Text without `#!`: `execvp` gives it to the shell, and so do we.
    ShellText,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProgramError {
    #[error("program {program} not found{place}; give its path, or have it in PATH")]
    NotFound { program: String, place: &'static str },
    #[error("program {program} cannot be executed: {reason}")]
    NotExecutable { program: String, reason: String },
    #[error("{program} cannot be recorded: {refusal}")]
    Refused { program: String, refusal: Refusal },
}

impl ProgramError {
    /// As a shell would: 127 not found, 126 found but not executable.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Refused { .. } => EXIT_USAGE,
        }
    }
}

/// Why the loader would not load the recording library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error(
        "it is set-uid to user {owner}, and the loader ignores LD_PRELOAD for such programs; run the program it \
         starts instead, as that user"
    )]
    SetUid { owner: u32 },
    #[error(
        "it is set-gid to group {group}, and the loader ignores LD_PRELOAD for such programs; run a copy without the \
         set-gid bit"
    )]
    SetGid { group: u32 },
    #[error(
        "it has file capabilities, and the loader ignores LD_PRELOAD for such programs; run a copy without them, or \
         run as root"
    )]
    Capabilities,
    #[error("it is statically linked, so there is no loader to load the recording library; link it without -static")]
    Static,
    #[error("it uses the C library musl, and the recording library needs glibc; build it for glibc")]
    Musl,
    #[error("it is a 32-bit program and the recording library is 64-bit; build it for 64 bits")]
    Bits32,
}

/// Who runs the program. The kernel compares with the real ids when it decides that a program gains privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
}

impl Identity {
    pub fn own() -> Self {
        Self { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
    }
}

impl Program {
    pub fn find(typed: &OsStr, search_path: Option<&OsStr>, identity: Identity) -> Result<Self, ProgramError> {
        let path = search(typed, search_path)?;
        let kind = inspect(&path, identity, MAX_INTERPRETERS)?;
        Ok(Self { path, kind })
    }
}

fn search(typed: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if typed.as_bytes().contains(&b'/') {
        let path = PathBuf::from(typed);
        return executable(&path).map(|()| path).map_err(|reason| match reason {
            Unusable::Missing => ProgramError::NotFound { program: quoted(typed), place: "" },
            Unusable::Denied(reason) => ProgramError::NotExecutable { program: quoted(typed), reason },
        });
    }
    let mut denied = None;
    if !typed.is_empty() {
        for directory in std::env::split_paths(search_path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
            // An empty entry is the working directory; joining onto it would drop the slash that keeps the loader from
            // searching again.
            let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
            let path = directory.join(typed);
            match executable(&path) {
                Ok(()) => return Ok(path),
                Err(Unusable::Missing) => {}
                Err(Unusable::Denied(reason)) => {
                    let program = quoted(&path);
                    denied.get_or_insert(ProgramError::NotExecutable { program, reason });
                }
            }
        }
    }
    Err(denied.unwrap_or_else(|| ProgramError::NotFound { program: quoted(typed), place: " in PATH" }))
}

enum Unusable {
    Missing,
    Denied(String),
}

fn executable(path: &Path) -> Result<(), Unusable> {
    let metadata = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Unusable::Missing,
        _ => Unusable::Denied(error.to_string()),
    })?;
    if metadata.is_dir() {
        return Err(Unusable::Denied(String::from("it is a directory")));
    }
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|_| Unusable::Denied(String::from("no execute permission; chmod +x, or name its interpreter first")))
}

fn inspect(path: &Path, identity: Identity, interpreters_left: usize) -> Result<ProgramKind, ProgramError> {
    let refused = |refusal| ProgramError::Refused { program: quoted(path), refusal };
    // What cannot be read may still be run; the kernel has the last word.
    let Ok(mut file) = File::open(path) else { return Ok(ProgramKind::Executable) };
    let mut start = Vec::new();
    if file.by_ref().take(SHEBANG_BYTES).read_to_end(&mut start).is_err() {
        return Ok(ProgramKind::Executable);
    }
    if let Some(interpreter) = interpreter_of(&start) {
        // The kernel ignores privilege bits of scripts: only the interpreter's count.
        if interpreters_left > 0 {
            executable(&interpreter).map_err(|_| ProgramError::NotExecutable {
                program: quoted(path),
                reason: format!("its interpreter {} cannot be executed", quoted(&interpreter)),
            })?;
            inspect(&interpreter, identity, interpreters_left - 1)?;
        }
        return Ok(ProgramKind::Executable);
    }
    if let Ok(metadata) = file.metadata()
        && let Some(refusal) = privileges_change(&Privileges::of(path, &metadata), identity)
    {
        return Err(refused(refusal));
    }
    if !start.starts_with(b"\x7fELF") {
        // A NUL byte tells another machine's or format's binary from text; the shell makes the same guess.
        let text = !start.contains(&0);
        return Ok(if text { ProgramKind::ShellText } else { ProgramKind::Executable });
    }
    match elf_refusal(file) {
        Some(refusal) => Err(refused(refusal)),
        None => Ok(ProgramKind::Executable),
    }
}

/// Why a running program cannot hold the recording library, by its executable alone.
pub fn refusal_of(executable: &Path, identity: Identity) -> Option<Refusal> {
    let file = File::open(executable).ok()?;
    let metadata = file.metadata().ok()?;
    privileges_change(&Privileges::of(executable, &metadata), identity).or_else(|| elf_refusal(file))
}

fn interpreter_of(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    (!interpreter.is_empty()).then(|| PathBuf::from(OsString::from_vec(interpreter.to_vec())))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Privileges {
    pub mode: u32,
    pub owner: u32,
    pub group: u32,
    pub capabilities: bool,
}

impl Privileges {
    fn of(path: &Path, metadata: &Metadata) -> Self {
        // Large enough for every revision of the attribute; an error means that there is none, or none that counts.
        let mut attribute = [0u8; 64];
        let size = rustix::fs::getxattr(path, "security.capability", &mut attribute);
        let capabilities = size.is_ok_and(|size| size > 0);
        Self { mode: metadata.mode(), owner: metadata.uid(), group: metadata.gid(), capabilities }
    }
}

/// Whether the kernel would run the program with other rights than ours, which makes the loader ignore our library.
pub fn privileges_change(program: &Privileges, identity: Identity) -> Option<Refusal> {
    if program.mode & SET_UID != 0 && program.owner != identity.uid {
        return Some(Refusal::SetUid { owner: program.owner });
    }
    // Without the group's execute bit, set-gid marks a file for mandatory locking.
    if program.mode & SET_GID_AND_EXECUTE == SET_GID_AND_EXECUTE && program.group != identity.gid {
        return Some(Refusal::SetGid { group: program.group });
    }
    // Root has all capabilities before and after: nothing is gained.
    (program.capabilities && identity.uid != 0).then_some(Refusal::Capabilities)
}

/// `None` also for a damaged file: executing it gives the right message.
fn elf_refusal(file: File) -> Option<Refusal> {
    // Headers only: programs of gigabytes exist.
    let data = ReadCache::new(file);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => return Some(Refusal::Bits32),
        FileKind::Elf64 => {}
        _ => return None,
    }
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    if let Some(interpreter) = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP) {
        let name = interpreter.data(endian, &data).unwrap_or_default();
        if name.windows(MUSL.len()).any(|window| window == MUSL) {
            return Some(Refusal::Musl);
        }
        return None;
    }
    // The loader itself can be started as a program (`ld.so prog`), has no interpreter and honours LD_PRELOAD; unlike a
    // static program it has a shared-object name.
    let named = segments
        .iter()
        .filter_map(|segment| segment.dynamic(endian, &data).ok().flatten())
        .flatten()
        .any(|entry| entry.d_tag(endian) == DT_SONAME);
    (!named).then_some(Refusal::Static)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const USER: Identity = Identity { uid: 1000, gid: 1000 };
    const ROOT: Identity = Identity { uid: 0, gid: 0 };

    #[test]
    fn only_programs_that_gain_rights_are_refused() {
        let plain = Privileges { mode: 0o100_755, owner: 0, group: 0, capabilities: false };
        let set_uid = Privileges { mode: 0o104_755, ..plain };
        let set_gid = Privileges { mode: 0o102_755, ..plain };
        let locking = Privileges { mode: 0o102_745, ..plain };
        let capable = Privileges { capabilities: true, ..plain };
        for (program, identity, expected) in [
            (plain, USER, None),
            (set_uid, USER, Some(Refusal::SetUid { owner: 0 })),
            (set_uid, ROOT, None),
            (Privileges { owner: 1000, ..set_uid }, USER, None),
            (Privileges { owner: 1000, ..set_uid }, ROOT, Some(Refusal::SetUid { owner: 1000 })),
            (set_gid, USER, Some(Refusal::SetGid { group: 0 })),
            (set_gid, ROOT, None),
            (locking, USER, None),
            (capable, USER, Some(Refusal::Capabilities)),
            (capable, ROOT, None),
        ] {
            assert_eq!(privileges_change(&program, identity), expected, "{program:?} {identity:?}");
        }
    }

    #[test]
    fn the_interpreter_is_the_first_word_of_the_shebang() {
        for (start, interpreter) in [
            (&b"#!/bin/sh\necho"[..], Some("/bin/sh")),
            (b"#! /usr/bin/env python3\n", Some("/usr/bin/env")),
            (b"#!/bin/bash\t-e\n", Some("/bin/bash")),
            (b"#!\n", None),
            (b"echo hello\n", None),
        ] {
            assert_eq!(interpreter_of(start), interpreter.map(PathBuf::from), "{start:?}");
        }
    }

    fn file(directory: &Path, name: &str, contents: &[u8], mode: u32) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_search_goes_on_past_what_cannot_be_executed() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(first.path(), "tool", b"#!/bin/sh\n", 0o644);
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        let denied = Program::find(OsStr::new("tool"), Some(&path), USER).unwrap_err();
        assert_eq!(denied.exit_code(), 126);
        let good = file(second.path(), "tool", b"#!/bin/sh\n", 0o755);
        assert_eq!(Program::find(OsStr::new("tool"), Some(&path), USER).unwrap().path, good);
        let missing = Program::find(OsStr::new("other"), Some(&path), USER).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
    }

    #[test]
    fn text_without_a_shebang_goes_to_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let script = file(directory.path(), "script", b"exit 3\n", 0o755);
        assert_eq!(Program::find(script.as_os_str(), None, USER).unwrap().kind, ProgramKind::ShellText);
    }

    #[test]
    fn a_missing_interpreter_is_noticed_before_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let script = file(directory.path(), "script", b"#!/nowhere/python\n", 0o755);
        let error = Program::find(script.as_os_str(), None, USER).unwrap_err();
        assert_eq!(error.exit_code(), 126);
        assert!(error.to_string().contains("'/nowhere/python'"), "{error}");
    }

    #[test]
    fn a_32_bit_program_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        // Identification of a little-endian ELFCLASS32 file; nothing after it is looked at.
        let mut contents = vec![0u8; 64];
        contents[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        let program = file(directory.path(), "old", &contents, 0o755);
        let error = Program::find(program.as_os_str(), None, USER).unwrap_err();
        assert!(matches!(error, ProgramError::Refused { refusal: Refusal::Bits32, .. }), "{error}");
    }

    /// Needs the right to set capabilities and a file system that keeps them.
    #[test]
    fn file_capabilities_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("capable");
        std::fs::copy("/bin/true", &program).unwrap();
        assert!(Program::find(program.as_os_str(), None, USER).is_ok());
        let given = std::process::Command::new("setcap").arg("cap_net_raw+ep").arg(&program).output();
        if given.is_ok_and(|output| output.status.success()) {
            let error = Program::find(program.as_os_str(), None, USER).unwrap_err();
            assert!(matches!(error, ProgramError::Refused { refusal: Refusal::Capabilities, .. }), "{error}");
        }
    }

    #[test]
    fn the_shell_and_the_loader_itself_are_accepted() {
        assert!(Program::find(OsStr::new("sh"), None, USER).is_ok());
        for loader in ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"] {
            if Path::new(loader).exists() {
                assert!(Program::find(OsStr::new(loader), None, USER).is_ok(), "{loader}");
            }
        }
    }

    #[test]
    fn a_directory_and_an_empty_name_are_no_programs() {
        assert_eq!(Program::find(OsStr::new("/tmp"), None, USER).unwrap_err().exit_code(), 126);
        assert_eq!(Program::find(OsStr::new(""), None, USER).unwrap_err().exit_code(), 127);
    }
}
