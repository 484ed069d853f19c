//! What the dynamic loader can be asked without its locks.
//!
//! Hooks run wherever the program allocates, also in a child forked while another thread had one of the loader's locks: to
//! ask `dl_iterate_phdr` there is to wait for ever. `_dl_find_object` (glibc 2.35) takes none. For older C libraries
//! there is the kernel's list of mappings (`objects`).
//!
//! Nor does the loader say when an object is unloaded: our `dlclose` is bypassed in the C library itself (iconv, NSS), in
//! libraries loaded with `RTLD_DEEPBIND`, in namespaces of their own. But it counts objects: those loaded so far, and
//! those there are in each namespace, from which follows how many were unloaded. Both counts are fields of `_rtld_global`,
//! which ld.so exports to the other libraries of glibc; they are found by what must surround them, and compared
//! with what `dl_iterate_phdr` says at the start. An object's place can only be taken by another after the loader has
//! counted it out, under a lock that both need: so who runs in the other one sees the count changed.
use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// `struct dl_find_object` of glibc.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public beginning of `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> c_int;

/// `_dl_find_object`, 0 where the C library has none (before glibc 2.35) or `initialise` never ran.
static FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

/// A loaded object as the loader knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Object {
    /// Of the object, or of the segment that was asked about if there are gaps between its segments.
    pub(super) start: usize,
    pub(super) bias: usize,
    /// Empty for the program itself. Lives as long as the object is loaded.
    pub(super) name: *const c_char,
}

/// Program headers of the program itself, which may lie anywhere.
#[derive(Clone, Copy)]
pub(super) struct ProgramHeaders {
    pub(super) headers: *const libc::Elf64_Phdr,
    pub(super) count: usize,
}

static PROGRAM_BIAS: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_HEADERS: AtomicPtr<libc::Elf64_Phdr> = AtomicPtr::new(null_mut());
static PROGRAM_HEADERS_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Where the loader counts all objects loaded so far: of its 64 bits, the low ones. As long as that is not known, here and
/// below, something that never changes: so there is nothing to ask about on an event's way.
static LOADED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOTHING_LOADED).cast_mut());
static NOTHING_LOADED: AtomicU32 = AtomicU32::new(0);
/// More than one namespace has been in use.
const MANY_NAMESPACES: u32 = 1 << 31;
/// How many namespaces have been in use.
static NAMESPACES: AtomicPtr<AtomicUsize> = AtomicPtr::new((&raw const ONE_NAMESPACE).cast_mut());
static ONE_NAMESPACE: AtomicUsize = AtomicUsize::new(1);
/// The objects there are in the first namespace; of the others, each so many bytes further on.
static PRESENT: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOTHING_LOADED).cast_mut());
static NAMESPACE_BYTES: AtomicUsize = AtomicUsize::new(0);

pub(super) fn initialise() {
    // Not by `dlsym`, which allocates: before glibc 2.34 at a thread's first call, and for a message about what is not there.
    let symbol = |name| memscope_sys::loader::find_global(name).map_or(0, |found| found.address);
    let (find_object, global) = (symbol(c"_dl_find_object"), symbol(c"_rtld_global"));
    FIND_OBJECT.store(find_object, Ordering::Release);
    let mut first = FirstLook { program: None, objects: 0, loaded: None };
    // SAFETY: the callback gets the pointer it expects and does not keep it. It is the only call that takes the loader's
    // locks, and made once, at the start.
    unsafe { c_library_iterate()(Some(look), (&raw mut first).cast()) };
    if let Some((bias, headers)) = first.program {
        PROGRAM_BIAS.store(bias, Ordering::Relaxed);
        PROGRAM_HEADERS.store(headers.headers.cast_mut(), Ordering::Relaxed);
        PROGRAM_HEADERS_COUNT.store(headers.count, Ordering::Release);
    }
    if let Some(loaded) = first.loaded
        && let Some(counters) = find_counters(global, first.objects, loaded)
    {
        NAMESPACES.store(counters.namespaces as *mut AtomicUsize, Ordering::Relaxed);
        PRESENT.store(counters.present as *mut AtomicU32, Ordering::Relaxed);
        LOADED.store(counters.loaded as *mut AtomicU32, Ordering::Relaxed);
        NAMESPACE_BYTES.store(counters.namespace_bytes, Ordering::Release);
    }
}

type Callback = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;
type Iterate = unsafe extern "C" fn(Option<Callback>, *mut c_void) -> c_int;

/// `dl_iterate_phdr` of the C library itself: one in front of it may not be ready. ThreadSanitizer's allocates before it has
/// looked up what its own passes on to.
fn c_library_iterate() -> Iterate {
    match memscope_sys::loader::find_in(c"libc.so.6", c"dl_iterate_phdr") {
        // SAFETY: the C library's function of this name is of this type.
        Some(found) => unsafe { core::mem::transmute::<usize, Iterate>(found.address) },
        None => libc::dl_iterate_phdr,
    }
}

