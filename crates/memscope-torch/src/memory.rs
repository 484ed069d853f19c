//! Reading objects whose layout is believed, and asking first where it is not yet.
use memscope_sys::{is_readable, knows_what_is_readable};

/// The `T` that many bytes behind `object`.
///
/// # Safety
/// It is there, and any bits are a `T`.
#[inline(always)]
pub(crate) unsafe fn at<T: Copy>(object: usize, offset: usize) -> T {
    // SAFETY: the caller's.
    unsafe { (object.wrapping_add(offset) as *const T).read_unaligned() }
}

/// Whether so many bytes behind `object` can be read, by asking the kernel of the first, the last and one of each page between.
/// No if the program forbids the question: then nothing is believed.
pub(crate) fn can_read(object: usize, bytes: usize) -> bool {
    const PAGE: usize = 4096;
    let Some(last) = object.checked_add(bytes.max(8) - 8) else { return false };
    object >= PAGE && knows_what_is_readable() && (object..last).step_by(PAGE).all(is_readable) && is_readable(last)
}

/// A vector's beginning and number of elements of that size; `None` if it is none.
pub(crate) fn elements(begin: usize, end: usize, size: usize, most: usize) -> Option<(usize, usize)> {
    let bytes = end.checked_sub(begin)?;
    let number = bytes.checked_div(size)?;
    (bytes == number * size && number <= most && (begin != 0 || number == 0)).then_some((begin, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_whole_elements_and_not_too_many() {
        assert_eq!(elements(160, 208, 16, 100), Some((160, 3)));
        assert_eq!(elements(0, 0, 16, 100), Some((0, 0)));
        for (begin, end) in [(160, 209), (208, 160), (0, 16), (16, 16 + 101 * 16)] {
            assert_eq!(elements(begin, end, 16, 100), None);
        }
    }

    #[test]
    fn what_is_not_mapped_cannot_be_read() {
        let here = [0u64; 4];
        assert!(can_read(here.as_ptr() as usize, 32));
        assert!(!can_read(0, 8) && !can_read(64, 8) && !can_read(usize::MAX - 3, 64));
    }
}
