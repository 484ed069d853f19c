//! Records in the order of time, in bounded memory: runs are sorted as they fill up, and merged when they are read.
//!
//! The existing tool writes a block when it ends, so its files are in no order of time; those written here are, and
//! sorting them costs a look. What does not fit into one run goes to a temporary file.
use super::record::{RECORD_BYTES, Record, Texts, What};
use memscope_model::TimestampNs;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// When a run is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    pub(crate) records: usize,
    pub(crate) text: usize,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits { records: 1 << 20, text: 64 << 20 }
    }
}

/// Records as they come.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    limits: RunLimits,
    records: Vec<Record>,
    text: Vec<u8>,
    spilled: Vec<Run>,
    file: Option<File>,
    length: u64,
}

/// A sorted run in the file: its records, and behind them their texts.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    records: u64,
}

impl Run {
    fn text_start(&self) -> u64 {
        self.start + self.records * RECORD_BYTES as u64
    }
}

impl Runs {
    pub(crate) fn new(limits: RunLimits) -> Runs {
        Runs { limits, ..Runs::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.spilled.is_empty()
    }

    /// `text` is that of a note.
    pub(crate) fn push(&mut self, mut record: Record, text: &[u8]) -> io::Result<()> {
        if let What::Note { texts, .. } = &mut record.what {
            *texts = Texts { start: self.text.len() as u64, length: text.len() as u32 };
            self.text.extend_from_slice(text);
        }
        self.records.push(record);
        if self.records.len() >= self.limits.records || self.text.len() >= self.limits.text {
            self.spill()?;
        }
        Ok(())
    }

    /// All records came.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.spilled.is_empty() {
            self.sort();
            return Ok(Sorted { records: self.records, text: self.text, runs: Vec::new(), file: None });
        }
        self.spill()?;
        Ok(Sorted { records: Vec::new(), text: Vec::new(), runs: self.spilled, file: self.file })
    }

    /// Keeps the order of rows that cannot be told apart, and finds sorted stretches by itself.
    fn sort(&mut self) {
        self.records.sort_by_key(Record::order);
    }

    fn spill(&mut self) -> io::Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        self.sort();
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        let mut output = BufWriter::with_capacity(1 << 18, file);
        for record in &self.records {
            output.write_all(&record.to_bytes())?;
        }
        output.write_all(&self.text)?;
        output.flush()?;
        let run = Run { start: self.length, records: self.records.len() as u64 };
        self.length = run.text_start() + self.text.len() as u64;
        self.spilled.push(run);
        self.records.clear();
        self.text.clear();
        Ok(())
    }
}

/// All records, sorted: in memory, or in runs of a file.
#[derive(Debug)]
pub(crate) struct Sorted {
    records: Vec<Record>,
    text: Vec<u8>,
    runs: Vec<Run>,
    file: Option<File>,
}

/// Where a reading of [`Sorted`] is.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// How many were read.
    at: u64,
    heads: Vec<Head>,
    order: BinaryHeap<Reverse<((TimestampNs, u64), usize)>>,
}

/// The next record of a run, and what was read ahead.
#[derive(Debug)]
struct Head {
    record: Record,
    next: u64,
    buffer: Vec<u8>,
    buffer_at: usize,
}

const READ_AHEAD: u64 = 1024;

