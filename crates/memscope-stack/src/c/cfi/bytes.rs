//! Reading the tables, byte by byte.
use super::Tables;

/// A range of table bytes being read from the front.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    at: usize,
    end: usize,
}

impl Bytes {
    /// From `at` to the end of the tables' segment.
    pub(super) fn new(tables: &Tables, at: usize) -> Option<Bytes> {
        (at >= tables.start && at <= tables.end).then_some(Bytes { at, end: tables.end })
    }

    /// Takes the next `length` bytes off.
    pub(super) fn split(&mut self, length: usize) -> Option<Bytes> {
        if length > self.end.checked_sub(self.at)? {
            return None;
        }
        let front = Bytes { at: self.at, end: self.at + length };
        self.at = front.end;
        Some(front)
    }

    /// The address of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The address behind the last byte.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    fn take<T: Copy>(&mut self) -> Option<T> {
        let bytes = self.split(size_of::<T>())?;
        // SAFETY: `Bytes::new` and `split` keep the range within a readable segment of a loaded object, and `T` is only
        // instantiated with integers below.
        Some(unsafe { (bytes.at as *const T).read_unaligned() })
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take()
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take()
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.take()
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take()
    }

    pub(super) fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    pub(super) fn sleb(&mut self) -> Option<i64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= -1 << shift;
                }
                return Some(value);
            }
        }
    }

    /// A pointer in one of the DW_EH_PE encodings; `data` is what data-relative ones are relative to.
    pub(super) fn encoded(&mut self, encoding: u8, data: usize) -> Option<usize> {
        let base = match encoding & encoding::RELATIVE_TO {
            encoding::ABSOLUTE => 0,
            encoding::PC_RELATIVE => self.at,
            encoding::DATA_RELATIVE => data,
            _ => return None,
        };
        if encoding & encoding::INDIRECT != 0 {
            return None;
        }
        Some(base.wrapping_add(self.encoded_value(encoding)?))
    }

    pub(super) fn encoded_value(&mut self, encoding: u8) -> Option<usize> {
        Some(match encoding & encoding::FORMAT {
            0x00 | 0x04 | 0x0c => self.u64()? as usize,
            0x01 => self.uleb()? as usize,
            0x02 => usize::from(self.u16()?),
            0x03 => self.u32()? as usize,
            0x09 => self.sleb()? as usize,
            0x0a => self.u16()? as i16 as usize,
            0x0b => self.i32()? as usize,
            _ => return None,
        })
    }
}

/// DW_EH_PE.
pub(super) mod encoding {
    pub(crate) const OMIT: u8 = 0xff;
    pub(crate) const FORMAT: u8 = 0x0f;
    pub(crate) const RELATIVE_TO: u8 = 0x70;
    pub(crate) const INDIRECT: u8 = 0x80;
    pub(crate) const ABSOLUTE: u8 = 0x00;
    pub(crate) const PC_RELATIVE: u8 = 0x10;
    pub(crate) const DATA_RELATIVE: u8 = 0x30;
    pub(crate) const DATA_RELATIVE_I32: u8 = 0x3b;
}
