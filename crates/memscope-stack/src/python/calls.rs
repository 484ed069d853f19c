//! What a trace of calls asks of the interpreter: which function is called, of which class `self` is, and what calls the
//! thread is in.
//!
//! All of it is read where it lies, as for stacks, and each thing is defined once per lane. A function written in C is
//! told by its `PyMethodDef` and the type it is a method of; both may die, so that their names are looked at each time.
use super::code::{KnownCode, Witness, hash_of_contents};
use super::frames::PythonStack;
use super::interpreter::{Interpreter, interpreter, is_plausible, load};
use super::layout::{
    CELL_CONTENTS, DESCRIPTOR_DEFINITION, DESCRIPTOR_TYPE, FUNCTION_DEFINITION, FUNCTION_SELF, OBJECT_TYPE, TYPE_NAME,
};
use crate::tables::{Entry, Keyed, Lookup, Table, hash};
use crate::{CallNameDefinition, DefinitionSink};

/// Names of types and functions are cut here.
const LONGEST_NAME: usize = 256;

/// A Python function that is called, in numbers of the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Callee {
    pub code: u32,
    /// The class of `self`, where it is a module of torch that is called.
    pub class: Option<u32>,
}

/// Whether this is what runs when a module of torch is called: `__call__` is one of these, by the version.
pub(super) fn calls_module(file: &[u8], function: &[u8]) -> bool {
    // Qualified names from 3.11 on.
    let function = function.strip_prefix(b"Module.").unwrap_or(function);
    matches!(function, b"_wrapped_call_impl" | b"_call_impl") && file.ends_with(b"torch/nn/modules/module.py")
}

/// A name in the spool.
#[derive(Clone, Copy)]
#[repr(C)]
struct DefinedName {
    /// 0 for none.
    contents: u64,
    id: u32,
}

// SAFETY: integers; no contents have the hash 0.
unsafe impl Entry for DefinedName {}

impl Keyed for DefinedName {
    fn is_none(&self) -> bool {
        self.contents == 0
    }

    fn hash(&self) -> u64 {
        hash(self.contents)
    }
}

/// A function written in C, as it was seen last.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Native {
    /// Its `PyMethodDef`, 0 for none.
    definition: usize,
    /// The type it is a method of, 0 if it is none.
    owner: usize,
    /// How the names of both began.
    name_begins: u64,
    owner_begins: u64,
}

