//! Which code object a frame runs: a number that stays right although code objects die and their addresses come back.
use super::deaths::DeathCount;
use super::interpreter::{Interpreter, is_plausible, load};
use super::layout::{BYTES_DATA, BYTES_SIZE, Layout, OBJECT_REFERENCES, OBJECT_TYPE};
use super::text;
use crate::tables::{Entry, Keyed, Lookup, Table, hash};
use crate::{CodeDefinition, DefinitionSink};

const TEXT_CAPACITY: usize = 4096;
const LINE_TABLE_CAPACITY: usize = 48 * 1024;

/// Room to decode two strings; not on the stack, which may be a small one.
#[repr(C)]
pub(super) struct Scratch {
    file: [u8; TEXT_CAPACITY],
    function: [u8; TEXT_CAPACITY],
}

/// What distinguishes a code object from another one that was at the same address before.
///
/// Addresses alone do not: code made by `replace`, `types.CodeType` or unpickling comes to the place of code that died, may
/// share all parts with it but one, and that one may come to the place of its predecessor too. From 3.12 on the interpreter
/// numbers its code objects, and `stamp` has the number (until 2^32 code objects were made; from then on it is 0). Without
/// it, `stamp` is made of the contents: first line, file, function (the hash where the string knows it, else its ends), and
/// size, beginning and end of the line table. What is taken for one then is a function of the same name in the same file and
/// at the same first line, with another line structure in the middle, made anew so that both addresses are the same. That is
/// looked at only where deaths of code cannot be counted either: see [`KnownCode::is_still_there`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
struct Fingerprint {
    line_table: usize,
    stamp: u64,
}

impl Fingerprint {
    /// The fingerprint of the code object at `code`; `None` while it is being destroyed, when its parts are gone.
    ///
    /// # Safety
    /// `code` must be a code object, live or in its destructor.
    #[inline(always)]
    unsafe fn of(layout: &Layout, code: usize) -> Option<Fingerprint> {
        // SAFETY: the caller's, and the layout is that of this interpreter. The parts of live code are live.
        unsafe {
            if !is_live(code) {
                return None;
            }
            let line_table = load::<usize>(code, layout.code_line_table.into());
            let number = layout.code_version.map_or(0, |offset| load::<u32>(code, offset.into()));
            if number != 0 {
                // The line table too, for interpreters other than the main one count for themselves.
                return Some(Fingerprint { line_table, stamp: number.into() });
            }
            let (file, function) = (load(code, layout.code_file.into()), load(code, layout.code_function.into()));
            if !is_plausible(line_table) || !is_plausible(file) || !is_plausible(function) {
                return None;
            }
            Some(Fingerprint { line_table, stamp: contents(layout, code, line_table, &mut SeenFile::default()) })
        }
    }

    /// Whether this is the fingerprint of the code object at `code`.
    ///
    /// # Safety
    /// As for [`Fingerprint::of`].
    #[inline(always)]
    unsafe fn is_of(&self, layout: &Layout, code: usize, seen: &mut SeenFile) -> bool {
        // SAFETY: passed on. The parts of live code are live.
        unsafe {
            match self.has_number_of(layout, code) {
                Some(has_number) => has_number,
                None => {
                    load::<usize>(code, layout.code_line_table.into()) == self.line_table
                        && is_live(code)
                        && contents(layout, code, self.line_table, seen) == self.stamp
                }
            }
        }
    }

    /// Whether this is the fingerprint of the code object at `code` by its number, `None` if it has no number.
    ///
    /// # Safety
    /// As for [`Fingerprint::of`].
    #[inline(always)]
    unsafe fn has_number_of(&self, layout: &Layout, code: usize) -> Option<bool> {
        // SAFETY: the caller's, and the layout is that of this interpreter. Numbers stay, so that even code in its destructor is
        // what it was.
        unsafe {
            let number = load::<u32>(code, layout.code_version?.into());
            let other_table = load::<usize>(code, layout.code_line_table.into()) ^ self.line_table;
            if number == 0 { None } else { Some((u64::from(number) ^ self.stamp) | other_table as u64 == 0) }
        }
    }
}

