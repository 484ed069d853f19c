//! Writes the csv form of a dump.
use crate::digits::{address, push_decimal};
use crate::rows::{CallRow, Event, FrameCell, FrameRow, NOT_APPLICABLE, REFERENCE, Row, StackCells, Value};
use crate::worker::{Consumer, Worker};
use memchr::memchr;
use std::io::{self, Write};
use std::mem;

/// Rows are gathered until this many bytes are worth a system call.
const CHUNK: usize = 1 << 20;

/// Writes rows to an output in large pieces; [`CsvWriter::finish`] writes the last one.
pub struct CsvWriter<W: Write + Send + 'static> {
    output: Worker<Output<W>>,
    pending: Vec<u8>,
}

struct Output<W>(W);

impl<W: Write + Send + 'static> Consumer for Output<W> {
    type Piece = Vec<u8>;
    type Error = io::Error;

    fn consume(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        self.0.write_all(piece)?;
        piece.clear();
        Ok(())
    }
}

impl<W: Write + Send + 'static> CsvWriter<W> {
    /// Begins with the header line.
    pub fn new(output: W, columns: &[&str]) -> CsvWriter<W> {
        let mut pending = Vec::with_capacity(CHUNK + CHUNK / 4);
        pending.extend_from_slice(columns.join(",").as_bytes());
        pending.push(b'\n');
        CsvWriter { output: Worker::new(Output(output)), pending }
    }

    pub fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        push_row(&mut self.pending, row);
        self.pass_on()
    }

    /// What was written to the output before stays.
    pub fn going_on(output: W) -> CsvWriter<W> {
        CsvWriter { output: Worker::new(Output(output)), pending: Vec::with_capacity(CHUNK + CHUNK / 4) }
    }

    pub fn write_call(&mut self, row: &CallRow<'_>) -> io::Result<()> {
        push_call_row(&mut self.pending, row);
        self.pass_on()
    }

    pub fn write_frame(&mut self, row: &FrameRow<'_>) -> io::Result<()> {
        push_frame_row(&mut self.pending, row);
        self.pass_on()
    }

    #[inline]
    fn pass_on(&mut self) -> io::Result<()> {
        if self.pending.len() >= CHUNK {
            self.pending = self.output.submit(mem::take(&mut self.pending))?;
        }
        Ok(())
    }

    pub fn finish(self) -> io::Result<()> {
        match self.output.finish(self.pending)? {
            Some(Output(mut output)) => output.flush(),
            None => Ok(()),
        }
    }
}

pub(super) fn push_row(out: &mut Vec<u8>, row: &Row<'_>) {
    push_decimal(out, row.id);
    out.push(b',');
    out.extend_from_slice(row.event.text().as_bytes());
    out.push(b',');
    out.extend_from_slice(row.event_type.text().as_bytes());
    out.push(b',');
    match row.name {
        // Readers of these files know the texts of marks in quotes.
        Some(text) if row.event == Event::Mstx => push_quoted(out, text),
        name => push_plain(out, name.unwrap_or(NOT_APPLICABLE)),
    }
    out.push(b',');
    push_decimal(out, row.time.0);
    out.push(b',');
    push_decimal(out, u64::from(row.process));
    out.push(b',');
    push_decimal(out, u64::from(row.thread));
    out.push(b',');
    row.device.push_text(out);
    out.push(b',');
    match row.pointer {
        Some(pointer) => out.extend_from_slice(&address(pointer)),
        None => out.extend_from_slice(NOT_APPLICABLE.as_bytes()),
    }
    out.push(b',');
    push_attributes(out, row);
    out.push(b',');
    match row.stack {
        StackCells::Inline { python, c } => {
            push_stack(out, python);
            out.push(b',');
            push_stack(out, c);
        }
        StackCells::Table { python, c } => {
            push_reference(out, python);
            out.push(b',');
            push_reference(out, c);
        }
    }
    out.push(b'\n');
}

pub(super) fn push_frame_row(out: &mut Vec<u8>, row: &FrameRow<'_>) {
    push_decimal(out, u64::from(row.id));
    out.push(b',');
    if row.caller != 0 {
        push_decimal(out, u64::from(row.caller));
    }
    out.push(b',');
    match row.frame {
        FrameCell::Text(text) => push_quoted(out, text),
        FrameCell::SameAs(row) => push_reference(out, row),
    }
    out.push(b'\n');
}

pub(super) fn push_call_row(out: &mut Vec<u8>, row: &CallRow<'_>) {
    if row.prefix().is_empty() {
        push_plain(out, row.function);
    } else {
        push_plain(out, &[row.prefix(), row.function].concat());
    }
    for time in [row.start, row.end] {
        out.push(b',');
        match time {
            Some(time) => push_decimal(out, time.0),
            None => out.extend_from_slice(NOT_APPLICABLE.as_bytes()),
        }
    }
    out.push(b',');
    push_decimal(out, u64::from(row.thread));
    out.push(b',');
    push_decimal(out, u64::from(row.process));
    out.push(b'\n');
}

