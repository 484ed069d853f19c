//! The stream that an operator's kernels go to.
//!
//! ATB tells it for a context, whose place in what an operator is given has moved between its versions: what is found there is
//! asked for its class first, by the names that C++ keeps of classes. An operator of a plugin is not asked: ATB would log an error.
use super::helper::Helper;
use super::layout::VariantPack;
use crate::original::ATB;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use memscope_recorder::sys;

memscope_hook::functions! {
    found by Helper;
    ExecuteStream is _ZNK3atb6Runner16GetExecuteStreamEPNS_7ContextE(runner: usize, context: usize) -> usize, in ATB;
}

/// `None` if ATB does not say.
///
/// # Safety
/// The arguments are ATB's own.
pub(super) unsafe fn execute_stream(runner: usize, pack: *const VariantPack) -> Option<usize> {
    const PLUGIN: &[u8] = b"N3atb12PluginRunnerE";
    let get_stream = ExecuteStream::find()?;
    // SAFETY: the caller's.
    let context = unsafe { VariantPack::context(pack) };
    if context == 0 || !CONTEXTS.has(context) {
        return None;
    }
    // SAFETY: a runner has virtual functions, and the context was seen to be one.
    unsafe {
        if class_name(runner).starts_with(PLUGIN) {
            return None;
        }
        Some(get_stream(runner, context)).filter(|stream| *stream != 0)
    }
}

static CONTEXTS: Contexts = Contexts {
    seen: [const { AtomicUsize::new(0) }; Contexts::KEPT],
    next: AtomicUsize::new(0),
    refused: AtomicU32::new(0),
};

/// The contexts that were met, each asked for its class once.
struct Contexts {
    seen: [AtomicUsize; Contexts::KEPT],
    next: AtomicUsize,
    refused: AtomicU32,
}

impl Contexts {
    /// A program has one for each thread that executes, mostly one.
    const KEPT: usize = 8;
    /// After so many that are none, this is another ATB than those that are known.
    const MOST_REFUSED: u32 = 16;

    #[inline]
    fn has(&self, context: usize) -> bool {
        self.seen.iter().any(|seen| seen.load(Relaxed) == context) || self.look(context)
    }

    #[cold]
    #[inline(never)]
    fn look(&self, context: usize) -> bool {
        if self.refused.load(Relaxed) >= Contexts::MOST_REFUSED {
            return false;
        }
        if !is_context(context) {
            self.refused.fetch_add(1, Relaxed);
            return false;
        }
        let place = self.next.fetch_add(1, Relaxed) % Contexts::KEPT;
        if let Some(place) = self.seen.get(place) {
            place.store(context, Relaxed);
        }
        true
    }
}

/// Whether an object of a class of ATB's contexts is there.
fn is_context(object: usize) -> bool {
    const BEGINS: &[u8] = b"N3atb";
    const HAS: &[u8] = b"Context";
    let word = |address: usize| {
        let is_word = address.is_multiple_of(8) && sys::knows_what_is_readable() && sys::is_readable(address);
        // SAFETY: it can be read.
        is_word.then(|| unsafe { *(address as *const usize) })
    };
    let name = word(object).and_then(|table| word(table.wrapping_sub(8))).and_then(|class| word(class.wrapping_add(8)));
    let Some(name) = name.filter(|name| sys::is_readable(*name) && sys::is_readable(name.wrapping_add(LONGEST_NAME)))
    else {
        return false;
    };
    // SAFETY: what is read are at most so many bytes, which can be.
    let name = unsafe { text(name) };
    name.starts_with(BEGINS) && name.windows(HAS.len()).any(|part| part == HAS)
}

/// Of the names looked at.
const LONGEST_NAME: usize = 64;

/// What C++ calls the class of an object: before its table of functions is the address of what describes the class, and there, behind
/// another, that of the name. Empty where classes are not described.
///
/// # Safety
/// The object has virtual functions.
unsafe fn class_name<'a>(object: usize) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe {
        match *(*(object as *const usize) as *const usize).sub(1) {
            0 => &[],
            class => text(*((class + 8) as *const usize)),
        }
    }
}

/// # Safety
/// A C string is there, or so many bytes can be read.
unsafe fn text<'a>(address: usize) -> &'a [u8] {
    // SAFETY: the caller's; nothing is read behind the end of a string.
    unsafe {
        let length = (0..LONGEST_NAME).find(|at| *((address + at) as *const u8) == 0);
        core::slice::from_raw_parts(address as *const u8, length.unwrap_or(LONGEST_NAME))
    }
}
