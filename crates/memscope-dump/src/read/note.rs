//! Rows that are not about a block.
use super::attributes::Attributes;
use super::cells::number;
use super::row::Refused;
use crate::rows::{Event, EventType, NOT_APPLICABLE, RANGE_END_PREFIX, key, value};
use crate::tensor_words::{dimensions_of, format_code, torch_type_code, type_code};
use memscope_model::{
    Access, AccessMode, AtbOperator, DevAddr, KernelPhase, Name, NameId, NoteKind, Phase, Pool, RefusalList,
    RefusedCall, SnapshotMemory, StreamHandle, TimestampNs,
};
use std::borrow::Cow;

/// The texts of a note, taken out of their row: name and attributes, without the quoting and escaping of their file.
pub(crate) fn keep_texts(out: &mut Vec<u8>, name: Option<&str>, attributes: &Attributes<'_>) {
    out.clear();
    out.push(u8::from(name.is_some()));
    keep(out, name.unwrap_or_default().as_bytes());
    for (key, value) in attributes.pairs() {
        keep(out, key);
        keep(out, String::from_utf8_lossy(&value).as_bytes());
    }
}

fn keep(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

/// What [`keep_texts`] kept.
pub(crate) struct KeptTexts<'a> {
    name: Option<&'a str>,
    attributes: Attributes<'a>,
}

