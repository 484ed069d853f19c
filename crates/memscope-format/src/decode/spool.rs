//! The index of a spool: which generation of which lane lies where.
use super::process::HeaderError;
use super::{Damage, ProcessInfo, SpoolError, Timeline, u32_at, u64_at};
use crate::layout::{
    self, EVENTS_FILE, LARGEST_WINDOW, PROCESS_HEADER_SIZE, WINDOW_HEADER_SIZE, WINDOW_MAGIC, WINDOW_PAGE,
    WINDOWS_FILE, WindowHeader, window_bytes,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A spool directory, opened and indexed. Payloads are read when a [`super::LaneCursor`] comes to them.
#[derive(Debug)]
pub struct Spool {
    windows_path: PathBuf,
    windows: File,
    events_path: PathBuf,
    /// A process that never filled a window may have died before this file was made.
    events: Option<File>,
    process: ProcessInfo,
    lanes: BTreeMap<u32, Lane>,
    /// How far `events.spool` has been indexed, and how long it was then: a live writer may have appended to it since.
    indexed: u64,
    events_length: u64,
    damage: Vec<Damage>,
}

/// The generations of one lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) blocks: BTreeMap<u32, SpoolBlock>,
    /// The generation that is, or was at the end, in the window.
    pub(super) window: Option<SpoolBlock>,
}

/// One generation of a lane: where it is and what its header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpoolBlock {
    pub(super) location: BlockLocation,
    /// Of the window it is or was in.
    size: u32,
    lane: u32,
    pub(super) generation: u32,
    pub(super) committed: usize,
    pub(super) thread: u32,
    pub(super) base_ticks: u64,
    pub(super) base_monotonic_ns: u64,
    pub(super) lost: u64,
    pub(super) earlier_events: u64,
    pub(super) checksum: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockLocation {
    /// Offset of the header in `events.spool`.
    Events(u64),
    /// Offset of the header in `windows.spool`.
    Window(u64),
}

impl SpoolBlock {
    /// Reads a header; `None` if it cannot be one.
    fn parse(header: &[u8], location: BlockLocation) -> Option<SpoolBlock> {
        if u32_at(header, 0)? != WINDOW_MAGIC {
            return None;
        }
        let progress = u64_at(header, offset_of!(WindowHeader, progress))?;
        let committed = (progress & 0xffff_ffff) as usize;
        let size = u32_at(header, offset_of!(WindowHeader, size))?;
        if size > LARGEST_WINDOW || committed > window_bytes(size) - WINDOW_HEADER_SIZE {
            return None;
        }
        Some(SpoolBlock {
            location,
            size,
            lane: u32_at(header, offset_of!(WindowHeader, lane))?,
            generation: (progress >> 32) as u32,
            committed,
            thread: u32_at(header, offset_of!(WindowHeader, thread))?,
            base_ticks: u64_at(header, offset_of!(WindowHeader, base_ticks))?,
            base_monotonic_ns: u64_at(header, offset_of!(WindowHeader, base_monotonic_ns))?,
            lost: u64_at(header, offset_of!(WindowHeader, lost))?,
            earlier_events: u64_at(header, offset_of!(WindowHeader, earlier_events))?,
            checksum: u64_at(header, offset_of!(WindowHeader, checksum))?,
        })
    }
}

impl Spool {
    /// Opens the spool in `directory` (the one that holds `windows.spool`).
    pub fn open(directory: &Path) -> Result<Spool, SpoolError> {
        let windows_path = directory.join(WINDOWS_FILE);
        let events_path = directory.join(EVENTS_FILE);
        let windows = File::open(&windows_path).map_err(|source| match std::fs::read_link(&windows_path) {
            Ok(target) => SpoolError::Elsewhere { path: windows_path.clone(), target },
            Err(_) => io_error(&windows_path, source),
        })?;
        let process = read_process(&windows, &windows_path)?;
        let mut spool = Spool {
            windows_path,
            windows,
            events_path,
            events: None,
            process,
            lanes: BTreeMap::new(),
            indexed: 0,
            events_length: 0,
            damage: Vec::new(),
        };
        spool.index()?;
        spool.note_missing();
        Ok(spool)
    }

    /// Takes in what was recorded since; cursors go on where they stood.
    pub fn refresh(&mut self) -> Result<(), SpoolError> {
        self.process = read_process(&self.windows, &self.windows_path)?;
        self.index()
    }

    pub fn process(&self) -> &ProcessInfo {
        &self.process
    }