/// First line, file, function and line table of the code object at `code`, mixed.
///
/// # Safety
/// `code` must be a live code object and `line_table` its table.
#[inline(always)]
unsafe fn contents(layout: &Layout, code: usize, line_table: usize, seen: &mut SeenFile) -> u64 {
    // SAFETY: the caller's; the parts of live code are live.
    unsafe {
        let (file, function) = (load(code, layout.code_file.into()), load(code, layout.code_function.into()));
        let first_line = u64::from(load::<u32>(code, layout.code_first_line.into())) << 40;
        outline(line_table) ^ text::stamp(layout, function) ^ seen.stamp(layout, file) ^ first_line
    }
}

/// Whether the code object at `code` is not in its destructor: 3.11 drops a frame's reference to its code before it unlinks
/// the frame. The low half, because newer versions keep flags in the upper one; immortal objects are not 0 there.
///
/// # Safety
/// `code` must be a code object, live or in its destructor.
#[inline(always)]
unsafe fn is_live(code: usize) -> bool {
    // SAFETY: the caller's.
    unsafe { load::<u32>(code, OBJECT_REFERENCES) != 0 }
}

/// Size, beginning and end of a line table, mixed.
///
/// # Safety
/// `table` must be a live `bytes` object.
#[inline(always)]
unsafe fn outline(table: usize) -> u64 {
    // SAFETY: the caller's. Eight bytes from the start of the data exist even in an empty `bytes`: there is a
    // terminating zero, and objects are allocated in multiples of eight.
    unsafe {
        let size = load::<usize>(table, BYTES_SIZE);
        let first = load::<u64>(table, BYTES_DATA);
        let last = ((table + BYTES_DATA + size.saturating_sub(8)) as *const u64).read_unaligned();
        first.rotate_left(17) ^ last ^ (size as u64) << 24
    }
}

/// The file looked at last in a walk: most frames are in the same one as their callers, and while they are on the stack its
/// name stays as it is.
#[derive(Default)]
struct SeenFile {
    file: usize,
    stamp: u64,
}

impl SeenFile {
    /// # Safety
    /// `file` must be a live `str`, and so must the one before be.
    #[inline(always)]
    unsafe fn stamp(&mut self, layout: &Layout, file: usize) -> u64 {
        if file != self.file {
            // SAFETY: the caller's.
            *self = SeenFile { file, stamp: unsafe { text::stamp(layout, file) } };
        }
        self.stamp
    }
}

/// What a capture holds remembered code against.
pub(super) struct Witness<'a> {
    pub(super) interpreter: &'a Interpreter,
    pub(super) now: DeathCount,
    /// What was seen at this moment is still there: that of now, or one that nothing was seen at.
    undisturbed_since: DeathCount,
    file: SeenFile,
}

impl Witness<'_> {
    #[inline]
    pub(super) fn new(interpreter: &Interpreter) -> Witness<'_> {
        let now = interpreter.now();
        let undisturbed_since = if now == DeathCount::UNKNOWN { DeathCount::NEVER } else { now };
        Witness { interpreter, now, undisturbed_since, file: SeenFile::default() }
    }
}

/// The code object that was seen at an address.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct KnownCode {
    /// 0 for none.
    pub(super) address: usize,
    fingerprint: Fingerprint,
    /// When it was there for certain.
    seen: DeathCount,
    pub(super) id: u32,
    /// It is what a call of a module of torch runs: see [`super::calls`].
    pub(super) calls_module: bool,
}

// SAFETY: integers; no code object is at address 0.
unsafe impl Entry for KnownCode {}

impl Keyed for KnownCode {
    fn is_none(&self) -> bool {
        self.address == 0
    }

