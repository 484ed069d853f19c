//! Where the windows of a process are kept.
//!
//! A store into a mapped file cannot answer with an error: if the file system cannot get or keep the page (a server that
//! is gone, a disk that is full in spite of what was reserved), the program dies by SIGBUS. So windows are mapped only
//! from file systems that keep what they reserved on this machine. For an output on any other, they live on a local one,
//! the output has a link to them, and the command brings them home after the run. What is appended stays in the output:
//! `write` can fail.
use crate::config;
use crate::files::SpoolFile;
use crate::forks::Which;
use crate::path::Path;
use core::ffi::CStr;
use memscope_format::layout::WINDOWS_FILE;
use memscope_sys::{self as sys, Errno, FileSystem};

/// File systems (`f_type` of `statfs`) on local disks or in memory that write in place and keep what `fallocate` reserved.
///
/// Not among them: those of networks, clusters and hosts of virtual machines (NFS, SMB, Lustre, GPFS, BeeGFS, Ceph, 9p,
/// AFS, GFS2, OCFS2 …), those served by a process (FUSE), those that write every change to a new place and may find
/// none (btrfs, ZFS, bcachefs, F2FS, NILFS), and those nobody has thought of. A file of an overlay is one of the file
/// system below it, which does not tell its name: containers have it on one of these nearly always.
const KEEPING: [u64; 8] = [EXT, XFS, TMPFS, RAMFS, OVERLAY, JFS, REISERFS, MSDOS];

const EXT: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const OVERLAY: u64 = 0x794c_7630;
const JFS: u64 = 0x3153_464a;
const REISERFS: u64 = 0x5265_4973;
const MSDOS: u64 = 0x4d44;

/// Whether windows may be mapped from a file system of this type.
fn keeps_what_it_reserves(kind: u64) -> bool {
    // A signed word for some, on which the kernel extends the sign.
    KEEPING.contains(&(kind & 0xffff_ffff))
}

/// So much must be left where windows go: beyond it the program might miss it.
const ROOM_ON_DISK: u64 = 256 << 20;
/// Twice what the windows of a process can ever take: shared memory is what programs hand data around in.
const ROOM_IN_MEMORY: u64 = 4 << 30;

/// Whether windows go to the directory with this file system, if they cannot stay in the output.
fn is_suitable(place: &FileSystem) -> bool {
    let room = if place.kind & 0xffff_ffff == TMPFS { ROOM_IN_MEMORY } else { ROOM_ON_DISK };
    keeps_what_it_reserves(place.kind) && place.free_bytes >= room
}

/// No path of a window elsewhere is longer.
type Target = Path<512>;

/// Where a link leads if windows cannot be had anywhere. Readers show it.
const NOWHERE: &CStr = c"(nowhere: no local file system has room for them)";

/// Creates the windows file of the process whose spool directory is `spool`; it is the path of `windows`, too. `true`:
/// elsewhere, and a link in `spool` leads to it.
///
/// An error is, among others, an output that cannot hold them on a machine without a local file system that can: then
/// nothing is recorded, because what would be might cost the program its life.
pub(crate) fn create_windows(windows: &mut SpoolFile, spool: &Path, run_id: u64) -> Result<bool, Errno> {
    if sys::file_system(spool.as_c_str()).is_ok_and(|output| keeps_what_it_reserves(output.kind)) {
        windows.path.push(b"/").push(WINDOWS_FILE.as_bytes());
        windows.create(Which::Windows, sys::O_RDWR)?;
        return Ok(false);
    }
    let temporary = config::variable(b"TMPDIR=").unwrap_or_default();
    let places: [&[u8]; 4] = [b"/dev/shm", temporary, b"/tmp", b"/var/tmp"];
    for place in places.into_iter().filter(|place| place.first() == Some(&b'/')) {
        let mut target = Target::new();
        target.push(place);
        if !sys::file_system(target.as_c_str()).is_ok_and(|place| is_suitable(&place)) {
            continue;
        }
        target.push(b"/msmemscope_").push_number(u64::from(sys::geteuid()), 1).push(b"_").push_number(run_id, 1);
        target.push(b"_").push(process_name(spool.bytes())).push(b".windows");
        windows.path.clear();
        windows.path.push(target.as_c_str().to_bytes());
        // What is there already is not ours, and a link not to be followed.
        if windows.create(Which::Windows, sys::O_RDWR).is_err() {
            continue;
        }
        // Whoever brings the file home sees by the lock that it is in use; the mappings hold it.
        let linked = windows.descriptor().and_then(sys::lock);
        let linked = linked.and_then(|()| link(&mut windows.path, spool, target.as_c_str()));
        windows.path.clear();
        windows.path.push(target.bytes());
        if linked.is_err() {
            sys::unlink(target.as_c_str());
        }
        return linked.map(|()| true);
    }
    let _ = link(&mut windows.path, spool, NOWHERE);
    Err(Errno::EOPNOTSUPP)
}

