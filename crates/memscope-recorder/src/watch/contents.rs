//! `watch.spool`: the bytes of watched blocks, where they are kept.
use super::bytes::{Buffer, each_piece};
use super::table::Place;
use super::{Memory, Unread};
use crate::files::SpoolFile;
use crate::forks::Which;
use crate::process::{self, Process};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use memscope_format::layout::{EVENTS_FILE, seal};
use memscope_format::watch::{CONTENTS_FILE, Checksum, PieceHeader, WatchTrouble};
use memscope_sys::{self as sys, Errno, Part};

/// Zeroed memory is one that is not there yet.
pub(crate) struct ContentsFile {
    /// One of the below.
    state: AtomicU32,
    file: UnsafeCell<SpoolFile>,
    contents: AtomicU64,
    bytes: AtomicU64,
    closed: AtomicBool,
}

const NEW: u32 = 0;
const MAKING: u32 = 1;
const THERE: u32 = 2;
const FAILED: u32 = 3;

/// So much is left to others.
const LEFT_FREE: u64 = 256 << 20;

impl ContentsFile {
    /// Whether bytes are not kept any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// `true` for the one thread that closed it.
    pub(super) fn close(&self) -> bool {
        !self.closed.swap(true, AcqRel)
    }

    /// Keeps what the block holds now. Its checksum may be another than the one that was found: then that of the kept bytes counts.
    pub(super) fn append(
        &self,
        process: &Process,
        place: &Place,
        memory: &impl Memory,
        buffer: &mut Buffer<'_>,
        checksum: u64,
    ) -> Result<(u64, u64), (WatchTrouble, u64)> {
        let size = place.size();
        let most = process::watch_spec().map_or(0, |spec| spec.max_bytes);
        if self.bytes.fetch_add(size, AcqRel).saturating_add(size) > most {
            return Err((WatchTrouble::Budget, most));
        }
        let file = self.file(process).map_err(|error| (WatchTrouble::NoFile, error.0 as u64))?;
        let free = sys::file_system(file.path.as_c_str()).map_or(u64::MAX, |system| system.free_bytes);
        if free < size.saturating_add(LEFT_FREE) {
            return Err((WatchTrouble::DiskFull, Errno::ENOSPC.0 as u64));
        }
        let content = self.contents.fetch_add(1, Relaxed) + 1;
        let (watch, mut kept) = (place.watch(), Checksum::new());
        let mut failed = None;
        let written = each_piece(place, memory, buffer, &mut |offset, buffer, length| {
            kept.update(buffer.piece(length));
            let header = PieceHeader { watch, content, offset, length: length as u64, total: size };
            write(process, file, buffer, &header).map_err(|error| {
                failed = Some(error);
                Unread::NoMemory
            })
        });
        match (written, failed) {
            (Ok(()), _) => Ok((kept.value(), content)),
            (Err(_), Some(error)) => Err((WatchTrouble::DiskFull, error.0 as u64)),
            // It could be read a moment ago; the next look tells what has become of it.
            (Err(_), None) => Ok((checksum, 0)),
        }
    }

    /// The file, made by whoever needs it first.
    fn file(&self, process: &Process) -> Result<&SpoolFile, Errno> {
        const PATIENCE_NS: u64 = 100_000_000;
        if self.state.compare_exchange(NEW, MAKING, AcqRel, Acquire).is_ok() {
            // SAFETY: the exchange made it ours alone until the state is another.
            let made = make(process, unsafe { &mut *self.file.get() });
            self.state.store(if made.is_ok() { THERE } else { FAILED }, Release);
            sys::wake_all(&self.state);
            made?;
        }
        sys::wait_while(&self.state, MAKING, PATIENCE_NS);
        match self.state.load(Acquire) {
            // SAFETY: made, and nobody changes it but through atomics from now on.
            THERE => Ok(unsafe { &*self.file.get() }),
            MAKING => Err(Errno::EAGAIN),
            _ => Err(Errno::ENOENT),
        }
    }
}

fn make(process: &Process, file: &mut SpoolFile) -> Result<(), Errno> {
    let events = &process.files().events.path;
    // Without a path the files are another's, who does not make this one.
    let directory = events.bytes().len().checked_sub(EVENTS_FILE.len()).filter(|length| *length > 0);
    file.path.copy_from(events);
    file.path.truncate(directory.ok_or(Errno::EPERM)?);
    file.path.push(CONTENTS_FILE.as_bytes());
    file.create(Which::Watch, sys::O_WRONLY | sys::O_APPEND)
}

/// Appends the piece in the buffer.
fn write(process: &Process, file: &SpoolFile, buffer: &mut Buffer<'_>, header: &PieceHeader) -> Result<(), Errno> {
    let length = header.length as usize;
    let mut sealed = header.encode();
    seal(&mut sealed, buffer.piece(length));
    *buffer.header() = sealed;
    let parts = [
        Part { data: buffer.header().as_ptr(), length: PieceHeader::SIZE },
        Part { data: buffer.piece(length).as_ptr(), length },
    ];
    // SAFETY: both parts are of the buffer, one behind the other, and nobody else uses it.
    unsafe { file.append(&parts, |stray| process.strayed(stray)) }
}
