//! The cells of a row as a record.
use super::attributes::Attributes;
use super::cells::{Cell, Column, RowCells};
use super::frames::{FrameTable, InnermostFrames, frame_number};
use super::note::{KeptTexts, keep_texts, note_of, number_of_range_end};
use super::record::{Record, Texts, What, device};
use crate::rows::{DeviceId, Event, EventType, NOT_APPLICABLE, key, value};
use memscope_model::{
    BlockId, Device, DriverTraits, NewBlock, OldBlock, Origin, OwnerId, Owners, PageSize, Pool, StackId, Stacks,
};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_128;

/// Why a row is no record.
#[derive(Debug)]
pub(crate) enum Refused {
    /// An event of a kind this version knows nothing of.
    Unknown,
    /// Of a process that was not asked for.
    OtherProcess,
    Malformed(Cow<'static, str>),
}

fn malformed(why: &'static str) -> Refused {
    Refused::Malformed(Cow::Borrowed(why))
}

fn malformed_cell(what: &str, cell: Cell<'_>) -> Refused {
    let mut text = cell.text().into_owned();
    if text.chars().count() > 40 {
        text = text.chars().take(40).chain(['…']).collect();
    }
    Refused::Malformed(Cow::Owned(format!("{what}: {text:?}")))
}

/// What rows refer to and share.
#[derive(Debug, Default)]
pub(crate) struct RowReader {
    pub(crate) owners: Owners,
    pub(crate) stacks: Stacks,
    /// Only rows of this process, if one is named.
    process: Option<u32>,
    /// Rows whose stack is not in the table of stacks, or not all of it.
    pub(crate) missing_stacks: u64,
    /// Ends of ranges say the text of their start: then a number in one is of a range that was not seen.
    pub(crate) ranges_end_by_text: bool,
    /// Stacks by a hash of their cells, which are long and come again and again.
    inline_stacks: FxHashMap<u128, StackId>,
    dimensions: Vec<i64>,
}

/// What is the same in all rows of a file.
#[derive(Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) number: u16,
    pub(crate) frames: FrameTable,
    pub(crate) quoted_texts: bool,
}

impl RowReader {
    pub(crate) fn new(process: Option<u32>) -> RowReader {
        RowReader { process, ..RowReader::default() }
    }

    /// `sequence` counts the rows of a file that gives them no numbers. The texts of a note replace what is in `texts`.
    pub(crate) fn read(
        &mut self,
        cells: &RowCells<'_>,
        file: &mut FileFacts,
        sequence: u64,
        texts: &mut Vec<u8>,
    ) -> Result<Record, Refused> {
        texts.clear();
        if let Some(process) = self.process
            && cells.get(Column::Process).number() != Some(u64::from(process))
        {
            return Err(Refused::OtherProcess);
        }
        let (event, event_type) = event_of(cells)?;
        let time = cells.time().ok_or_else(|| malformed_cell("no time", cells.get(Column::Time)))?;
        let id = match cells.get(Column::Id) {
            Cell::Nothing => sequence,
            cell => cell.number().ok_or_else(|| malformed_cell("no number of a row", cell))?,
        };
        let thread = match cells.get(Column::Thread) {
            cell if cell.is_empty() => 0,
            cell => small(cell).ok_or_else(|| malformed_cell("no number of a thread", cell))?,
        };
        let device = device_of(cells.get(Column::Device))?;
        let attributes = cells.get(Column::Attributes).bytes();
        let attributes = Attributes::parse(&attributes)
            .ok_or_else(|| malformed_cell("no attributes", cells.get(Column::Attributes)))?;
        let pointer = match cells.get(Column::Pointer) {
            cell if cell.is_empty() => None,
            cell => Some(cell.number().ok_or_else(|| malformed_cell("no address", cell))?),
        };
        let what = match event {
            Event::Malloc | Event::Free => {
                let pool = pool_of(event_type, device, &attributes).ok_or(Refused::Unknown)?;
                self.memory(event, pool, device, pointer, cells, &attributes)?
            }
            _ => {
                let name = cells.get(Column::Name);
                let name = name_of(name.text(), event, file.quoted_texts);
                if event_type == EventType::RANGE_END
                    && name.as_deref().is_some_and(|name| number_of_range_end(name).is_none())
                {
                    self.ranges_end_by_text = true;
                }
                keep_texts(texts, name.as_deref(), &attributes);
                let kept = KeptTexts::of(texts).ok_or_else(|| malformed("its texts are too long"))?;
                note_of(event, event_type, pointer, &kept, &mut self.dimensions)?;
                What::Note { event, event_type, pointer, texts: Texts::default() }
            }
        };
        let stack = self.stack(cells.get(Column::PythonStack), cells.get(Column::CStack), file);
        Ok(Record { time, id, thread, stack, device, file: file.number, what })
    }