/// Makes the link in `spool`; its path is built in `path`.
fn link(path: &mut Path, spool: &Path, target: &CStr) -> Result<(), Errno> {
    path.clear();
    sys::symlink(target, path.push(spool.bytes()).push(b"/").push(WINDOWS_FILE.as_bytes()).as_c_str())
}

/// The name of the process directory in the path of its spool directory: the last part but one.
fn process_name(spool: &[u8]) -> &[u8] {
    spool.rsplit(|byte| *byte == b'/').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_where_reserved_space_is_kept_and_nowhere_else() {
        for (name, kind, stays) in [
            ("ext4", 0xef53, true),
            ("xfs", 0x5846_5342, true),
            ("tmpfs", 0x0102_1994, true),
            ("overlay", 0x794c_7630, true),
            ("ramfs", 0x8584_58f6, true),
            ("ramfs, sign extended", 0xffff_ffff_8584_58f6, true),
            ("nfs", 0x6969, false),
            ("smb", 0x517b, false),
            ("cifs", 0xff53_4d42, false),
            ("cifs, sign extended", 0xffff_ffff_ff53_4d42, false),
            ("smb2", 0xfe53_4d42, false),
            ("lustre", 0x0bd0_0bd0, false),
            ("gpfs", 0x4750_4653, false),
            ("beegfs", 0x1983_0326, false),
            ("ceph", 0x00c3_6400, false),
            ("9p", 0x0102_1997, false),
            ("fuse", 0x6573_5546, false),
            ("afs", 0x5346_414f, false),
            ("gfs2", 0x0116_1970, false),
            ("ocfs2", 0x7461_636f, false),
            ("orangefs", 0x2003_0528, false),
            ("panfs", 0xaad7_aaea, false),
            ("vboxsf", 0x786f_4256, false),
            ("btrfs", 0x9123_683e, false),
            ("zfs", 0x2fc1_2fc1, false),
            ("bcachefs", 0xca45_1a4e, false),
            ("f2fs", 0xf2f5_2010, false),
            ("unknown", 0x1234_5678, false),
        ] {
            assert_eq!(keeps_what_it_reserves(kind), stays, "{name}");
        }
    }

    #[test]
    fn a_local_place_needs_room_and_shared_memory_much_of_it() {
        let place = |kind, free_bytes| is_suitable(&FileSystem { kind, free_bytes });
        assert!(place(EXT, 256 << 20) && !place(EXT, (256 << 20) - 1));
        assert!(place(TMPFS, 4 << 30) && !place(TMPFS, 64 << 20));
        assert!(!place(0x6969, u64::MAX));
    }

    #[test]
    fn a_process_is_named_by_its_directory() {
        assert_eq!(
            process_name(b"/out/msmemscope_1_20260101000000_ascend/spool"),
            b"msmemscope_1_20260101000000_ascend"
        );
        assert_eq!(process_name(b"spool"), b"");
    }
}
