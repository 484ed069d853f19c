//! `str` and `bytes` objects, read where they lie.
use super::interpreter::{is_plausible, load};
use super::layout::{BYTES_DATA, BYTES_SIZE, Layout, TEXT_HASH, TEXT_LENGTH, TEXT_STATE};

/// Where the characters of a `str` are: `length` of them, of `kind` bytes each.
struct Characters {
    data: usize,
    length: usize,
    kind: usize,
}

/// `None` if it is empty or cannot be a `str`.
///
/// # Safety
/// `object` must be a live `str` object that this layout describes.
#[inline(always)]
unsafe fn characters(layout: &Layout, object: usize) -> Option<Characters> {
    // SAFETY: the caller's; the fields lie in the first bytes of every `str`.
    let (length, state) = unsafe { (load::<isize>(object, TEXT_LENGTH), load::<u32>(object, TEXT_STATE)) };
    // … undefined : 24 | ready or static : 1 | ascii : 1 | compact : 1 | kind : 3 | interned : 2
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state & 1 << 5 != 0, state & 1 << 6 != 0);
    let data = if !is_compact {
        // SAFETY: what is not compact is a whole PyUnicodeObject, which ends with the pointer to its characters.
        unsafe { load::<usize>(object, layout.compact_size.into()) }
    } else if is_ascii {
        object + usize::from(layout.ascii_size)
    } else {
        object + usize::from(layout.compact_size)
    };
    let plausible_data = (0x1_0000..1 << 48).contains(&data);
    if length <= 0 || !plausible_data || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    Some(Characters { data, length: length as usize, kind: kind as usize })
}

/// The UTF-8 of the `str` at `object`, cut at a character where `buffer` ends; empty if it cannot be one.
///
/// # Safety
/// `object` must be 0, implausible or a live `str` object that this layout describes.
pub(super) unsafe fn utf8<'b>(layout: &Layout, object: usize, buffer: &'b mut [u8]) -> &'b [u8] {
    if !is_plausible(object) {
        return &[];
    }
    // SAFETY: the caller's.
    let Some(Characters { data, length, kind }) = (unsafe { characters(layout, object) }) else { return &[] };
    let mut used = 0;
    for at in 0..length {
        // SAFETY: the object holds `length` characters of `kind` bytes, aligned to that.
        let character = unsafe {
            match kind {
                1 => u32::from(load::<u8>(data, at)),
                2 => u32::from(load::<u16>(data, at * 2)),
                _ => load::<u32>(data, at * 4),
            }
        };
        // Lone surrogates stand for bytes of a file name that are not UTF-8; UTF-8 has no place for them.
        let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
        let Some(room) = buffer.get_mut(used..).filter(|room| room.len() >= character.len_utf8()) else { break };
        used += character.encode_utf8(room).len();
    }
    buffer.get(..used).unwrap_or_default()
}

/// A number that tells `str` of different contents apart: the hash, where the object knows it, else its ends.
///
/// # Safety
/// `object` must be a live `str` object that this layout describes.
#[inline(always)]
pub(super) unsafe fn stamp(layout: &Layout, object: usize) -> u64 {
    const NOT_HASHED: i64 = -1;
    // SAFETY: the caller's; the field lies in the first bytes of every `str`.
    match unsafe { load::<i64>(object, TEXT_HASH) } {
        // SAFETY: passed on.
        NOT_HASHED => unsafe { outline(layout, object) },
        hash => hash as u64,
    }
}

/// Length, the first 8 bytes and the last 32, mixed.
///
/// # Safety
/// As for [`stamp`].
#[inline(always)]
unsafe fn outline(layout: &Layout, object: usize) -> u64 {
    // SAFETY: the caller's.
    let Some(Characters { data, length, kind }) = (unsafe { characters(layout, object) }) else { return 0 };
    let end = data + length * kind;
    // SAFETY: within the characters, or at their start, where even a single one is followed by a zero and by what the
    // allocator rounds up to.
    let word = |back: usize| unsafe { ((end - back).max(data) as *const u64).read_unaligned() };
    // Two halves that do not wait for each other.
    let (near, far) = (word(8).rotate_left(11).wrapping_add(word(16)), word(24).rotate_left(23).wrapping_add(word(32)));
    near ^ far.rotate_left(41) ^ word(end - data).rotate_left(53) ^ (length as u64) << 48 ^ kind as u64
}

