//! The kernel's own code in the process: the time without a system call.
//!
//! Why not libc's `clock_gettime`: a preloaded library may answer in its place. Why not the system call: a filter of the
//! program need not allow it, because programs do not make it either.
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

type ClockGettime = unsafe extern "C" fn(clock: i32, time: *mut [u64; 2]) -> i32;

/// Address of the kernel's `clock_gettime`, 0 before it was looked for and where there is none.
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);

#[cfg(target_arch = "x86_64")]
const NAME: &CStr = c"__vdso_clock_gettime";
#[cfg(target_arch = "aarch64")]
const NAME: &CStr = c"__kernel_clock_gettime";

/// Whether it certainly makes no system call itself, which it does where the kernel's clock is no counter it can read.
static ANSWERS_ALONE: AtomicBool = AtomicBool::new(false);

/// Finds the function in the image whose ELF header is at `header` (`AT_SYSINFO_EHDR`; 0 is none). `answers_alone`: the
/// kernel's clock source is one that this code reads without asking.
///
/// # Safety
/// `header` is 0 or what the kernel said.
pub unsafe fn initialise(header: usize, answers_alone: bool) {
    // SAFETY: the kernel maps the whole image there, for the life of the process.
    let found = unsafe { find(header, NAME) };
    CLOCK_GETTIME.store(found.unwrap_or(0), Relaxed);
    ANSWERS_ALONE.store(answers_alone && found.is_some(), Relaxed);
}

/// Whether reading a clock is no system call.
pub fn answers_alone() -> bool {
    ANSWERS_ALONE.load(Relaxed)
}