    /// The numbers of the lanes, ascending.
    pub fn lanes(&self) -> impl Iterator<Item = u32> + '_ {
        self.lanes.keys().copied()
    }

    /// What could not be indexed; a cursor reports what it meets itself.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Events the process could not record, as it counted them itself.
    pub fn lost_events(&self) -> u64 {
        let lanes = self.lanes.values().map(|lane| {
            let blocks = lane.blocks.values().chain(lane.window.as_ref()).map(|block| block.lost);
            blocks.max().unwrap_or(0)
        });
        lanes.fold(self.process.lost_without_window, u64::saturating_add)
    }

    /// Bytes of both files that hold records.
    pub fn recorded_bytes(&self) -> u64 {
        let windows = self.lanes.values().filter_map(|lane| {
            lane.window.filter(|window| !lane.blocks.contains_key(&window.generation)).map(|window| window.committed)
        });
        self.indexed + windows.sum::<usize>() as u64
    }

    /// The map from ticks to time through all calibrations known now.
    pub fn timeline(&self) -> Timeline {
        let blocks = self.lanes.values().flat_map(|lane| lane.blocks.values().chain(lane.window.as_ref()));
        let calibrations = blocks.map(|block| (block.base_ticks, block.base_monotonic_ns));
        Timeline::new(
            (self.process.start_ticks, self.process.start_monotonic_ns),
            self.process.start,
            calibrations.chain(self.process.calibration),
        )
    }

    pub(super) fn lane(&self, lane: u32) -> Option<&Lane> {
        self.lanes.get(&lane)
    }

    /// The committed payload of a spool block, as far as it was committed when it was indexed. `Ok(false)`: it does not match
    /// its checksum, or is neither in its window nor in `events.spool` any more.
    pub(super) fn payload(&self, block: &SpoolBlock, buffer: &mut Vec<u8>) -> Result<bool, SpoolError> {
        buffer.resize(WINDOW_HEADER_SIZE + block.committed, 0);
        match block.location {
            BlockLocation::Events(offset) => {
                let Some(events) = &self.events else { return Ok(false) };
                read_exact(events, &self.events_path, buffer, offset)?;
                if !intact(buffer, block.checksum) {
                    return Ok(false);
                }
            }
            BlockLocation::Window(offset) => {
                read_exact(&self.windows, &self.windows_path, buffer, offset)?;
                // A live writer may have moved on to the next generation, or to a larger window, while we copied.
                let mut header = [0u8; WINDOW_HEADER_SIZE];
                read_exact(&self.windows, &self.windows_path, &mut header, offset)?;
                let now = SpoolBlock::parse(&header, block.location).map(|now| (now.lane, now.generation));
                if now != Some((block.lane, block.generation)) && !self.appended_since(block, buffer)? {
                    return Ok(false);
                }
            }
        }
        buffer.drain(..WINDOW_HEADER_SIZE);
        Ok(true)
    }

    /// Header and payload of a generation that was in its window when it was indexed: a window is appended before it moves
    /// on. What was committed to it since is left out, as of all the others.
    fn appended_since(&self, block: &SpoolBlock, buffer: &mut Vec<u8>) -> Result<bool, SpoolError> {
        let path = &self.events_path;
        // It may have been made since.
        let events = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(io_error(path, source)),
        };
        let length = file_length(&events, path)?;
        let mut offset = self.indexed;
        while offset + WINDOW_HEADER_SIZE as u64 <= length {
            let mut header = [0u8; WINDOW_HEADER_SIZE];
            read_exact(&events, path, &mut header, offset)?;
            let found = SpoolBlock::parse(&header, BlockLocation::Events(offset));
            let end = found.map(|found| offset + (WINDOW_HEADER_SIZE + found.committed) as u64);
            let (Some(found), Some(end)) = (found, end.filter(|end| *end <= length)) else {
                let Some(next) = next_magic(&events, path, offset + 1, length)? else { break };
                offset = next;
                continue;
            };
            let is_wanted = (found.lane, found.generation) == (block.lane, block.generation);
            if is_wanted && found.committed >= block.committed {
                buffer.resize((end - offset) as usize, 0);
                read_exact(&events, path, buffer, offset)?;
                if intact(buffer, found.checksum) {
                    buffer.truncate(WINDOW_HEADER_SIZE + block.committed);
                    return Ok(true);
                }
            }
            offset = end;
        }
        Ok(false)
    }

    fn index(&mut self) -> Result<(), SpoolError> {
        // Windows first: a window that is full now and appended while we go on to the spool blocks is then in both, which
        // the generation resolves; the other way round it could be in neither.
        self.index_windows()?;
        if self.events.is_none() {
            match File::open(&self.events_path) {
                Ok(file) => self.events = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(io_error(&self.events_path, source)),
            }
        }
        if let Some(events) = self.events.take() {
            let indexed = self.index_events(&events);
            self.events = Some(events);
            indexed?;
        }
        Ok(())
    }

    /// Each window says how large it is, which leads to the next. A lane that moved to a larger window leaves its old
    /// one as it was, so of several windows of a lane the newest generation counts.
    fn index_windows(&mut self) -> Result<(), SpoolError> {
        let length = file_length(&self.windows, &self.windows_path)?;
        let pages = (length / WINDOW_PAGE as u64).saturating_sub(1).min(u64::from(self.process.window_pages));
        let mut page = 0;
        let mut damaged = false;
        while page < pages {
            let offset = PROCESS_HEADER_SIZE as u64 + page * WINDOW_PAGE as u64;
            let mut header = [0u8; WINDOW_HEADER_SIZE];
            read_exact(&self.windows, &self.windows_path, &mut header, offset)?;
            page += match SpoolBlock::parse(&header, BlockLocation::Window(offset)) {
                Some(block) => {
                    damaged = false;
                    let window = &mut self.lanes.entry(block.lane).or_default().window;
                    let newness = |block: &SpoolBlock| (block.generation, block.committed);
                    if window.is_none_or(|known| newness(&known) <= newness(&block)) {
                        *window = Some(block);
                    }
                    1 << block.size
                }
                // A window that just begins, or changes its lane, holds nothing. It keeps its size, 0 if it never had one.
                None if u32_at(&header, offset_of!(WindowHeader, magic)) == Some(0) => {
                    let size = u32_at(&header, offset_of!(WindowHeader, size)).unwrap_or(0);
                    1 << size.min(LARGEST_WINDOW)
                }
                None => {
                    // Its further pages look no better.
                    if !core::mem::replace(&mut damaged, true) {
                        self.note(Damage::Window { offset });
                    }
                    1
                }
            };
        }
        Ok(())
    }

    fn index_events(&mut self, events: &File) -> Result<(), SpoolError> {
        let path = self.events_path.clone();
        let length = file_length(events, &path)?;
        self.events_length = length;
        let mut gap: Option<u64> = None;
        while self.indexed + WINDOW_HEADER_SIZE as u64 <= length {
            let offset = self.indexed;
            let mut header = [0u8; WINDOW_HEADER_SIZE];
            read_exact(events, &path, &mut header, offset)?;
            let block = SpoolBlock::parse(&header, BlockLocation::Events(offset));
            let end = block.map(|block| offset + (WINDOW_HEADER_SIZE + block.committed) as u64);
            let plausible = match end {
                Some(end) if end <= length => {
                    begins_block(events, &path, end, length)? || {
                        // What follows is no spool block: only the checksum can tell whether this one's length is right.
                        let mut bytes = vec![0; (end - offset) as usize];
                        read_exact(events, &path, &mut bytes, offset)?;
                        block.is_some_and(|block| intact(&bytes, block.checksum))
                    }
                }
                _ => false,
            };
            match (block, end) {
                (Some(block), Some(end)) if plausible => {
                    self.close_gap(&mut gap, offset);
                    self.enter_block(events, block)?;
                    self.indexed = end;
                }
                _ => {
                    // A writer that is just now appending looks like a torn spool block at the end: leave it for later.
                    let Some(next) = next_magic(events, &path, offset + 1, length)? else { break };
                    gap.get_or_insert(offset);
                    self.indexed = next;
                }
            }
        }
        if let Some(start) = gap {
            // The damaged bytes reach to the end; the next refresh looks at them again from where the gap began.
            self.indexed = start;
        }
        Ok(())
    }

    /// Takes a spool block into the index. Two spool blocks of one generation cannot both be right: a header with a
    /// flipped bit says it is another one, and must not displace it. Unless they are the same: a program that jumped
    /// out of the append, from a signal handler, has appended the spool block again, perhaps with more events lost.
    fn enter_block(&mut self, events: &File, block: SpoolBlock) -> Result<(), SpoolError> {
        let blocks = &mut self.lanes.entry(block.lane).or_default().blocks;
        if let Some(known) = blocks.get(&block.generation) {
            let mut bytes = vec![0; WINDOW_HEADER_SIZE + known.committed];
            if let BlockLocation::Events(offset) = known.location {
                read_exact(events, &self.events_path, &mut bytes, offset)?;
            }
            if intact(&bytes, known.checksum) {
                let again = (block.committed, block.base_ticks, block.earlier_events)
                    == (known.committed, known.base_ticks, known.earlier_events);
                if let BlockLocation::Events(offset) = block.location
                    && !again
                {
                    self.note(Damage::Gap { offset, length: (WINDOW_HEADER_SIZE + block.committed) as u64 });
                }
                return Ok(());
            }
        }
        blocks.insert(block.generation, block);
        Ok(())
    }

    fn close_gap(&mut self, gap: &mut Option<u64>, end: u64) {
        if let Some(offset) = gap.take() {
            self.note(Damage::Gap { offset, length: end - offset });
        }
    }

    /// Whether the bytes at the end of `events.spool` are the beginning of a spool block whose window still holds all
    /// of it: a process that was killed, or found the disk full, while it appended. Nothing is missing then.
    fn tail_is_kept(&self, length: u64) -> bool {
        let rest = length - self.indexed;
        let mut header = [0u8; WINDOW_HEADER_SIZE];
        let kept = |lane: u32, generation: u32| {
            self.lanes.get(&lane).and_then(|lane| lane.window).is_some_and(|window| window.generation == generation)
        };
        match &self.events {
            // Too short to name its window: there is nothing in it but the header's own beginning.
            Some(_) if rest < WINDOW_HEADER_SIZE as u64 => true,
            Some(events) => {
                read_exact(events, &self.events_path, &mut header, self.indexed).is_ok()
                    && SpoolBlock::parse(&header, BlockLocation::Events(self.indexed)).is_some_and(|block| {
                        rest < (WINDOW_HEADER_SIZE + block.committed) as u64 && kept(block.lane, block.generation)
                    })
            }
            None => false,
        }
    }

    /// After the first indexing of a spool: what is in neither file, and bytes at the end that are no spool block.
    fn note_missing(&mut self) {
        let mut missing = Vec::new();
        for (number, lane) in &self.lanes {
            let mut expected = 1;
            let mut events_before = 0;
            for block in lane.blocks.values().chain(lane.window.as_ref()) {
                if block.generation > expected {
                    let events = block.earlier_events.checked_sub(events_before);
                    let (first, last) = (expected, block.generation - 1);
                    // Only a gap at the very front has its events counted from zero; elsewhere the spool block before the
                    // gap does not say how many it holds itself.
                    let events = events.filter(|_| first == 1);
                    missing.push(Damage::Missing { lane: *number, first, last, events });
                }
                expected = block.generation.saturating_add(1);
                events_before = block.earlier_events;
            }
        }
        for damage in missing {
            self.note(damage);
        }
        let length = self.events_length;
        if length > self.indexed && !self.tail_is_kept(length) {
            self.note(Damage::Gap { offset: self.indexed, length: length - self.indexed });
        }
    }

    fn note(&mut self, damage: Damage) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }
}

