//! The processes of the run, looked at from outside: which of them cannot be recorded, and why.
//!
//! Only what is certain is noted: a program into which no library of ours can be loaded, or an environment without it. A
//! process that merely has no recording may have had nothing to record.
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::unrecorded::{Unrecorded, UnrecordedLog};
use super::{Family, knows, note};
use crate::environment;
use crate::libraries::RECORDER;
use crate::program::{self, Identity};

#[derive(Debug)]
pub(super) struct Descendants {
    root: u32,
    /// A child is the command itself until it begins its program.
    own_executable: Option<PathBuf>,
    identity: Identity,
    /// Alive at the last look.
    family: HashMap<u32, Member>,
    strangers: HashSet<u32>,
    /// What is known of programs.
    programs: HashMap<PathBuf, Option<String>>,
}

/// What was seen of a process.
#[derive(Debug, Default)]
struct Member {
    program: Option<PathBuf>,
    /// How often its environment is still to be looked at.
    looks: u8,
}

impl Descendants {
    pub(super) fn new(family: Family) -> Descendants {
        Descendants {
            root: match family {
                Family::Own => std::process::id(),
                Family::Of(pid) => pid,
            },
            own_executable: fs::read_link("/proc/self/exe").ok(),
            identity: Identity::own(),
            family: HashMap::new(),
            strangers: HashSet::new(),
            programs: HashMap::new(),
        }
    }

    /// One look at all processes there are; each costs a name in a listing.
    pub(super) fn look(&mut self) {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let alive: HashSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        self.family.retain(|pid, _| alive.contains(pid));
        self.strangers.retain(|pid| alive.contains(pid));
        let fresh = alive.iter().filter(|pid| !self.family.contains_key(pid) && !self.strangers.contains(pid));
        let mut fresh: Vec<(u32, u32)> = fresh.filter_map(|pid| Some((*pid, parent_of(*pid)?))).collect();
        // Numbers begin again at some time, so a child may be listed before its parent.
        loop {
            let before = fresh.len();
            fresh.retain(|(pid, parent)| {
                let ours = *parent == self.root || self.family.contains_key(parent);
                if ours {
                    self.family.insert(*pid, Member::default());
                }
                !ours
            });
            if fresh.len() == before {
                break;
            }
        }
        self.strangers.extend(fresh.iter().map(|(pid, _)| *pid));
    }

    /// Those alive at the last look, and who they descend from if that is not the keeper.
    pub(super) fn alive(&self) -> HashSet<u32> {
        let root = Some(self.root).filter(|root| *root != std::process::id());
        self.family.keys().copied().chain(root).collect()
    }

    /// Notes those that cannot be recorded. Each costs a link, and when it is new a little more.
    pub(super) fn note_unrecorded(&mut self, log: &Mutex<UnrecordedLog>) {
        for (pid, member) in &mut self.family {
            let seen = look_at(*pid, member, self.own_executable.as_deref(), self.identity, &mut self.programs);
            match seen {
                Some(Seen::Unrecorded(process)) => note(log, process),
                Some(Seen::WithoutUs(process)) if !knows(log, *pid) => note(log, process),
                Some(Seen::WithoutUs(_)) | None => {}
            }
        }
    }
}

/// What a look at a process found.
enum Seen {
    /// It cannot be recorded.
    Unrecorded(Unrecorded),
    /// It is without our libraries, which it may have said itself.
    WithoutUs(Unrecorded),
}

fn look_at(
    pid: u32,
    member: &mut Member,
    own_executable: Option<&Path>,
    identity: Identity,
    programs: &mut HashMap<PathBuf, Option<String>>,
) -> Option<Seen> {
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let user = || fs::metadata(format!("/proc/{pid}")).map_or(u32::MAX, |metadata| metadata.uid());
    let program = match fs::read_link(&link) {
        Ok(program) => program,
        // The kernel hides programs that gained rights.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && member.program.is_none() => {
            member.program = Some(PathBuf::new());
            let effective = effective_user(pid)?;
            return (effective != identity.uid).then(|| {
                let reason = "it runs with the rights of another user, and the loader ignores LD_PRELOAD for programs \
                              that gain rights (set-uid, sudo, su)";
                Seen::Unrecorded(Unrecorded::of_process(pid, effective, reason.to_owned()))
            });
        }
        Err(_) => return None,
    };
    if Some(program.as_path()) == own_executable {
        return None;
    }
    if member.program.as_deref() != Some(&program) {
        let reason = programs
            .entry(program.clone())
            .or_insert_with(|| program::refusal_of(&link, identity).map(|refusal| refusal.to_string()))
            .clone();
        *member = Member { program: Some(program), looks: if reason.is_none() { 2 } else { 0 } };
        if let Some(reason) = reason {
            return Some(Seen::Unrecorded(Unrecorded::of_process(pid, user(), reason)));
        }
    }
    member.looks = match member.looks {
        0 => return None,
        looks => looks - 1,
    };
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let value_of = |name: &str| {
        bytes.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let has_settings = value_of(environment::RECORD).is_some();
    let names_recorder = |preload: &[u8]| preload.windows(RECORDER.len()).any(|window| window == RECORDER.as_bytes());
    if has_settings && value_of(environment::PRELOAD).is_some_and(names_recorder) {
        member.looks = 0;
        return None;
    }
    // An image that is just being made has no environment yet, nor libraries: the second look decides.
    if member.looks > 0 {
        return None;
    }
    // Programs that set their title write it over their environment; then the library is there all the same.
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    if maps.is_empty() || maps.windows(RECORDER.len()).any(|window| window == RECORDER.as_bytes()) {
        return None;
    }
    let reason = if has_settings {
        "LD_PRELOAD does not name the recording library any more: it was begun by the program so, or by a process that \
         could not load the library either"
    } else {
        "its environment was cleared on the way (sudo, su, env -i, a container), and the recording library with it"
    };
    Some(Seen::WithoutUs(Unrecorded::of_process(pid, user(), reason.to_owned())))
}

/// The fourth field of `stat`; the second may hold anything, but ends with the last parenthesis.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[after..]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn effective_user(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}