    fn memory(
        &mut self,
        event: Event,
        pool: Pool,
        device: Device,
        pointer: Option<u64>,
        cells: &RowCells<'_>,
        attributes: &Attributes<'_>,
    ) -> Result<What, Refused> {
        let number = |key| attributes.number(key).map_err(|why| Refused::Malformed(Cow::Owned(why)));
        let id = number(key::ALLOCATION_ID)?.map(BlockId);
        let Some(address) = pointer.or(number(key::ADDRESS)?) else { return Err(malformed("a block without address")) };
        let synthetic = attributes.is(key::SHADOW, value::TRUE);
        let reserved = match pool {
            // There it is what is in use.
            Pool::Host | Pool::Pinned => None,
            _ => number(key::TOTAL)?.or_else(|| cells.get(Column::Reserved).number()),
        };
        // More than any consumer's signed integer holds never was in any program.
        if reserved.is_some_and(|bytes| i64::try_from(bytes).is_err()) {
            return Err(malformed("more reserved memory than an address space holds"));
        }
        if event == Event::Free {
            return Ok(What::Free { block: OldBlock { id, device, pool, address, synthetic }, reserved });
        }
        let Some(size) = number(key::SIZE)?.or_else(|| cells.get(Column::Size).number()) else {
            return Err(malformed("an allocation without size"));
        };
        let owner = match attributes.text(key::OWNER) {
            Some(owner) if !owner.is_empty() => self.owners.intern(&owner),
            _ => self.owner_of_pool(pool),
        };
        let origin = self.origin_of(pool, owner, attributes);
        let block = NewBlock { id, device, pool, origin, address, size, owner, synthetic };
        Ok(What::Malloc { block, reserved })
    }

    /// Pools own what they hand out, whether the file says so or not.
    fn owner_of_pool(&self, pool: Pool) -> OwnerId {
        match pool {
            Pool::Host | Pool::Pinned | Pool::Hal => OwnerId::NONE,
            pool => self.owners.find(pool.event_type()).unwrap_or(OwnerId::NONE),
        }
    }

    fn origin_of(&self, pool: Pool, owner: OwnerId, attributes: &Attributes<'_>) -> Origin {
        match pool {
            Pool::Host if attributes.is(key::ALLOC_TYPE, value::MAPPED) => Origin::Mapping,
            Pool::Host => Origin::Heap,
            Pool::Pinned => Origin::Registered,
            Pool::Hal => {
                let page = match attributes.get(key::PAGE_TYPE) {
                    Some(page) if page == value::HUGE_PAGES.as_bytes() => PageSize::Huge,
                    Some(page) if page == value::GIANT_PAGES.as_bytes() => PageSize::Giant,
                    _ => PageSize::Normal,
                };
                let traits = DriverTraits { module: self.module_of(owner), page };
                match attributes.is(key::ALLOC_TYPE, value::CREATED_BY_DRIVER) {
                    true => Origin::DriverHandle(traits),
                    false => Origin::Driver(traits),
                }
            }
            _ => Origin::Region,
        }
    }

    /// The module is the first two levels of the owner: labels may follow.
    fn module_of(&self, owner: OwnerId) -> u8 {
        let module = owner.module().or_else(|| {
            let name = self.owners.name(owner)?;
            let end = name.match_indices('@').nth(1).map_or(name.len(), |(at, _)| at);
            self.owners.find(&name[..end])?.module()
        });
        module.unwrap_or(u8::MAX)
    }