struct FirstLook {
    program: Option<(usize, ProgramHeaders)>,
    objects: u32,
    loaded: Option<u64>,
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, size: usize, first: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes on the `FirstLook` of `initialise` and a valid record of `size` bytes.
    unsafe {
        let (info, first) = (&*info, &mut *first.cast::<FirstLook>());
        if first.objects == 0 {
            let headers = ProgramHeaders { headers: info.dlpi_phdr, count: usize::from(info.dlpi_phnum) };
            first.program = Some((info.dlpi_addr as usize, headers));
        }
        first.objects += 1;
        if size >= offset_of!(libc::dl_phdr_info, dlpi_subs) {
            first.loaded = Some(info.dlpi_adds);
        }
    }
    0
}

/// Addresses of the loader's counters.
struct Counters {
    present: usize,
    namespace_bytes: usize,
    namespaces: usize,
    loaded: usize,
}

/// The counters in `_rtld_global`, if that looks as it does in the versions of glibc that are known:
///
/// ```text
/// ┌───────────────────────────────┬────────────┬───────────┬────────────────┬─────────────────┬────────┐
/// │ 16 namespaces, each beginning │ number of  │ recursive │ recursive      │ recursive mutex │ loaded │
/// │ with first object and number  │ namespaces │ mutex     │ mutex          │ (from 2.35 on)  │        │
/// └───────────────────────────────┴────────────┴───────────┴────────────────┴─────────────────┴────────┘
/// ```
fn find_counters(global: usize, objects: u32, loaded: u64) -> Option<Counters> {
    const MOST_NAMESPACES: usize = 16;
    const WORD: usize = 8;
    const LARGEST_NAMESPACE: usize = 512;
    const MUTEX: usize = size_of::<libc::pthread_mutex_t>();
    const KIND_AT: usize = 16;
    const RECURSIVE: usize = 1;
    // Of the memory behind a shorter structure than expected nothing is known.
    let word = |address: usize| {
        // SAFETY: aligned, as are all offsets, and just found readable.
        memscope_sys::is_readable(address).then(|| unsafe { (address as *const usize).read_volatile() })
    };
    let is_recursive_mutex =
        |address: usize| word(address + KIND_AT).is_some_and(|kind| kind as u32 as usize == RECURSIVE);
    if global == 0 || !global.is_multiple_of(WORD) || word(global + WORD)? as u32 != objects {
        return None;
    }
    let mut found = None;
    for namespace_bytes in (4 * WORD..LARGEST_NAMESPACE).step_by(WORD) {
        let namespaces = global + MOST_NAMESPACES * namespace_bytes;
        let Some(number) = word(namespaces) else { break };
        let mutexes = namespaces + WORD;
        if number == 0
            || number > MOST_NAMESPACES
            || !is_recursive_mutex(mutexes)
            || !is_recursive_mutex(mutexes + MUTEX)
        {
            continue;
        }
        let mutexes_end = mutexes + if is_recursive_mutex(mutexes + 2 * MUTEX) { 3 * MUTEX } else { 2 * MUTEX };
        if word(mutexes_end) == Some(loaded as usize) {
            if found.is_some() {
                // Two places look like it: none is to be trusted.
                return None;
            }
            found = Some(Counters { present: global + WORD, namespace_bytes, namespaces, loaded: mutexes_end });
        }
    }
    found
}

/// Whether `unloads` counts.
pub(super) fn counts_unloads() -> bool {
    NAMESPACE_BYTES.load(Ordering::Acquire) != 0
}

/// [`unloads`] as long as there is one namespace; else anything that is less than [`MANY_NAMESPACES`].
#[inline(always)]
pub(super) fn unloads_in_one_namespace() -> u32 {
    // SAFETY: the statics above or the loader's own counters, which live as long as the process. They are read as they are
    // written, in one piece.
    let (loaded, present) = unsafe { (&*LOADED.load(Ordering::Relaxed), &*PRESENT.load(Ordering::Relaxed)) };
    loaded.load(Ordering::Relaxed).wrapping_sub(present.load(Ordering::Relaxed)) & !MANY_NAMESPACES
}

/// How many objects were unloaded so far, give or take what was before the start; 0 for ever if that is not known. While
/// an object is being loaded it may be one off. With [`MANY_NAMESPACES`] if there are: loading into another one changes
/// the count for one, so that nobody misses that there are more.
pub(super) fn unloads() -> u32 {
    // SAFETY: as above.
    let (loaded, namespaces, present) = unsafe {
        (&*LOADED.load(Ordering::Relaxed), &*NAMESPACES.load(Ordering::Relaxed), &*PRESENT.load(Ordering::Relaxed))
    };
    match namespaces.load(Ordering::Relaxed) {
        1 => unloads_in_one_namespace(),
        number => loaded.load(Ordering::Relaxed).wrapping_sub(all_present(present, number)) | MANY_NAMESPACES,
    }
}