/// Whether the header and payload in `bytes` belong to the checksum.
fn intact(bytes: &[u8], checksum: u64) -> bool {
    let (Some(header), Some(payload)) = (bytes.first_chunk::<56>(), bytes.get(WINDOW_HEADER_SIZE..)) else {
        return false;
    };
    layout::checksum(header, payload) == checksum
}

/// Whether `offset` is the end of the file or the start of a spool block header.
fn begins_block(events: &File, path: &Path, offset: u64, length: u64) -> Result<bool, SpoolError> {
    if offset == length {
        return Ok(true);
    }
    if offset + 4 > length {
        return Ok(false);
    }
    let mut magic = [0u8; 4];
    read_exact(events, path, &mut magic, offset)?;
    Ok(u32::from_le_bytes(magic) == WINDOW_MAGIC)
}

/// The next offset at or after `from` where a spool block header may begin.
fn next_magic(events: &File, path: &Path, from: u64, length: u64) -> Result<Option<u64>, SpoolError> {
    const CHUNK: u64 = 1 << 20;
    let magic = WINDOW_MAGIC.to_le_bytes();
    let mut offset = from;
    let mut chunk = Vec::new();
    while offset + 4 <= length {
        let size = CHUNK.min(length - offset);
        chunk.resize(size as usize, 0);
        read_exact(events, path, &mut chunk, offset)?;
        if let Some(at) = chunk.windows(4).position(|four| four == magic) {
            return Ok(Some(offset + at as u64));
        }
        // The magic may lie across two chunks.
        offset += (size - 3).max(1);
    }
    Ok(None)
}

fn read_process(windows: &File, path: &Path) -> Result<ProcessInfo, SpoolError> {
    let mut page = [0u8; PROCESS_HEADER_SIZE];
    let not = |why| SpoolError::NotASpool { path: path.to_owned(), why };
    match windows.read_exact_at(&mut page, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(not("it is shorter than its header"));
        }
        Err(source) => return Err(io_error(path, source)),
    }
    ProcessInfo::parse(&page).map_err(|error| match error {
        HeaderError::Truncated => not("its header is cut short"),
        HeaderError::Magic => not("it does not begin with \"msmspool\""),
        HeaderError::Version(found) => SpoolError::Version { path: path.to_owned(), found },
        HeaderError::Sizes => not("its header and window sizes are not those of this format version"),
    })
}

fn read_exact(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<(), SpoolError> {
    file.read_exact_at(buffer, offset).map_err(|source| io_error(path, source))
}

fn file_length(file: &File, path: &Path) -> Result<u64, SpoolError> {
    Ok(file.metadata().map_err(|source| io_error(path, source))?.len())
}

fn io_error(path: &Path, source: io::Error) -> SpoolError {
    SpoolError::Io { path: path.to_owned(), source }
}