    fn hash(&self) -> u64 {
        hash(self.address as u64)
    }
}

impl KnownCode {
    /// What a frame runs that is no code of a function.
    pub(super) const fn no_function(address: usize, id: u32) -> KnownCode {
        KnownCode { address, id, ..KnownCode::NONE }
    }

    /// Whether the code object at its address is this one: it has its number; where code has no numbers, no code died there
    /// since; where deaths are not counted, it has its contents.
    ///
    /// # Safety
    /// A code object must be at its address, live or in its destructor.
    #[inline(always)]
    pub(super) unsafe fn is_still_there(&mut self, layout: &Layout, witness: &mut Witness<'_>) -> bool {
        if layout.code_version.is_some() {
            // SAFETY: passed on.
            return unsafe { self.fingerprint.is_of(layout, self.address, &mut witness.file) };
        }
        // SAFETY: passed on.
        self.seen == witness.undisturbed_since || unsafe { self.is_there_after_deaths(layout, witness) }
    }

    /// Whether the code object at its address has the number that this one has, if it has one.
    ///
    /// # Safety
    /// As for [`KnownCode::is_still_there`].
    #[inline(always)]
    pub(super) unsafe fn has_its_number(&self, layout: &Layout) -> bool {
        // SAFETY: passed on.
        unsafe { self.fingerprint.has_number_of(layout, self.address) == Some(true) }
    }

    /// Whether it has a number, or was there at the moment of `witness`.
    #[inline(always)]
    pub(super) fn is_known_to(&self, witness: &Witness<'_>) -> bool {
        witness.interpreter.layout.code_version.is_some() || self.seen == witness.undisturbed_since
    }

    /// The same where something died, or deaths are not counted.
    ///
    /// # Safety
    /// As for [`KnownCode::is_still_there`].
    #[inline(never)]
    unsafe fn is_there_after_deaths(&mut self, layout: &Layout, witness: &mut Witness<'_>) -> bool {
        if witness.now == DeathCount::UNKNOWN {
            // SAFETY: passed on.
            return unsafe { self.fingerprint.is_of(layout, self.address, &mut witness.file) };
        }
        self.has_survived(witness)
    }

    /// Whether deaths are counted and none was at its address.
    #[inline]
    fn has_survived(&mut self, witness: &Witness<'_>) -> bool {
        if witness.now == DeathCount::UNKNOWN || self.seen.may_precede_death_at(self.address) {
            return false;
        }
        self.seen = witness.now;
        true
    }
}

/// A definition in the spool.
#[derive(Clone, Copy)]
#[repr(C)]
struct DefinedCode {
    /// See [`hash_of_contents`]; 0 for none.
    contents: u64,
    id: u32,
}

// SAFETY: integers; no contents have the hash 0.
unsafe impl Entry for DefinedCode {}

impl Keyed for DefinedCode {
    fn is_none(&self) -> bool {
        self.contents == 0
    }

    fn hash(&self) -> u64 {
        hash(self.contents)
    }
}

/// The code objects a lane has seen, or the latest of them: code that comes again after it was forgotten is defined again.
pub(super) struct CodeTable {
    by_address: Table<KnownCode, 512, { 1 << 16 }>,
    /// By hash of the contents of the definition, so that code compiled from the same text again and again is defined
    /// once: neither the spool nor the tree of stacks grows with it.
    by_contents: Table<DefinedCode, 512, { 1 << 16 }>,
    defined: u32,
}

impl CodeTable {
    pub(super) const fn new() -> CodeTable {
        CodeTable { by_address: Table::new(), by_contents: Table::new(), defined: 0 }
    }

    /// Forgets all code but not which numbers were given.
    pub(super) fn forget(&mut self) {
        self.by_address.forget();
        self.by_contents.forget();
    }