/// `#<row>`, or nothing for row 0.
fn push_reference(out: &mut Vec<u8>, row: u32) {
    if row != 0 {
        out.push(REFERENCE);
        push_decimal(out, u64::from(row));
    }
}

/// `"{key:value,key:value}"`, or nothing.
fn push_attributes(out: &mut Vec<u8>, row: &Row<'_>) {
    if row.attributes.is_empty() {
        return;
    }
    out.extend_from_slice(b"\"{");
    for (at, attribute) in row.attributes.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(attribute.key.as_bytes());
        out.push(b':');
        match attribute.value {
            Value::Text(text) => push_escaped(out, text),
            number => number.push_text(out),
        }
    }
    out.extend_from_slice(b"}\"");
}

/// A stack cell is quoted even if one frame without a comma would not need it: readers of these files know it so.
fn push_stack(out: &mut Vec<u8>, stack: &str) {
    if !stack.is_empty() {
        push_quoted(out, stack);
    }
}

/// A cell that is quoted only where it must be.
pub(crate) fn push_plain(out: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        push_quoted(out, text);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// The inside of a quoted cell: quotes are doubled.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(quote) = memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=quote]);
        out.push(b'"');
        rest = &rest[quote + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Attribute, COLUMNS, DeviceId, EventType, key};
    use memscope_model::{Pool, TimestampNs};
    use proptest::prelude::*;
    use std::io::{Read, Seek};

    fn written(rows: &[Row<'_>]) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = CsvWriter::new(file.try_clone().unwrap(), &COLUMNS);
        for row in rows {
            writer.write(row).unwrap();
        }
        writer.finish().unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn row<'a>(attributes: &'a [Attribute<'a>]) -> Row<'a> {
        Row {
            id: 12,
            event: Event::Malloc,
            event_type: EventType::of(Pool::Host),
            name: None,
            time: TimestampNs(1_764_753_084_425_691_000),
            process: 31,
            thread: 32,
            device: DeviceId::Cpu,
            pointer: Some(0x12c0_4140_0000),
            attributes,
            stack: StackCells::NONE,
        }
    }

    #[test]
    fn a_row_is_spelled_as_the_manual_spells_it() {
        let attributes = [
            Attribute { key: key::ALLOCATION_ID, value: Value::Integer(4) },
            Attribute { key: key::ADDRESS, value: Value::Address(0x12c0_4140_0000) },
            Attribute { key: key::SIZE, value: Value::Integer(10) },
        ];
        let text = String::from_utf8(written(&[row(&attributes)])).unwrap();
        assert_eq!(
            text,
            "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n\
             12,MALLOC,HOST,N/A,1764753084425691000,31,32,cpu,0x000012c041400000,\
             \"{allocation_id:4,addr:0x000012c041400000,size:10}\",,\n"
        );
    }

    #[test]
    fn a_row_of_no_device_and_no_address_says_so_in_every_cell() {
        let start = Row {
            event: Event::System,
            event_type: EventType::START_TRACE,
            device: DeviceId::Unknown,
            pointer: None,
            ..row(&[])
        };
        let text = String::from_utf8(written(&[start])).unwrap();
        assert!(text.ends_with("\n12,SYSTEM,START_TRACE,N/A,1764753084425691000,31,32,N/A,N/A,,,\n"), "{text}");
    }

    #[test]
    fn more_than_one_chunk_arrives_whole() {
        let rows = vec![row(&[]); 2 * CHUNK / 60];
        let text = written(&rows);
        assert!(text.len() > CHUNK);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), rows.len() + 1);
    }

    fn nasty() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            prop_oneof![Just('"'), Just(','), Just('\n'), Just('\r'), Just('\''), any::<char>()],
            0..12,
        )
        .prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_csv_reader_gets_every_text_back(name in nasty(), python in nasty(), c in nasty(), owner in nasty()) {
            let attributes = [Attribute { key: "owner", value: Value::Text(&owner) }];
            let hostile = Row { name: Some(&name), stack: StackCells::Inline { python: &python, c: &c }, ..row(&attributes) };
            let bytes = written(&[hostile, row(&[])]);
            let mut reader = csv::ReaderBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_reader(bytes.as_slice());
            let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(records.len(), 2);
            prop_assert_eq!(&records[0][3], name.as_str());
            prop_assert_eq!(&records[0][9], format!("{{owner:{owner}}}"));
            prop_assert_eq!(&records[0][10], python.as_str());
            prop_assert_eq!(&records[0][11], c.as_str());
        }
    }
}
