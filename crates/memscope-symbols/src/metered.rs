//! Bytes of a debug section that can only be read so many times.
//!
//! Debug information refers to itself by offset. A file in which thousands of entries all refer to the same large list
//! makes a correct reader do work, and allocate, by the product of the two. Here every read costs one unit of a meter
//! shared by all sections of a file, so that the work is bounded by a multiple of their size, whatever they hold.
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use addr2line::gimli::{Error, Reader, ReaderOffsetId, Result, RunTimeEndian};

/// What is left of the reads granted to one file. Plain load and store: a `Context` is used by one thread at a time,
/// and a lost update would only grant a read too many.
pub(crate) struct Meter(AtomicU64);

impl Meter {
    pub(crate) fn new(reads: u64) -> Arc<Self> {
        Arc::new(Meter(AtomicU64::new(reads)))
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn charge(&self, reads: u64) -> Result<()> {
        let left = self.0.load(Ordering::Relaxed).saturating_sub(reads);
        self.0.store(left, Ordering::Relaxed);
        if left == 0 { Err(Error::Io) } else { Ok(()) }
    }
}

/// A whole section; the owner of the bytes that readers share.
struct Section {
    bytes: Box<[u8]>,
    endian: RunTimeEndian,
    meter: Arc<Meter>,
}

#[derive(Clone)]
pub(crate) struct MeteredReader {
    section: Arc<Section>,
    // Invariant: start <= end <= section.bytes.len().
    start: usize,
    end: usize,
}

impl MeteredReader {
    pub(crate) fn new(bytes: Box<[u8]>, endian: RunTimeEndian, meter: Arc<Meter>) -> Self {
        let end = bytes.len();
        MeteredReader { section: Arc::new(Section { bytes, endian, meter }), start: 0, end }
    }

    fn bytes(&self) -> &[u8] {
        self.section.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the reader would stand after `len` bytes.
    fn after(&self, len: usize) -> Result<usize> {
        if len <= self.end - self.start { Ok(self.start + len) } else { Err(Error::UnexpectedEof(self.offset_id())) }
    }
}

impl fmt::Debug for MeteredReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MeteredReader({}..{})", self.start, self.end)
    }
}

impl Reader for MeteredReader {
    type Endian = RunTimeEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> RunTimeEndian {
        self.section.endian
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.end = self.start;
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.end = self.after(len)?;
        Ok(())
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.start.saturating_sub(base.start)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.bytes().as_ptr().addr() as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let distance = id.0.checked_sub(self.offset_id().0)?;
        usize::try_from(distance).ok().filter(|&distance| distance <= self.len())
    }

    fn find(&self, byte: u8) -> Result<usize> {
        /// Bytes searched for the price of one read.
        const STRIDE: u64 = 16;
        let found = self.bytes().iter().position(|&candidate| candidate == byte);
        self.section.meter.charge(1 + found.unwrap_or(self.len()) as u64 / STRIDE)?;
        found.ok_or_else(|| Error::UnexpectedEof(self.offset_id()))
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.section.meter.charge(1)?;
        self.start = self.after(len)?;
        Ok(())
    }

    fn split(&mut self, len: usize) -> Result<Self> {
        self.section.meter.charge(1)?;
        let middle = self.after(len)?;
        let head = MeteredReader { section: Arc::clone(&self.section), start: self.start, end: middle };
        self.start = middle;
        Ok(head)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.bytes()))
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        std::str::from_utf8(self.bytes()).map(Cow::Borrowed).map_err(|_| Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(String::from_utf8_lossy(self.bytes()))
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.section.meter.charge(1)?;
        let end = self.after(buffer.len())?;
        match self.section.bytes.get(self.start..end) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(Error::UnexpectedEof(self.offset_id())),
        }
        self.start = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8], reads: u64) -> MeteredReader {
        MeteredReader::new(bytes.into(), RunTimeEndian::Little, Meter::new(reads))
    }

    #[test]
    fn reads_advance_and_stop_at_the_end() {
        let mut reader = reader(&[1, 2, 3, 0, 9], 100);
        let whole = reader.clone();
        assert_eq!(reader.read_u16(), Ok(0x0201));
        assert_eq!(reader.find(0), Ok(1));
        let mut head = reader.split(1).unwrap();
        assert_eq!((head.read_u8(), head.read_u8().is_err()), (Ok(3), true));
        assert_eq!(reader.offset_from(&whole), 3);
        assert_eq!(whole.lookup_offset_id(reader.offset_id()), Some(3));
        assert!(reader.skip(3).is_err());
        assert!(reader.truncate(3).is_err());
        assert_eq!(reader.skip(2), Ok(()));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_spent_meter_ends_every_reader_of_the_file() {
        let mut reader = reader(&[7; 64], 4);
        let mut other = reader.clone();
        assert_eq!(reader.read_u8(), Ok(7));
        assert_eq!(other.read_u8(), Ok(7));
        assert_eq!(reader.read_u8(), Ok(7));
        assert!(other.read_u8().is_err());
        assert!(reader.read_u8().is_err());
        assert!(reader.section.meter.is_spent());
    }
}
