//! A payload, byte by byte.
/// Where the next byte of a payload goes. Only [`super::extended`] and [`super::node`] make one, over room they were promised.
pub(crate) struct Output(pub(super) *mut u8);

impl Output {
    pub(super) fn byte(&mut self, value: u8) {
        self.copy(&[value]);
    }

    pub(super) fn word(&mut self, value: u64) {
        self.copy(&value.to_le_bytes());
    }

    /// LEB128.
    #[inline]
    pub(super) fn varint(&mut self, mut value: u64) {
        let mut at = self.0;
        // SAFETY: as in `copy`.
        unsafe {
            while value >= 0x80 {
                at.write(value as u8 | 0x80);
                at = at.add(1);
                value >>= 7;
            }
            at.write(value as u8);
            self.0 = at.add(1);
        }
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        // SAFETY: `Extended::room` is the sum of what each field may need, and the caller of `extended` keeps it; that of `node`
        // keeps `MAX_NODE`.
        unsafe {
            self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.0 = self.0.add(bytes.len());
        }
    }
}