impl Native {
    fn hash(&self) -> u64 {
        hash((self.definition ^ self.owner.rotate_left(23)) as u64)
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct KnownNative {
    native: Native,
    id: u32,
}

// SAFETY: integers; no definition is at address 0.
unsafe impl Entry for KnownNative {}

impl Keyed for KnownNative {
    fn is_none(&self) -> bool {
        self.native.definition == 0
    }

    fn hash(&self) -> u64 {
        self.native.hash()
    }
}

/// The names of functions written in C and of classes that a lane has defined. All zero bytes are an empty one.
pub struct CallNames {
    natives: Table<KnownNative, 512, { 1 << 16 }>,
    by_contents: Table<DefinedName, 512, { 1 << 16 }>,
    defined: u32,
}

impl CallNames {
    /// Forgets all names but not which numbers were given.
    pub fn forget(&mut self) {
        self.natives.forget();
        self.by_contents.forget();
    }

    /// The number of the function that a callable is, if it is one written in C.
    ///
    /// # Safety
    /// `callable` must be a live object of the interpreter of this process.
    #[inline]
    pub unsafe fn native<S: DefinitionSink>(&mut self, callable: usize, sink: &mut S) -> Option<u32> {
        let interpreter = interpreter()?;
        // SAFETY: the caller's; what a live object refers to is live.
        unsafe {
            let native = native_of(interpreter, callable)?;
            if let Some(known) = self.natives.find(native.hash(), |known| known.native == native) {
                return Some(known.id);
            }
            self.define_native(native, sink)
        }
    }

    /// # Safety
    /// `native` must have been read from a live object.
    #[cold]
    unsafe fn define_native<S: DefinitionSink>(&mut self, native: Native, sink: &mut S) -> Option<u32> {
        // SAFETY: the caller's.
        let id = unsafe {
            let owner = if native.owner == 0 { &[] } else { text_at(load(native.owner, TYPE_NAME)) };
            self.define(text_at(load(native.definition, 0)), owner, sink)?
        };
        // Without memory for it, it is looked up by its contents each time.
        if let Some(Lookup::New(known)) = self.natives.entry(native.hash(), |known| known.native == native) {
            *known = KnownNative { native, id };
        }
        Some(id)
    }

    /// The number of the class of the first argument of the frame that the thread is in.
    ///
    /// # Safety
    /// The thread must be at the beginning of a Python function that has an argument.
    #[cold]
    unsafe fn class_of_self<S: DefinitionSink>(&mut self, interpreter: &Interpreter, sink: &mut S) -> Option<u32> {
        /// 3.14 keeps flags of a reference in the low bits.
        const TAGS: usize = 7;
        let layout = &interpreter.layout;
        let frame = interpreter.current_frame();
        if !is_plausible(frame) {
            return None;
        }
        // SAFETY: the frame is the thread's own, its arguments are set, and what it refers to is live.
        unsafe {
            let mut object = load::<usize>(frame, layout.frame_locals.into()) & !TAGS;
            // A variable that an inner function uses.
            if is_plausible(object) && load::<usize>(object, OBJECT_TYPE) == interpreter.cell_type {
                object = load(object, CELL_CONTENTS);
            }
            if !is_plausible(object) {
                return None;
            }
            self.define(text_at(load(load(object, OBJECT_TYPE), TYPE_NAME)), &[], sink)
        }
    }

    /// The number of a name; `None` if there is no memory to remember it.
    fn define<S: DefinitionSink>(&mut self, text: &[u8], owner: &[u8], sink: &mut S) -> Option<u32> {
        let contents = hash_of_contents(text, owner, &[], 0);
        match self.by_contents.entry(hash(contents), |defined| defined.contents == contents)? {
            Lookup::Found(defined) => Some(defined.id),
            Lookup::New(defined) => {
                let id = self.defined;
                *defined = DefinedName { contents, id };
                self.defined += 1;
                sink.call_name(&CallNameDefinition { id, text, owner });
                Some(id)
            }
        }
    }
}

/// Whether a callable is a function written in C; of classes and whatever else can be called, Python itself tells no calls.
///
/// # Safety
/// `callable` must be a live object of the interpreter of this process.
#[inline(always)]
pub unsafe fn is_native(callable: usize) -> bool {
    let Some(interpreter) = interpreter() else { return false };
    // SAFETY: the caller's.
    let of_type = unsafe { load::<usize>(callable, OBJECT_TYPE) };
    interpreter.function_types.contains(&of_type) || of_type == interpreter.descriptor_type
}

/// # Safety
/// `callable` must be a live object of this interpreter.
#[inline(always)]
unsafe fn native_of(interpreter: &Interpreter, callable: usize) -> Option<Native> {
    // SAFETY: the caller's; the fields belong to the type that the object has.
    unsafe {
        let of_type = load::<usize>(callable, OBJECT_TYPE);
        let (definition, owner) = if interpreter.function_types.contains(&of_type) {
            let this = load::<usize>(callable, FUNCTION_SELF);
            let owner = if is_plausible(this) { load::<usize>(this, OBJECT_TYPE) } else { 0 };
            (load::<usize>(callable, FUNCTION_DEFINITION), if owner == interpreter.module_type { 0 } else { owner })
        } else if of_type == interpreter.descriptor_type {
            (load::<usize>(callable, DESCRIPTOR_DEFINITION), load::<usize>(callable, DESCRIPTOR_TYPE))
        } else {
            return None;
        };
        if !is_plausible(definition) {
            return None;
        }
        let owner_begins = if owner == 0 { 0 } else { beginning(load(owner, TYPE_NAME)) };
        Some(Native { definition, owner, name_begins: beginning(load(definition, 0)), owner_begins })
    }
}

/// The first bytes of a C string, up to eight.
///
/// # Safety
/// `text` must be null or a C string.
#[inline(always)]
unsafe fn beginning(text: usize) -> u64 {
    const PAGE: usize = 4096;
    if text == 0 {
        return 0;
    }
    // SAFETY: the caller's; eight bytes that do not reach into another page are readable if the first is.
    unsafe {
        if text % PAGE <= PAGE - 8 {
            let word = (text as *const u64).read_unaligned().to_le();
            // The lowest zero byte ends the text.
            let zeroes = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
            let kept = if zeroes == 0 { u64::MAX } else { (zeroes & zeroes.wrapping_neg()) - 1 };
            return word & kept;
        }
        text_at(text).iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

/// A C string, cut where it is long.
///
/// # Safety
/// `text` must be null or a C string that lives for `'a`.
unsafe fn text_at<'a>(text: usize) -> &'a [u8] {
    if text == 0 {
        return &[];
    }
    let mut length = 0;
    // SAFETY: the caller's: no byte behind the zero is read.
    unsafe {
        while length < LONGEST_NAME && load::<u8>(text, length) != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(text as *const u8, length)
    }
}

impl PythonStack {
    /// The function whose code object begins to run; `None` if it cannot be told.
    ///
    /// # Safety
    /// The interpreter must be about to run `code` on this thread, whose lane this is, and has the arguments in place.
    #[inline]
    pub unsafe fn callee<S: DefinitionSink>(
        &mut self,
        code: usize,
        names: &mut CallNames,
        sink: &mut S,
    ) -> Option<Callee> {
        let interpreter = interpreter()?;
        let witness = &mut Witness::new(interpreter);
        // SAFETY: the caller's: code that runs is live.
        let known = match unsafe { self.codes().known(code, witness) } {
            Some(known) => known,
            // SAFETY: as above.
            None => unsafe { self.define(code, interpreter, sink) }?,
        };
        // SAFETY: as above; both functions have an argument.
        let class = if known.calls_module { unsafe { names.class_of_self(interpreter, sink) } } else { None };
        Some(Callee { code: known.id, class })
    }

    /// # Safety
    /// As for [`PythonStack::callee`].
    #[cold]
    unsafe fn define<S: DefinitionSink>(
        &mut self,
        code: usize,
        interpreter: &Interpreter,
        sink: &mut S,
    ) -> Option<KnownCode> {
        // SAFETY: the caller's; the library is never unloaded.
        unsafe {
            interpreter.watch_code();
            self.identify(code, &Witness::new(interpreter), sink)
        }
    }

    /// The calls this thread is in, the outermost first: the address of each code object and its number. `but_innermost`
    /// leaves out the one that is about to begin. Of those deeper than can be kept, the outermost are left out.
    ///
    /// # Safety
    /// The caller must be in C code of the thread that this lane belongs to.
    #[cold]
    pub unsafe fn calls_at_hand<S: DefinitionSink>(
        &mut self,
        but_innermost: bool,
        sink: &mut S,
        visit: &mut dyn FnMut(&mut S, usize, u32),
    ) {
        let Some(interpreter) = interpreter() else { return };
        // SAFETY: the caller's; the frames are the thread's own and stand still, as the code that they run does.
        unsafe {
            interpreter.watch_code();
            let count = self.note_frames(interpreter);
            let layout = &interpreter.layout;
            for number in (usize::from(but_innermost)..count).rev() {
                let Some(frame) = self.noted_frame(number) else { continue };
                let code = layout.code_of(frame);
                if let Some(known) = self.identify(code, &Witness::new(interpreter), sink) {
                    visit(sink, code, known.id);
                }
            }
        }
    }
}

/// The code object of a frame object, which is what profile functions are given.
///
/// # Safety
/// `frame` must be the frame object of a Python function that runs on this thread.
#[inline]
pub unsafe fn code_of_frame_object(frame: usize) -> Option<usize> {
    let layout = &interpreter()?.layout;
    // SAFETY: the caller's.
    unsafe {
        let frame = match layout.object_frame {
            Some(offset) => load::<usize>(frame, offset.into()),
            None => frame,
        };
        is_plausible(frame).then(|| layout.code_of(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_of_a_module_is_known_by_its_file_and_its_name() {
        let file = b"/usr/lib/python3/site-packages/torch/nn/modules/module.py";
        assert!(calls_module(file, b"Module._wrapped_call_impl") && calls_module(file, b"_call_impl"));
        assert!(!calls_module(file, b"Module.forward") && !calls_module(b"module.py", b"_call_impl"));
    }

    #[test]
    fn a_text_is_known_by_how_it_begins_wherever_it_lies() {
        // Two pages, so that some text ends at the end of the first.
        let memory = vec![0u8; 3 * 4096];
        let page = (memory.as_ptr() as usize).next_multiple_of(4096) - memory.as_ptr() as usize + 4096;
        for (text, expected) in [
            (&b"\0"[..], 0u64),
            (b"a\0zzzzzzz", 0x61),
            (b"append\0\0", 0x646e_6570_7061),
            (b"12345678\0", 0x3837_3635_3433_3231),
        ] {
            for back in 0..16 {
                let mut memory = memory.clone();
                let at = page - 16 + back;
                memory[at..at + text.len()].copy_from_slice(text);
                // SAFETY: a C string in memory of ours.
                assert_eq!(unsafe { beginning(memory.as_ptr() as usize + at) }, expected, "{text:?} {back}");
            }
        }
    }

    #[test]
    fn no_text_is_an_empty_one_and_a_long_one_is_cut() {
        let long = [b'x'; 1000];
        // SAFETY: null, and more bytes than are read.
        unsafe {
            assert!(text_at(0).is_empty());
            assert_eq!(text_at(long.as_ptr() as usize).len(), LONGEST_NAME);
        }
    }
}