impl Sorted {
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64 + self.runs.iter().map(|run| run.records).sum::<u64>()
    }

    /// Of the first record; 0 if there is none.
    pub(crate) fn first_time(&self) -> io::Result<TimestampNs> {
        let first = self.next(&mut self.cursor()?, &mut Vec::new())?;
        Ok(first.map(|record| record.time).unwrap_or_default())
    }

    pub(crate) fn cursor(&self) -> io::Result<Cursor> {
        let mut cursor = Cursor { at: 0, heads: Vec::new(), order: BinaryHeap::new() };
        for run in 0..self.runs.len() {
            let empty = Record::from_bytes(&[0; RECORD_BYTES]).ok_or(io::ErrorKind::InvalidData)?;
            let mut head = Head { record: empty, next: 0, buffer: Vec::new(), buffer_at: 0 };
            if self.advance(run, &mut head)? {
                cursor.order.push(Reverse((head.record.order(), run)));
            }
            cursor.heads.push(head);
        }
        Ok(cursor)
    }

    /// The next record; the text of a note replaces what is in `text`.
    pub(crate) fn next(&self, cursor: &mut Cursor, text: &mut Vec<u8>) -> io::Result<Option<Record>> {
        text.clear();
        let Some(file) = &self.file else {
            let Some(record) = self.records.get(cursor.at as usize) else { return Ok(None) };
            cursor.at += 1;
            if let What::Note { texts, .. } = record.what {
                let start = texts.start as usize;
                text.extend_from_slice(self.text.get(start..start + texts.length as usize).unwrap_or_default());
            }
            return Ok(Some(*record));
        };
        let Some(Reverse((_, run))) = cursor.order.pop() else { return Ok(None) };
        let head = &mut cursor.heads[run];
        let record = head.record;
        if self.advance(run, head)? {
            cursor.order.push(Reverse((head.record.order(), run)));
        }
        cursor.at += 1;
        if let What::Note { texts, .. } = record.what {
            text.resize(texts.length as usize, 0);
            file.read_exact_at(text, self.runs[run].text_start() + texts.start)?;
        }
        Ok(Some(record))
    }

    fn advance(&self, run: usize, head: &mut Head) -> io::Result<bool> {
        let (Some(run), Some(file)) = (self.runs.get(run), &self.file) else { return Ok(false) };
        if head.next == run.records {
            return Ok(false);
        }
        if head.buffer_at == head.buffer.len() {
            let ahead = READ_AHEAD.min(run.records - head.next);
            head.buffer.resize(ahead as usize * RECORD_BYTES, 0);
            file.read_exact_at(&mut head.buffer, run.start + head.next * RECORD_BYTES as u64)?;
            head.buffer_at = 0;
        }
        let bytes = head.buffer[head.buffer_at..].first_chunk().ok_or(io::ErrorKind::InvalidData)?;
        head.record = Record::from_bytes(bytes).ok_or(io::ErrorKind::InvalidData)?;
        head.buffer_at += RECORD_BYTES;
        head.next += 1;
        Ok(true)
    }
}

impl Cursor {
    pub(crate) fn count(&self) -> u64 {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::records;
    use super::*;
    use proptest::prelude::*;

    fn sorted(records: &[(Record, Vec<u8>)], limits: RunLimits) -> Vec<(Record, Vec<u8>)> {
        let mut runs = Runs::new(limits);
        for (record, text) in records {
            runs.push(*record, text).unwrap();
        }
        let sorted = runs.finish().unwrap();
        assert_eq!(sorted.len(), records.len() as u64);
        let mut cursor = sorted.cursor().unwrap();
        let mut text = Vec::new();
        std::iter::from_fn(|| sorted.next(&mut cursor, &mut text).unwrap().map(|record| (record, text.clone())))
            .collect()
    }

    /// Where the text is does not matter, only what it is.
    fn without_places(records: Vec<(Record, Vec<u8>)>) -> Vec<(Record, Vec<u8>)> {
        let anywhere = |(mut record, text): (Record, Vec<u8>)| {
            if let What::Note { texts, .. } = &mut record.what {
                *texts = Texts::default();
                return (record, text);
            }
            (record, Vec::new())
        };
        records.into_iter().map(anywhere).collect()
    }

    proptest! {
        #[test]
        fn runs_on_disk_come_back_as_one_stable_sort(
            records in proptest::collection::vec((records(), proptest::collection::vec(any::<u8>(), 0..9)), 0..300),
            limit in 1usize..40,
        ) {
            let mut expected = without_places(records.clone());
            expected.sort_by_key(|(record, _)| record.order());
            let limits = RunLimits { records: limit, text: limit * 5 };
            prop_assert_eq!(without_places(sorted(&records, limits)), expected.clone());
            prop_assert_eq!(without_places(sorted(&records, RunLimits::default())), expected);
        }
    }
}