impl<'a> KeptTexts<'a> {
    pub(crate) fn of(kept: &'a [u8]) -> Option<KeptTexts<'a>> {
        let (named, mut rest) = kept.split_first()?;
        let mut take = || {
            let (length, behind) = rest.split_first_chunk()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some(text)
        };
        let name = str::from_utf8(take()?).ok()?;
        let mut attributes = Attributes::empty();
        while let Some(key) = take() {
            attributes.push(key, take()?);
        }
        Some(KeptTexts { name: (*named == 1).then_some(name), attributes })
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        str::from_utf8(self.attributes.get(key)?).ok().filter(|text| *text != NOT_APPLICABLE)
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Refused> {
        self.attributes.number(key).map_err(|why| Refused::Malformed(Cow::Owned(why)))
    }

    fn first_number(&self, keys: [&str; 2]) -> Result<u64, Refused> {
        Ok(self.number(keys[0])?.or(self.number(keys[1])?).unwrap_or(0))
    }

    /// Of an operator; a foreign word that is no handle says nothing.
    fn stream(&self) -> Option<StreamHandle> {
        self.attributes.number(key::STREAM_HANDLE).ok().flatten().and_then(StreamHandle::known)
    }

    fn small(&self, key: &str) -> Result<Option<u32>, Refused> {
        let number = self.number(key)?.map(u32::try_from).transpose();
        number.map_err(|_| Refused::Malformed(Cow::Owned(format!("{key} is too large in the attributes"))))
    }
}

/// The end of a range that says its number.
pub(crate) fn number_of_range_end(name: &str) -> Option<u64> {
    number(name.strip_prefix(RANGE_END_PREFIX)?.as_bytes())
}

/// What the row says. Names have no numbers yet, ranges and accesses have no partner.
pub(crate) fn note_of<'a>(
    event: Event,
    event_type: EventType,
    pointer: Option<u64>,
    texts: &KeptTexts<'a>,
    dimensions: &'a mut Vec<i64>,
) -> Result<NoteKind<'a>, Refused> {
    let text = texts.name.unwrap_or_default();
    let name = texts.name.map(|text| Name { id: NameId(0), text });
    Ok(match (event, event_type) {
        (Event::System, EventType::ACL_INIT) => NoteKind::AclInit,
        (Event::System, EventType::ACL_FINI) => NoteKind::AclFinalize,
        (Event::System, EventType::START_TRACE) => NoteKind::StartTrace,
        (Event::System, EventType::STOP_TRACE) => NoteKind::StopTrace,
        (Event::System, EventType::STEP) => match number(text.as_bytes()) {
            Some(step) => NoteKind::Step(step),
            None => return Err(Refused::Malformed(Cow::Owned(format!("the name of a step is no number: {text:?}")))),
        },
        (Event::Mstx, EventType::MARK) => NoteKind::Mark(text),
        (Event::Mstx, EventType::RANGE_START) => NoteKind::RangeStart { id: 0, text },
        (Event::Mstx, EventType::RANGE_END) => match number_of_range_end(text) {
            Some(id) => NoteKind::RangeEnd { id, text: None },
            None => NoteKind::RangeEnd { id: 0, text: Some(text) },
        },
        (Event::OomDetail, EventType::OOM_TRIGGER) => NoteKind::OutOfMemory {
            call: texts.text(key::FUNCTION).and_then(RefusedCall::from_name).unwrap_or(RefusedCall::MemAlloc),
            size: texts.number(key::REQUESTED_SIZE)?.unwrap_or(0),
            flag: texts.number(key::FLAG)?.unwrap_or(0),
        },
        (Event::OomDetail, EventType::OOM_RECENT_ALLOC | EventType::OOM_TOP_ALLOC) => NoteKind::LiveAtRefusal {
            list: match event_type {
                EventType::OOM_RECENT_ALLOC => RefusalList::Newest,
                _ => RefusalList::Largest,
            },
            pool: texts.text(key::POOL).and_then(Pool::from_name).unwrap_or(Pool::Hal),
            address: texts.number(key::POINTER)?.unwrap_or(0),
            size: texts.number(key::SIZE)?.unwrap_or(0),
            made: TimestampNs(texts.number(key::TIMESTAMP)?.unwrap_or(0)),
            step: texts.small(key::STEP)?,
        },
        (Event::Snapshot, EventType::SNAPSHOT) => NoteKind::Snapshot {
            name: text,
            memory: SnapshotMemory {
                reserved: texts.number(key::RESERVED)?.unwrap_or(0),
                max_reserved: texts.first_number([key::MAX_RESERVED, key::PEAK_RESERVED])?,
                allocated: texts.number(key::ALLOCATED)?.unwrap_or(0),
                max_allocated: texts.first_number([key::MAX_ALLOCATED, key::PEAK_ALLOCATED])?,
                of_device: None,
            },
        },
        (Event::KernelLaunch, EventType::KERNEL_START | EventType::KERNEL_END) => NoteKind::AtbKernel {
            phase: if event_type == EventType::KERNEL_START { Phase::Start } else { Phase::End },
            name,
            path: texts.text(key::PATH),
        },
        (Event::KernelLaunch, _) => NoteKind::Kernel {
            phase: match event_type {
                EventType::KERNEL_LAUNCH => KernelPhase::Launch,
                EventType::KERNEL_EXECUTE_START => KernelPhase::ExecuteStart,
                EventType::KERNEL_EXECUTE_END => KernelPhase::ExecuteEnd,
                _ => return Err(Refused::Unknown),
            },
            name,
            stream: texts.small(key::STREAM)?,
            task: texts.small(key::TASK)?,
        },
        (Event::OpLaunch, EventType::ATB_START | EventType::ATB_END) => NoteKind::AtbOperator {
            phase: if event_type == EventType::ATB_START { Phase::Start } else { Phase::End },
            operator: AtbOperator {
                name,
                path: texts.text(key::PATH),
                workspace: DevAddr(texts.number(key::WORKSPACE)?.unwrap_or(0)),
                workspace_size: texts.number(key::WORKSPACE_SIZE)?.unwrap_or(0),
                stream: texts.stream(),
            },
        },
        (Event::OpLaunch, EventType::ATEN_START | EventType::ATEN_END) => NoteKind::AtenOperator {
            phase: if event_type == EventType::ATEN_START { Phase::Start } else { Phase::End },
            name,
            stream: texts.stream(),
        },
        (Event::Access, _) => {
            let by = [value::BY_ATB, value::BY_ATEN].into_iter().find(|by| texts.attributes.is(key::TYPE, by));
            let by = by.ok_or(Refused::Unknown)?;
            let mode = match event_type {
                EventType::READ => AccessMode::Read,
                EventType::WRITE => AccessMode::Write,
                EventType::UNKNOWN => AccessMode::Unknown,
                _ => return Err(Refused::Unknown),
            };
            let Some(address) = texts.number(key::ADDRESS)?.or(pointer) else {
                return Err(Refused::Malformed(Cow::Borrowed("an access has no address")));
            };
            let element_type = texts.text(key::ELEMENT_TYPE).unwrap_or_default();
            let (owner, dtype) =
                if by == value::BY_ATEN { torch_type_code(element_type) } else { type_code(element_type) };
            *dimensions = texts.text(key::SHAPE).and_then(dimensions_of).unwrap_or_default();
            NoteKind::Access(Access {
                mode,
                owner,
                name,
                address: DevAddr(address),
                size: texts.number(key::SIZE)?.unwrap_or(0),
                block: None,
                dtype,
                format: format_code(texts.text(key::FORMAT).unwrap_or_default()),
                dimensions,
            })
        }
        _ => return Err(Refused::Unknown),
    })
}

/// The number of the block an access is to, as the row says.
pub(crate) fn accessed_block(texts: &KeptTexts<'_>) -> Option<u64> {
    texts.number(key::ALLOCATION_ID).ok().flatten()
}