/// The first `most` bytes of the `bytes` at `object`; empty if it cannot be one.
///
/// # Safety
/// `object` must be 0, implausible or a `bytes` object that lives and stays as it is for `'a`.
pub(super) unsafe fn bytes<'a>(object: usize, most: usize) -> &'a [u8] {
    if !is_plausible(object) {
        return &[];
    }
    // SAFETY: the caller's.
    let size = unsafe { load::<isize>(object, BYTES_SIZE) };
    let Ok(size) = usize::try_from(size) else { return &[] };
    // SAFETY: `size` bytes follow the header of the object.
    unsafe { core::slice::from_raw_parts((object + BYTES_DATA) as *const u8, size.min(most)) }
}

#[cfg(test)]
mod tests {
    use super::super::image::{Image, Text};
    use super::*;

    const OLD: u32 = 0x030b_00f0;
    const NEW: u32 = 0x030c_00f0;

    fn decode(hex: u32, form: Text, text: &str) -> String {
        let layout = Layout::of_version(hex).unwrap();
        let mut image = Image::new(layout);
        let object = image.text(form, text);
        let mut buffer = [0u8; 4096];
        // SAFETY: the image holds a `str` of that layout.
        std::str::from_utf8(unsafe { utf8(&layout, object, &mut buffer) }).unwrap().to_owned()
    }

    #[test]
    fn every_storage_form_decodes_to_the_same_text() {
        for hex in [OLD, NEW] {
            assert_eq!(decode(hex, Text::Ascii, "train.py"), "train.py");
            assert_eq!(decode(hex, Text::Latin1, "café"), "café");
            assert_eq!(decode(hex, Text::Ucs2, "训练.py"), "训练.py");
            assert_eq!(decode(hex, Text::Ucs4, "x🚀训é"), "x🚀训é");
            assert_eq!(decode(hex, Text::Separate, "训练"), "训练");
            assert_eq!(decode(hex, Text::Ascii, ""), "");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let layout = Layout::of_version(NEW).unwrap();
        let mut image = Image::new(layout);
        let object = image.text(Text::Ucs2, &"训".repeat(2000));
        let mut buffer = [0u8; 4096];
        // SAFETY: the image holds a `str` of that layout.
        let text = unsafe { utf8(&layout, object, &mut buffer) };
        assert_eq!(text.len(), 4095);
        assert_eq!(std::str::from_utf8(text).unwrap(), "训".repeat(1365));
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        let layout = Layout::of_version(NEW).unwrap();
        let mut image = Image::new(layout);
        let object = image.text_of_units(2, &[0x61, 0xdc80, 0x62]);
        let mut buffer = [0u8; 64];
        // SAFETY: the image holds a `str` of that layout.
        assert_eq!(unsafe { utf8(&layout, object, &mut buffer) }, "a\u{fffd}b".as_bytes());
    }

    #[test]
    fn what_is_no_text_is_empty() {
        let layout = Layout::of_version(NEW).unwrap();
        let mut buffer = [0u8; 64];
        let not_ready = [1usize, 0, 5, 0, 0, 0, 0, 0, 0];
        for object in [0, 3, usize::MAX - 7, not_ready.as_ptr() as usize] {
            // SAFETY: implausible addresses, and zeroed memory of the size of a `str`.
            assert!(unsafe { utf8(&layout, object, &mut buffer) }.is_empty());
        }
    }

    #[test]
    fn bytes_are_read_up_to_the_limit() {
        let mut image = Image::new(Layout::of_version(NEW).unwrap());
        let object = image.bytes(b"0123456789");
        // SAFETY: the image holds a `bytes` object and outlives the slices; 0 is implausible.
        unsafe {
            assert_eq!(bytes(object, 100), b"0123456789");
            assert_eq!(bytes(object, 4), b"0123");
            assert!(bytes(0, 4).is_empty());
        }
    }
}