    /// The code object at `code` if it is known and still there.
    ///
    /// # Safety
    /// `code` must be a live code object.
    #[inline(always)]
    pub(super) unsafe fn known(&mut self, code: usize, witness: &mut Witness<'_>) -> Option<KnownCode> {
        let known = self.by_address.find(hash(code as u64), |known| known.address == code)?;
        // SAFETY: the caller's.
        unsafe { known.is_still_there(&witness.interpreter.layout, witness) }.then_some(*known)
    }

    /// The code object at `code`, defining it if need be; `None` if it is none, is being destroyed, or there is no memory to
    /// remember it.
    ///
    /// # Safety
    /// `code` must be 0, implausible, or an object that a frame of the current thread refers to.
    pub(super) unsafe fn identify<S: DefinitionSink>(
        &mut self,
        code: usize,
        witness: &Witness<'_>,
        scratch: &mut Scratch,
        sink: &mut S,
    ) -> Option<KnownCode> {
        let interpreter = witness.interpreter;
        let is_this = |known: &KnownCode| known.address == code;
        if let Some(known) = self.by_address.find(hash(code as u64), is_this)
            && known.has_survived(witness)
        {
            return Some(*known);
        }
        // SAFETY: the caller's; the type is a field of every object.
        if !is_plausible(code) || unsafe { load::<usize>(code, OBJECT_TYPE) } != interpreter.code_type {
            return None;
        }
        // SAFETY: it is a code object by its type.
        let fingerprint = unsafe { Fingerprint::of(&interpreter.layout, code) }?;
        let known = match self.by_address.entry(hash(code as u64), is_this)? {
            Lookup::Found(known) if known.fingerprint == fingerprint && witness.now == DeathCount::UNKNOWN => {
                return Some(*known);
            }
            Lookup::Found(known) | Lookup::New(known) => known,
        };
        let layout = &interpreter.layout;
        // SAFETY: the code object is live (its count is not 0) and stays so while the frame refers to it, and so do
        // its strings and its line table.
        let (file, function, line_table, first_line) = unsafe {
            (
                text::utf8(layout, load(code, layout.code_file.into()), &mut scratch.file),
                text::utf8(layout, load(code, layout.code_function.into()), &mut scratch.function),
                text::bytes(fingerprint.line_table, LINE_TABLE_CAPACITY),
                load::<i32>(code, layout.code_first_line.into()).max(0) as u32,
            )
        };
        let contents = hash_of_contents(file, function, line_table, first_line);
        let id = match self.by_contents.entry(hash(contents), |defined| defined.contents == contents) {
            Some(Lookup::Found(defined)) => defined.id,
            new => {
                let id = self.defined;
                if let Some(Lookup::New(defined)) = new {
                    *defined = DefinedCode { contents, id };
                }
                self.defined += 1;
                sink.code(&CodeDefinition {
                    id,
                    python_version: layout.version,
                    first_line,
                    file,
                    function,
                    line_table,
                });
                id
            }
        };
        let calls_module = super::calls::calls_module(file, function);
        *known = KnownCode { address: code, fingerprint, seen: witness.now, id, calls_module };
        Some(*known)
    }
}

/// 64 bits that differ for different definitions, but for one chance in 2^64; never 0.
pub(super) fn hash_of_contents(file: &[u8], function: &[u8], line_table: &[u8], first_line: u32) -> u64 {
    let mut state = mix(0x243f_6a88_85a3_08d3, u64::from(first_line));
    for part in [file, function, line_table] {
        // The length keeps the border between two parts from moving.
        state = mix(state, part.len() as u64);
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            state = mix(state, u64::from_le_bytes(*word));
        }
        let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        state = mix(state, rest);
    }
    state.max(1)
}

/// Multiplies to 128 bits and folds the halves: every bit of both inputs reaches every bit of the state.
fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0x1319_8a2e_0370_7344) * u128::from(word ^ 0xa409_3822_299f_31d0);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(state.rotate_left(23))
}