/// Seconds and nanoseconds of `clock`; `None` if the kernel's code is not there, or does not know the clock.
#[inline]
pub(crate) fn time(clock: i32) -> Option<[u64; 2]> {
    let address = CLOCK_GETTIME.load(Relaxed);
    if address == 0 {
        return None;
    }
    // SAFETY: the address is that of the kernel's function, which has this type.
    let clock_gettime: ClockGettime = unsafe { core::mem::transmute(address) };
    let mut time = [0; 2];
    // SAFETY: it writes one `timespec` of two words and touches nothing else.
    (unsafe { clock_gettime(clock, &raw mut time) } == 0).then_some(time)
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// An ELF image in memory, read within the range its own program headers span.
struct Image {
    start: usize,
    end: usize,
    /// What to add to an address of the file.
    bias: usize,
}

impl Image {
    /// The value `offset` bytes behind an address of the process, if it lies in the image.
    ///
    /// # Safety
    /// The image is mapped and readable; `T` is a plain number.
    unsafe fn read<T: Copy>(&self, address: usize, offset: usize) -> Option<T> {
        let address = address.checked_add(offset)?;
        let end = address.checked_add(size_of::<T>())?;
        // SAFETY: within the image.
        (address >= self.start && end <= self.end).then(|| unsafe { (address as *const T).read_unaligned() })
    }

    /// A pointer of the dynamic section: an address of the file, or one the loader has moved.
    fn place(&self, pointer: u64) -> usize {
        let pointer = pointer as usize;
        if pointer >= self.start && pointer < self.end { pointer } else { pointer.wrapping_add(self.bias) }
    }

    /// # Safety
    /// As for `read`.
    unsafe fn is_named(&self, text: usize, name: &CStr) -> bool {
        let mut bytes = name.to_bytes_with_nul().iter().enumerate();
        // SAFETY: passed on.
        bytes.all(|(at, byte)| unsafe { self.read::<u8>(text, at) } == Some(*byte))
    }
}

/// The address of function `name`.
///
/// # Safety
/// `header` is 0 or a mapped ELF image, as the kernel makes it: one page at least.
unsafe fn find(header: usize, name: &CStr) -> Option<usize> {
    const PAGE: usize = 4096;
    const ELF64: u64 = 0x0001_0102_464c_457f;
    const MASK: u64 = 0x00ff_ffff_ffff_ffff;
    if header == 0 || !header.is_multiple_of(PAGE) {
        return None;
    }
    let mut image = Image { start: header, end: header + PAGE, bias: 0 };
    // SAFETY: all reads are within the image's range, which is its first page until its extent is known.
    unsafe {
        if image.read::<u64>(header, 0)? & MASK != ELF64 {
            return None;
        }
        let headers = header.checked_add(image.read::<u64>(header, 32)? as usize)?;
        let count = image.read::<u16>(header, 56)?;
        let (mut dynamic, mut end, mut bias) = (None, 0, None);
        for number in 0..usize::from(count) {
            let at = headers.checked_add(number * 56)?;
            let (offset, address) = (image.read::<u64>(at, 8)?, image.read::<u64>(at, 16)?);
            match image.read::<u32>(at, 0)? {
                PT_LOAD if bias.is_none() => {
                    bias = Some(header.wrapping_add(offset as usize).wrapping_sub(address as usize));
                    end = header.checked_add(offset as usize)?.checked_add(image.read::<u64>(at, 40)? as usize)?;
                }
                PT_DYNAMIC => dynamic = Some(address),
                _ => {}
            }
        }
        image.bias = bias?;
        image.end = end.max(image.end);

        let mut at = image.place(dynamic?);
        let (mut hash, mut gnu_hash, mut strings, mut symbols) = (None, None, None, None);
        loop {
            let (tag, value) = (image.read::<u64>(at, 0)?, image.read::<u64>(at, 8)?);
            let place = image.place(value);
            match tag {
                DT_NULL => break,
                DT_HASH => hash = Some(place),
                DT_GNU_HASH => gnu_hash = Some(place),
                DT_STRTAB => strings = Some(place),
                DT_SYMTAB => symbols = Some(place),
                _ => {}
            }
            at += 16;
        }
        let (strings, symbols) = (strings?, symbols?);
        // A dozen symbols: one by one is quick enough, the tables only tell how many there are.
        let count = match (hash, gnu_hash) {
            (Some(hash), _) => image.read::<u32>(hash, 4)?,
            (None, Some(hash)) => count_of_gnu_hash(&image, hash)?,
            (None, None) => return None,
        };
        for number in 0..count as usize {
            let symbol = symbols.checked_add(number.checked_mul(24)?)?;
            let (text, kind, section) =
                (image.read::<u32>(symbol, 0)?, image.read::<u8>(symbol, 4)?, image.read::<u16>(symbol, 6)?);
            const FUNCTION: u8 = 2;
            if section != 0 && kind & 0xf == FUNCTION && image.is_named(strings.wrapping_add(text as usize), name) {
                let address = (image.read::<u64>(symbol, 8)? as usize).wrapping_add(image.bias);
                return (address > image.start && address < image.end).then_some(address);
            }
        }
    }
    None
}

/// How many symbols a GNU hash table stands for: one more than the last of the last chain.
///
/// # Safety
/// As for `Image::read`.
unsafe fn count_of_gnu_hash(image: &Image, table: usize) -> Option<u32> {
    // SAFETY: passed on.
    unsafe {
        let (buckets, first, words) =
            (image.read::<u32>(table, 0)?, image.read::<u32>(table, 4)?, image.read::<u32>(table, 8)?);
        let start = table.checked_add(16)?.checked_add((words as usize).checked_mul(8)?)?;
        let mut last = 0;
        for number in 0..buckets as usize {
            last = last.max(image.read::<u32>(start, number.checked_mul(4)?)?);
        }
        if last < first {
            return Some(first);
        }
        let chains = start.checked_add((buckets as usize).checked_mul(4)?)?;
        while image.read::<u32>(chains, ((last - first) as usize).checked_mul(4)?)? & 1 == 0 {
            last = last.checked_add(1)?;
        }
        last.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn getauxval(kind: u64) -> u64;
    }
    const AT_SYSINFO_EHDR: u64 = 33;

    fn image() -> usize {
        // SAFETY: no preconditions.
        let header = unsafe { getauxval(AT_SYSINFO_EHDR) } as usize;
        assert_ne!(header, 0, "this kernel offers no vDSO to test with");
        header
    }

    #[test]
    fn the_clock_is_found_in_the_kernels_image_and_nothing_else_is() {
        // SAFETY: what the kernel said.
        unsafe {
            assert!(find(image(), NAME).is_some());
            assert_eq!(find(image(), c"__vdso_no_such_function"), None);
            assert_eq!(find(0, NAME), None);
        }
    }

    /// A private copy of the image, to be broken.
    fn copy() -> Vec<u8> {
        // SAFETY: the image has at least one page, and on all kernels two; only its own length is copied.
        unsafe {
            let header = image();
            let mut end = 4096;
            while crate::is_readable(header + end) && end < 4 * 4096 {
                end += 4096;
            }
            core::slice::from_raw_parts(header as *const u8, end).to_vec()
        }
    }

    #[test]
    fn a_damaged_image_is_searched_without_harm() {
        let whole = copy();
        let mapped = crate::map_anonymous(whole.len()).unwrap();
        let mut state = 1u64;
        for _ in 0..20_000 {
            // SAFETY: the mapping is ours and as long as the copy; the range read is bounded by what is mapped, because
            // the extent is restored.
            unsafe {
                core::ptr::copy_nonoverlapping(whole.as_ptr(), mapped.as_ptr(), whole.len());
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % whole.len();
                // Where the segments are and how long is the one thing that is believed.
                if !(32..512).contains(&at) {
                    *mapped.as_ptr().add(at) ^= (state >> 24) as u8;
                }
                let _ = find(mapped.as_ptr() as usize, NAME);
            }
        }
    }
}