/// The objects there are in all namespaces.
fn all_present(first: &AtomicU32, number: usize) -> u32 {
    const MOST_NAMESPACES: usize = 16;
    let bytes = NAMESPACE_BYTES.load(Ordering::Relaxed);
    (0..number.min(MOST_NAMESPACES)).fold(0, |sum, namespace| {
        // SAFETY: the loader has room for the counters of 16 namespaces, so many bytes from each other.
        let present = unsafe { &*core::ptr::from_ref(first).byte_add(namespace * bytes) };
        sum.wrapping_add(present.load(Ordering::Relaxed))
    })
}

/// Whether `object_at` has an answer.
pub(super) fn can_search() -> bool {
    FIND_OBJECT.load(Ordering::Acquire) != 0
}

/// The object that holds `address`, as far as the loader can be asked.
pub(super) fn object_at(address: usize) -> Option<Object> {
    let function = FIND_OBJECT.load(Ordering::Acquire);
    if function == 0 {
        return None;
    }
    // SAFETY: what dlsym returned for `_dl_find_object` is a function of this type.
    let find_object = unsafe { core::mem::transmute::<usize, FindObject>(function) };
    let mut found =
        FoundObject { flags: 0, map_start: 0, map_end: 0, link_map: null(), eh_frame: null(), reserved: [0; 7] };
    // SAFETY: any address may be asked about, and the answer goes into a structure of glibc's own layout.
    if unsafe { find_object(address as *const c_void, &mut found) } != 0 || found.link_map.is_null() {
        return None;
    }
    // SAFETY: the loader's own link map of an object that is in use by the calling thread's stack.
    let LinkMap { bias, name } = unsafe { found.link_map.read() };
    Some(Object { start: found.map_start, bias, name })
}

/// The program's own headers if it was loaded at `bias`.
pub(super) fn program_headers(bias: usize) -> Option<ProgramHeaders> {
    let count = PROGRAM_HEADERS_COUNT.load(Ordering::Acquire);
    let headers = PROGRAM_HEADERS.load(Ordering::Relaxed);
    let is_program = count != 0 && !headers.is_null() && PROGRAM_BIAS.load(Ordering::Relaxed) == bias;
    is_program.then_some(ProgramHeaders { headers, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unloads_are_counted_in_all_namespaces() {
        initialise();
        if !counts_unloads() {
            // SAFETY: a valid name.
            let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_rtld_global".as_ptr()) };
            assert!(global.is_null(), "glibc's counters are found");
            return;
        }
        // No other test loads or unloads anything.
        let unloads = || unloads() & !MANY_NAMESPACES;
        let before = unloads();
        // SAFETY: a library that does nothing on loading.
        unsafe {
            let library = libc::dlopen(c"libBrokenLocale.so.1".as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            assert_eq!(unloads(), before, "loaded");
            assert_eq!(libc::dlclose(library), 0);
            assert_eq!(unloads(), before.wrapping_add(1));
            let library = libc::dlmopen(libc::LM_ID_NEWLM, c"libBrokenLocale.so.1".as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            assert_eq!(unloads(), before.wrapping_add(1), "loaded with its own C library");
            assert_ne!(super::unloads(), unloads_in_one_namespace());
            assert_eq!(libc::dlclose(library), 0);
            assert!(unloads().wrapping_sub(before) > 2);
        }
    }

    #[test]
    fn counters_that_do_not_look_like_themselves_are_not_trusted() {
        assert!(find_counters(0, 4, 4).is_none());
        let mut memory = vec![0usize; 2000];
        let global = memory.as_ptr() as usize;
        let mutex_words = size_of::<libc::pthread_mutex_t>() / 8;
        let namespaces = 16 * 20;
        memory[1] = 4;
        memory[namespaces] = 1;
        for mutex in 0..3 {
            memory[namespaces + 1 + mutex * mutex_words + 2] = 1;
        }
        let loaded = namespaces + 1 + 3 * mutex_words;
        memory[loaded] = 7;
        let found = find_counters(global, 4, 7).unwrap();
        assert_eq!((found.loaded - global) / 8, loaded);
        assert_eq!((found.present - global, found.namespace_bytes), (8, 160));
        assert!(find_counters(global, 5, 7).is_none(), "another number of objects");
        assert!(find_counters(global, 4, 8).is_none(), "another number of loads");
        memory[namespaces] = 17;
        assert!(find_counters(global, 4, 7).is_none(), "too many namespaces");
        memory[namespaces] = 1;
        memory[namespaces + 3] = 0;
        assert!(find_counters(global, 4, 7).is_none(), "no mutex");
        memory[namespaces + 3] = 1;
        memory[namespaces + 1 + 2 * mutex_words + 2] = 0;
        memory[namespaces + 1 + 2 * mutex_words] = 9;
        let older = find_counters(global, 4, 9).unwrap();
        assert_eq!((older.loaded - global) / 8, namespaces + 1 + 2 * mutex_words, "two mutexes, as before glibc 2.35");
    }
}
