//! Where each CPython keeps what we read.
//!
//! 3.9 to 3.12: constants, taken with `offsetof` from the headers of 3.9.18, 3.10.13, 3.11.7 and 3.12.1 for a 64-bit
//! build; a released minor version never changes them, and x86-64 and aarch64 lay these structures out alike. From
//! 3.13 on, the interpreter publishes its offsets at the start of `_PyRuntime`; they are believed after validation.

/// The innermost bytes every object starts with: count, type, and for the sized ones the size.
pub(super) const OBJECT_REFERENCES: usize = 0;
pub(super) const OBJECT_TYPE: usize = 8;
pub(super) const TYPE_NAME: usize = 24;
pub(super) const TYPE_DESTRUCTOR: usize = 48;
/// `PyCellObject`: what it holds.
pub(super) const CELL_CONTENTS: usize = 16;
/// `PyCFunctionObject`: its `PyMethodDef`, which begins with its name, and `self`.
pub(super) const FUNCTION_DEFINITION: usize = 16;
pub(super) const FUNCTION_SELF: usize = 24;
/// `PyMethodDescrObject`: the type it is a method of, and its `PyMethodDef`.
pub(super) const DESCRIPTOR_TYPE: usize = 16;
pub(super) const DESCRIPTOR_DEFINITION: usize = 40;
pub(super) const BYTES_SIZE: usize = 16;
pub(super) const BYTES_DATA: usize = 32;
pub(super) const TEXT_LENGTH: usize = 16;
pub(super) const TEXT_HASH: usize = 24;
pub(super) const TEXT_STATE: usize = 32;

/// How a frame says where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Position {
    /// `int f_lasti`, in bytes.
    Bytes,
    /// `int f_lasti`, in code units of two bytes.
    Units,
    /// A pointer into the code object, whose instructions start at this offset.
    Pointer { code_start: u16 },
}

/// Offsets in bytes. `None` is a field the version does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// `PY_VERSION_HEX >> 16`.
    pub version: u16,
    pub runtime_finalizing: u16,
    pub thread_frame: u16,
    /// 3.11 and 3.12: the thread points to a `_PyCFrame`, which points to the frame.
    pub c_frame_current: Option<u16>,
    pub frame_previous: u16,
    pub frame_code: u16,
    pub frame_position: u16,
    pub frame_owner: Option<u16>,
    /// The local variables, arguments first.
    pub frame_locals: u16,
    /// 3.11: a frame object, which is what a profile function is given, points to the frame.
    pub object_frame: Option<u16>,
    pub position: Position,
    pub code_first_line: u16,
    pub code_file: u16,
    pub code_function: u16,
    pub code_line_table: u16,
    /// A number no two code objects of an interpreter share, from 3.12 on.
    pub code_version: Option<u16>,
    pub ascii_size: u16,
    pub compact_size: u16,
}

/// Frames owned by this or above are no Python code: `FRAME_OWNED_BY_CSTACK` of 3.12 and 3.13, and 3.14's
/// `FRAME_OWNED_BY_INTERPRETER` and `FRAME_OWNED_BY_CSTACK`.
pub(super) const FIRST_OWNER_NOT_PYTHON: u8 = 3;

pub(super) const PYTHON_3_9: Layout = Layout {
    version: 0x0309,
    runtime_finalizing: 16,
    thread_frame: 24,
    c_frame_current: None,
    frame_previous: 24,
    frame_code: 32,
    frame_position: 104,
    frame_owner: None,
    frame_locals: 360,
    object_frame: None,
    position: Position::Bytes,
    code_first_line: 40,
    code_file: 104,
    code_function: 112,
    code_line_table: 120,
    code_version: None,
    ascii_size: 48,
    compact_size: 72,
};

pub(super) const PYTHON_3_10: Layout =
    Layout { version: 0x030a, frame_position: 96, frame_locals: 352, position: Position::Units, ..PYTHON_3_9 };

pub(super) const PYTHON_3_11: Layout = Layout {
    version: 0x030b,
    runtime_finalizing: 24,
    thread_frame: 56,
    c_frame_current: Some(8),
    frame_previous: 48,
    frame_code: 32,
    frame_position: 56,
    frame_owner: None,
    frame_locals: 72,
    object_frame: Some(24),
    position: Position::Pointer { code_start: 184 },
    code_first_line: 72,
    code_file: 112,
    code_function: 128,
    code_line_table: 136,
    code_version: None,
    ascii_size: 48,
    compact_size: 72,
};

pub(super) const PYTHON_3_12: Layout = Layout {
    version: 0x030c,
    c_frame_current: Some(0),
    frame_previous: 8,
    frame_code: 0,
    frame_owner: Some(70),
    position: Position::Pointer { code_start: 192 },
    code_first_line: 68,
    code_version: Some(92),
    ascii_size: 40,
    compact_size: 56,
    ..PYTHON_3_11
};

/// Words of `_PyRuntime` that [`Layout::published`] may look at.
pub(super) const PUBLISHED_WORDS: usize = 81;