    fn stack(&mut self, python: Cell<'_>, c: Cell<'_>, file: &mut FileFacts) -> StackId {
        let (Cell::Text(python), Cell::Text(c)) = (python, c) else {
            return match (python, c) {
                (Cell::Text(_), _) => self.stack(python, Cell::Text(b""), file),
                (_, Cell::Text(_)) => self.stack(Cell::Text(b""), c, file),
                _ => StackId::NONE,
            };
        };
        if python.is_empty() && c.is_empty() {
            return StackId::NONE;
        }
        let (python, c) = (frames_of(python), frames_of(c));
        let (of_python, of_c) = (frame_number(python), frame_number(c));
        if of_python.is_some() || of_c.is_some() {
            let innermost = InnermostFrames { python: of_python.unwrap_or(0), c: of_c.unwrap_or(0) };
            return file.frames.stack(innermost, &mut self.stacks).unwrap_or_else(|| {
                self.missing_stacks += 1;
                StackId::NONE
            });
        }
        let key = xxh3_128(python) ^ xxh3_128(c).rotate_left(1);
        if let Some(known) = self.inline_stacks.get(&key) {
            return *known;
        }
        let stack = self.intern(python, c);
        self.inline_stacks.insert(key, stack);
        stack
    }

    fn intern(&mut self, python: &[u8], c: &[u8]) -> StackId {
        let (python, c) = (String::from_utf8_lossy(python), String::from_utf8_lossy(c));
        self.stacks.intern_texts(lines(&c), lines(&python))
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}

/// A cell of frames without what stands for none, and without the quotes that the existing tool leaves in databases.
fn frames_of(cell: &[u8]) -> &[u8] {
    let cell = cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell);
    if cell == b"NA" || cell == NOT_APPLICABLE.as_bytes() { b"" } else { cell }
}

fn event_of(cells: &RowCells<'_>) -> Result<(Event, EventType), Refused> {
    let (event, event_type) = (cells.get(Column::Event), cells.get(Column::EventType));
    let (Cell::Text(first), Cell::Text(second)) = (event, event_type) else {
        return Err(malformed("no event"));
    };
    let (Ok(first), Ok(second)) = (str::from_utf8(first), str::from_utf8(second)) else {
        return Err(malformed_cell("no event", event));
    };
    if first.is_empty() || second.is_empty() {
        return Err(malformed("no event"));
    }
    let known = Event::from_text(first).zip(EventType::from_text(second));
    // Words of events that the existing tool has and this version does not, or that are yet to come.
    known.ok_or_else(|| {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_ ".contains(&byte));
        if is_word(first) && is_word(second) { Refused::Unknown } else { malformed_cell("no event", event) }
    })
}

fn pool_of(event_type: EventType, device: Device, attributes: &Attributes<'_>) -> Option<Pool> {
    Some(match event_type.pool()? {
        Pool::Host if attributes.is(key::PINNED, value::TRUE) => Pool::Pinned,
        // The driver's memory of the host.
        Pool::Hal if device == Device::Cpu => Pool::Pinned,
        // The existing tool of today counts workspaces to the caching pool, and says whose they are.
        Pool::PtaCaching if attributes.get(key::OWNER).is_some_and(is_workspace) => Pool::PtaWorkspace,
        pool => pool,
    })
}

fn is_workspace(owner: &[u8]) -> bool {
    let name = Pool::PtaWorkspace.event_type().as_bytes();
    owner.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest[0] == b'@')
}

fn device_of(cell: Cell<'_>) -> Result<Device, Refused> {
    let id = match cell {
        Cell::Nothing => Some(DeviceId::Unknown),
        Cell::Integer(number) => u32::try_from(number).ok().map(DeviceId::Npu),
        Cell::Text(text) => str::from_utf8(text).ok().and_then(DeviceId::from_text),
    };
    id.and_then(device).ok_or_else(|| malformed_cell("no device", cell))
}

fn small(cell: Cell<'_>) -> Option<u32> {
    cell.number()?.try_into().ok()
}

fn name_of(name: Cow<'_, str>, event: Event, quoted: bool) -> Option<Cow<'_, str>> {
    if event != Event::Mstx {
        return (name != NOT_APPLICABLE).then_some(name);
    }
    let inside = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).filter(|_| quoted);
    Some(match inside {
        Some(inside) => Cow::Owned(inside.to_owned()),
        None => name,
    })
}