/// Word numbers within `_Py_DebugOffsets`, which differ between minor versions because sections grew.
struct Sections {
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
    bytes: usize,
    text: usize,
}

const SECTIONS_3_13: Sections = Sections { thread: 19, frame: 28, code: 34, object: 44, bytes: 64, text: 67 };
const SECTIONS_3_14: Sections = Sections { thread: 22, frame: 31, code: 39, object: 50, bytes: 74, text: 77 };

impl Layout {
    /// The layout of a version that does not publish it. `hex` is `PY_VERSION_HEX`, of which the low byte is 0xf0
    /// for a release; before the release the structures were still moving.
    pub(super) fn of_version(hex: u32) -> Option<Layout> {
        const FINAL: u32 = 0xf0;
        if hex & 0xf0 != FINAL {
            return None;
        }
        match hex >> 16 {
            0x0309 => Some(PYTHON_3_9),
            0x030a => Some(PYTHON_3_10),
            0x030b => Some(PYTHON_3_11),
            0x030c => Some(PYTHON_3_12),
            _ => None,
        }
    }

    /// The layout that the interpreter of version `hex` publishes in the first `words` of `_PyRuntime`; none for
    /// free-threaded builds, unknown versions, and whatever contradicts itself.
    pub(super) fn published(words: &[u64; PUBLISHED_WORDS], hex: u32) -> Option<Layout> {
        let sections = match hex >> 16 {
            0x030d => SECTIONS_3_13,
            0x030e => SECTIONS_3_14,
            _ => return None,
        };
        let word = |at: usize| words.get(at).copied().unwrap_or(u64::MAX);
        let cookie = u64::from_le_bytes(*b"xdebugpy");
        let free_threaded = word(2) != 0;
        if word(0) != cookie || word(1) != u64::from(hex) || free_threaded {
            return None;
        }
        // A section starts with the size of its structure, in which every field must lie, aligned to itself.
        let field = |section: usize, number: usize, bytes: u64| -> Option<u16> {
            let size = word(section);
            let offset = word(section + number);
            let inside = size <= 0x100_0000 && offset.checked_add(bytes)? <= size && offset.is_multiple_of(bytes);
            if inside { u16::try_from(offset).ok() } else { None }
        };
        let expect = |at: usize, value: usize| if word(at) == value as u64 { Some(()) } else { None };
        expect(sections.object + 1, OBJECT_TYPE)?;
        expect(sections.bytes + 1, BYTES_SIZE)?;
        expect(sections.bytes + 2, BYTES_DATA)?;
        expect(sections.text + 1, TEXT_STATE)?;
        expect(sections.text + 2, TEXT_LENGTH)?;
        let ascii_size = u16::try_from(word(sections.text + 3)).ok()?;
        // PyUnicodeObject is PyCompactUnicodeObject and one pointer.
        let compact_size = u16::try_from(word(sections.text)).ok()?.checked_sub(8)?;
        if !(40..=64).contains(&ascii_size) || !(ascii_size..=96).contains(&compact_size) {
            return None;
        }
        let code_first_line = field(sections.code, 5, 4)?;
        let local_names = field(sections.code, 7, 8)?;
        // Not published: the last of the six ints that follow co_firstlineno, just before co_localsplusnames.
        let code_version = code_first_line + 24;
        let position = Position::Pointer { code_start: field(sections.code, 9, 2)? };
        Some(Layout {
            version: (hex >> 16) as u16,
            runtime_finalizing: field(3, 1, 8)?,
            thread_frame: field(sections.thread, 4, 8)?,
            c_frame_current: None,
            frame_previous: field(sections.frame, 1, 8)?,
            frame_code: field(sections.frame, 2, 8)?,
            frame_position: field(sections.frame, 3, 8)?,
            frame_owner: Some(field(sections.frame, 5, 1)?),
            frame_locals: field(sections.frame, 4, 8)?,
            object_frame: None,
            position,
            code_first_line,
            code_file: field(sections.code, 1, 8)?,
            code_function: field(sections.code, 3, 8)?,
            code_line_table: field(sections.code, 4, 8)?,
            code_version: (code_version + 4 == local_names).then_some(code_version),
            ascii_size,
            compact_size,
        })
    }

    /// `instruction` of a frame that runs `code` and whose raw position field is `position`.
    #[inline]
    pub(super) fn instruction(&self, code: usize, position: usize) -> u32 {
        let bytes = match self.position {
            Position::Bytes => i64::from(position as i32),
            Position::Units => i64::from(position as i32) * 2,
            Position::Pointer { code_start } => {
                position.wrapping_sub(code).wrapping_sub(usize::from(code_start)) as i64
            }
        };
        // A frame that has not begun is one unit before its code; anything absurd is no better known than that.
        if (0..1 << 30).contains(&bytes) { bytes as u32 } else { 0 }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What 3.13.0 publishes, for the sections we read.
    pub(in crate::python) fn words_of_3_13() -> [u64; PUBLISHED_WORDS] {
        let mut words = [0u64; PUBLISHED_WORDS];
        words[0] = u64::from_le_bytes(*b"xdebugpy");
        words[1] = 0x030d_00f0;
        words[3..6].copy_from_slice(&[0x5_0000, 608, 632]);
        words[19..28].copy_from_slice(&[336, 0, 8, 16, 72, 152, 160, 216, 32]);
        words[28..34].copy_from_slice(&[80, 8, 0, 56, 72, 70]);
        words[34..44].copy_from_slice(&[208, 112, 120, 128, 136, 68, 52, 96, 104, 200]);
        words[44..46].copy_from_slice(&[16, 8]);
        words[64..67].copy_from_slice(&[40, 16, 32]);
        words[67..71].copy_from_slice(&[64, 32, 16, 40]);
        words
    }

    fn words_of_3_14() -> [u64; PUBLISHED_WORDS] {
        let mut words = [0u64; PUBLISHED_WORDS];
        words[0] = u64::from_le_bytes(*b"xdebugpy");
        words[1] = 0x030e_00f0;
        words[3..6].copy_from_slice(&[0x5_0000, 816, 840]);
        words[22..31].copy_from_slice(&[800, 0, 8, 16, 72, 152, 160, 216, 32]);
        words[31..39].copy_from_slice(&[88, 8, 0, 56, 80, 74, 64, 0]);
        words[39..50].copy_from_slice(&[208, 112, 120, 128, 136, 68, 52, 96, 104, 200, 0]);
        words[50..52].copy_from_slice(&[16, 8]);
        words[74..77].copy_from_slice(&[40, 16, 32]);
        words[77..81].copy_from_slice(&[64, 32, 16, 40]);
        words
    }

    #[test]
    fn offsets_published_by_3_13_and_3_14_are_found() {
        let layout = Layout::published(&words_of_3_13(), 0x030d_00f0).unwrap();
        assert_eq!((layout.version, layout.thread_frame, layout.frame_owner), (0x030d, 72, Some(70)));
        assert_eq!((layout.frame_previous, layout.frame_code, layout.frame_position), (8, 0, 56));
        assert_eq!((layout.code_first_line, layout.code_function, layout.code_line_table), (68, 128, 136));
        assert_eq!(layout.position, Position::Pointer { code_start: 200 });
        assert_eq!((layout.code_version, layout.ascii_size, layout.compact_size), (Some(92), 40, 56));
        assert_eq!(layout.runtime_finalizing, 608);

        let layout = Layout::published(&words_of_3_14(), 0x030e_00f0).unwrap();
        assert_eq!((layout.version, layout.thread_frame, layout.frame_owner), (0x030e, 72, Some(74)));
        assert_eq!((layout.code_version, layout.runtime_finalizing), (Some(92), 816));
    }

    #[test]
    fn published_offsets_that_contradict_themselves_are_refused() {
        let good = words_of_3_13();
        let refuse = |at: usize, value: u64| {
            let mut words = good;
            words[at] = value;
            assert_eq!(Layout::published(&words, 0x030d_00f0), None, "word {at} = {value}");
        };
        refuse(0, 0);
        refuse(1, 0x030d_01f0); // another interpreter's words
        refuse(2, 1); // free-threaded
        refuse(23, 336); // current frame behind the thread state
        refuse(23, 73); // not aligned
        refuse(23, u64::MAX - 3); // overflow
        refuse(28, u64::MAX); // absurd size
        refuse(45, 24); // an object header we do not know (Py_TRACE_REFS)
        refuse(65, 24);
        refuse(70, 8);
        assert_eq!(Layout::published(&good, 0x030f_00f0), None);
        assert_eq!(Layout::published(&good, 0x030e_00f0), None);
    }

    #[test]
    fn only_releases_have_a_constant_layout() {
        assert_eq!(Layout::of_version(0x030b_07f0).unwrap().version, 0x030b);
        assert_eq!(Layout::of_version(0x030b_00c1), None);
        assert_eq!(Layout::of_version(0x0308_12f0), None);
        assert_eq!(Layout::of_version(0x030d_00f0), None);
    }

    #[test]
    fn instructions_are_byte_offsets_whatever_the_frame_holds() {
        let at = |layout: Layout, position: usize| layout.instruction(0x10_0000, position);
        assert_eq!(at(PYTHON_3_9, 26), 26);
        assert_eq!(at(PYTHON_3_10, 13), 26);
        assert_eq!(at(PYTHON_3_11, 0x10_0000 + 184 + 26), 26);
        assert_eq!(at(PYTHON_3_9, -1i32 as u32 as usize), 0);
        assert_eq!(at(PYTHON_3_10, -1i32 as u32 as usize), 0);
        assert_eq!(at(PYTHON_3_12, 0x10_0000 + 192 - 2), 0);
        assert_eq!(at(PYTHON_3_12, 0), 0);
    }
}
