//! Reads the csv form of a dump, ours and the existing tool's.
//!
//! Cells follow RFC 4180, with two liberties for files that do not: a quote that neither ends a cell nor is doubled is
//! itself, and a line that looks like the beginning of a row is one even if a quote before it was never closed. So one odd
//! text costs its own row at most.
use crate::read::cells::{Cell, Column, Header, RowCells};
use crate::read::error::ReadError;
use crate::read::{RowFile, VisitRow};
use crate::rows::{Event, STACK_COLUMNS};
use memchr::{memchr, memchr2};
use memscope_model::RowPlace;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is read at once.
const CHUNK: usize = 1 << 18;
/// The longest row; one with the deepest stacks has a twentieth of it.
const MOST_ROW: usize = 16 << 20;
/// As much of a line as tells whether it is the beginning of a row.
const BEGINNING: usize = 48;
const ROWS_AT_ONCE: usize = 8192;

pub(crate) struct CsvRows {
    path: PathBuf,
    input: Input,
    header: Header,
    cells: Cells,
}

/// The bytes of the file, cut into rows.
struct Input {
    file: File,
    length: u64,
    read: u64,
    buffer: Vec<u8>,
    /// Where in the buffer the next row begins, and the number of its line.
    start: usize,
    line: u64,
    is_at_end: bool,
}

/// A row in the buffer.
struct RowRange {
    range: Range<usize>,
    line: u64,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Whole,
    /// It ends within quotes.
    Unclosed,
    TooLong,
}

/// The cells of one row.
#[derive(Default)]
struct Cells {
    ranges: Vec<CellRange>,
    /// Those whose quotes were doubled in the file.
    unescaped: Vec<u8>,
}

#[derive(Clone)]
enum CellRange {
    OfRow(Range<usize>),
    Unescaped(Range<usize>),
}

impl CsvRows {
    /// A dump; anything else is refused.
    pub(crate) fn open(path: &Path) -> Result<CsvRows, ReadError> {
        let rows = CsvRows::open_any(path)?;
        match rows.header.lacks() {
            None => Ok(rows),
            Some(column) => {
                let why = match rows.input.length {
                    0 => "it is empty".to_owned(),
                    _ => format!("its first line has no column {column:?}"),
                };
                Err(ReadError::Foreign { path: path.to_owned(), why })
            }
        }
    }

    fn open_any(path: &Path) -> Result<CsvRows, ReadError> {
        let file = File::open(path).map_err(ReadError::io(path))?;
        let length = file.metadata().map_err(ReadError::io(path))?.len();
        let mut input = Input { file, length, read: 0, buffer: Vec::new(), start: 0, line: 1, is_at_end: false };
        let mut cells = Cells::default();
        let mut header = Header::of(std::iter::empty());
        if let Some(first) = input.next().map_err(ReadError::io(path))? {
            let row = &input.buffer[first.range];
            let row = row.strip_prefix(b"\xef\xbb\xbf").unwrap_or(row);
            if first.shape == Shape::Whole {
                cells.split(row);
                header = Header::of((0..cells.ranges.len()).map(|at| String::from_utf8_lossy(cells.get(at, row))));
            }
        }
        Ok(CsvRows { path: path.to_owned(), input, header, cells })
    }

    /// The next row, if there is one, to `visit`.
    fn read_one(&mut self, visit: VisitRow<'_>) -> Result<bool, ReadError> {
        let CsvRows { path, input, header, cells } = self;
        let Some(found) = input.next().map_err(ReadError::io(path))? else { return Ok(false) };
        let place = RowPlace::Line(found.line);
        let row = &input.buffer[found.range];
        if found.shape == Shape::TooLong {
            visit(place, Err(Cow::Borrowed("a row longer than any can be")));
            return Ok(true);
        }
        if row.is_empty() {
            return Ok(true);
        }
        let expected = header.columns.len();
        let closed = cells.split(row) && found.shape == Shape::Whole;
        if (!closed || cells.ranges.len() != expected) && !cells.split_around_name(row, header) {
            let why = match closed {
                false => Cow::Borrowed("a quote is not closed"),
                true => Cow::Owned(format!("cells: {} instead of {expected}", cells.ranges.len())),
            };
            visit(place, Err(why));
            return Ok(true);
        }
        let mut row_cells = RowCells::new(header);
        for (at, column) in header.columns.iter().enumerate() {
            if let Some(column) = column {
                row_cells.set(*column, Cell::Text(cells.get(at, row)));
            }
        }
        visit(place, Ok(&row_cells));
        Ok(true)
    }
}

/// A row as it stands in the file.
pub(crate) struct RawRow<'a> {
    /// With its line end.
    pub(crate) bytes: &'a [u8],
    /// Without.
    pub(crate) text: &'a [u8],
    /// `None` if it makes no sense.
    pub(crate) cells: Option<KnownCells<'a>>,
    pub(crate) columns: &'a [Option<Column>],
}

/// The cells of a row whose columns are known.
pub(crate) struct KnownCells<'a> {
    cells: &'a Cells,
    row: &'a [u8],
    columns: &'a [Option<Column>],
}

impl<'a> KnownCells<'a> {
    /// Nothing, if the file has no such column.
    pub(crate) fn get(&self, column: Column) -> &'a [u8] {
        let place = self.columns.iter().position(|known| *known == Some(column));
        place.map_or(&[], |place| self.cells.get(place, self.row))
    }

    pub(crate) fn number(&self, column: Column) -> Option<u64> {
        Cell::Text(self.get(column)).number()
    }
}

impl CsvRows {
    /// A dump, and the bytes before its first row.
    pub(crate) fn open_raw(path: &Path) -> Result<(CsvRows, Vec<u8>), ReadError> {
        let rows = CsvRows::open(path)?;
        let header = rows.input.buffer[..rows.input.start].to_vec();
        Ok((rows, header))
    }

    /// The next row, byte for byte; `Err` with its line if it is longer than any can be.
    pub(crate) fn next_raw(&mut self) -> Result<Option<Result<RawRow<'_>, u64>>, ReadError> {
        let CsvRows { path, input, header, cells } = self;
        let Some(found) = input.next().map_err(ReadError::io(path))? else { return Ok(None) };
        if found.shape == Shape::TooLong {
            return Ok(Some(Err(found.line)));
        }
        let bytes = &input.buffer[found.range.start..input.start];
        let text = &input.buffer[found.range];
        let columns = &header.columns[..];
        let is_whole = found.shape == Shape::Whole && cells.split(text) && cells.ranges.len() == columns.len();
        let cells = is_whole.then_some(KnownCells { cells, row: text, columns });
        Ok(Some(Ok(RawRow { bytes, text, cells, columns })))
    }
}

impl RowFile for CsvRows {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_some(&mut self, visit: VisitRow<'_>) -> Result<bool, ReadError> {
        for _ in 0..ROWS_AT_ONCE {
            if !self.read_one(visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `memscope_stacks_<time>.csv` beside `memscope_dump_<time>.csv`.
    fn read_stacks(&mut self, visit: VisitRow<'_>) -> Result<(), ReadError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let path = self.path.with_file_name(name.replacen("_dump", "_stacks", 1));
        if path == self.path || !path.is_file() {
            return Ok(());
        }
        let mut rows = CsvRows::open_any(&path)?;
        if !rows.header.has(Column::Id) || !rows.header.has(Column::Frame) {
            let why = format!("its first line is not {:?}", STACK_COLUMNS.join(","));
            return Err(ReadError::Foreign { path, why });
        }
        while rows.read_some(visit)? {}
        Ok(())
    }

    fn has_quoted_texts(&self) -> bool {
        false
    }

    fn progress(&self) -> f64 {
        self.input.read as f64 / self.input.length.max(1) as f64
    }
}

impl Input {
    /// The next row without its line end.
    fn next(&mut self) -> io::Result<Option<RowRange>> {
        let mut scan = Scan::default();
        loop {
            let rest = &self.buffer[self.start..];
            if let Some((end, next)) = scan.find_end(rest, self.is_at_end) {
                let shape = if scan.quoted { Shape::Unclosed } else { Shape::Whole };
                return Ok(Some(self.take(end, next, scan.lines + 1, shape)));
            }
            if self.is_at_end {
                let shape = if scan.quoted { Shape::Unclosed } else { Shape::Whole };
                let length = rest.len();
                return Ok((length > 0).then(|| self.take(length, length, scan.lines, shape)));
            }
            if rest.len() > MOST_ROW {
                return self.skip_long().map(Some);
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize, next: usize, lines: u64, shape: Shape) -> RowRange {
        let (start, line) = (self.start, self.line);
        self.start += next;
        self.line += lines;
        let shape = if length > MOST_ROW { Shape::TooLong } else { shape };
        let length = length - usize::from(self.buffer[start..start + length].ends_with(b"\r"));
        RowRange { range: start..start + length, line, shape }
    }

    /// Goes on to the next line that begins a row.
    fn skip_long(&mut self) -> io::Result<RowRange> {
        let line = self.line;
        loop {
            let rest = &self.buffer[self.start..];
            match memchr(b'\n', rest) {
                Some(end) => {
                    let behind = &rest[end + 1..];
                    if behind.len() < BEGINNING && !self.is_at_end {
                        self.fill()?;
                        continue;
                    }
                    let begins = begins_row(behind);
                    self.start += end + 1;
                    self.line += 1;
                    if begins {
                        break;
                    }
                }
                None => {
                    self.start = self.buffer.len();
                    if self.is_at_end {
                        break;
                    }
                    self.fill()?;
                }
            }
        }
        Ok(RowRange { range: self.start..self.start, line, shape: Shape::TooLong })
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        // Twice what was not enough, so that a long row is looked at a few times only.
        let room = CHUNK.max(self.buffer.len());
        let held = self.buffer.len();
        self.buffer.resize(held + room, 0);
        let mut filled = held;
        while filled < self.buffer.len() {
            match self.file.read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.truncate(filled);
        self.read += (filled - held) as u64;
        Ok(())
    }
}

/// How far the search for the end of a row is.
#[derive(Default)]
struct Scan {
    at: usize,
    quoted: bool,
    /// Line ends within quotes.
    lines: u64,
}

impl Scan {
    /// Where the row ends and where the next begins.
    fn find_end(&mut self, bytes: &[u8], is_all: bool) -> Option<(usize, usize)> {
        loop {
            let Some(found) = memchr2(b'"', b'\n', &bytes[self.at..]) else {
                self.at = bytes.len();
                return None;
            };
            let found = self.at + found;
            if bytes[found] == b'"' {
                self.quoted = !self.quoted;
                self.at = found + 1;
                continue;
            }
            if !self.quoted {
                return Some((found, found + 1));
            }
            let behind = &bytes[found + 1..];
            if behind.len() < BEGINNING && !is_all {
                self.at = found;
                return None;
            }
            if begins_row(behind) {
                return Some((found, found + 1));
            }
            self.lines += 1;
            self.at = found + 1;
        }
    }
}

/// Whether it reads `<number>,<event>,`.
fn begins_row(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(behind) = line[digits..].strip_prefix(b",").filter(|_| (1..=20).contains(&digits)) else { return false };
    let Some(end) = memchr(b',', &behind[..behind.len().min(BEGINNING)]) else { return false };
    str::from_utf8(&behind[..end]).is_ok_and(|word| Event::from_text(word).is_some())
}

impl Cells {
    fn get<'a>(&'a self, at: usize, row: &'a [u8]) -> &'a [u8] {
        match &self.ranges[at] {
            CellRange::OfRow(range) => &row[range.clone()],
            CellRange::Unescaped(range) => &self.unescaped[range.clone()],
        }
    }

    /// `false` if a quote is not closed.
    fn split(&mut self, row: &[u8]) -> bool {
        self.ranges.clear();
        self.unescaped.clear();
        self.split_rest(row, 0)
    }

    fn split_rest(&mut self, row: &[u8], mut at: usize) -> bool {
        loop {
            let (cell, end) = if row.get(at) == Some(&b'"') {
                let Some((end, doubled)) = closing_quote(row, at + 1) else { return false };
                let inside = at + 1..end;
                (if doubled { self.unescape(&row[inside]) } else { CellRange::OfRow(inside) }, end + 1)
            } else {
                let end = memchr(b',', &row[at..]).map_or(row.len(), |comma| at + comma);
                (CellRange::OfRow(at..end), end)
            };
            self.ranges.push(cell);
            if end >= row.len() {
                return true;
            }
            at = end + 1;
        }
    }

    fn unescape(&mut self, text: &[u8]) -> CellRange {
        let start = self.unescaped.len();
        let mut rest = text;
        while let Some(quote) = memchr(b'"', rest) {
            self.unescaped.extend_from_slice(&rest[..=quote]);
            let doubled = rest.get(quote + 1) == Some(&b'"');
            rest = &rest[quote + 1 + usize::from(doubled)..];
        }
        self.unescaped.extend_from_slice(rest);
        CellRange::Unescaped(start..self.unescaped.len())
    }

    /// The existing tool puts the texts of marks between quotes as they are, whatever is in them. They end where a time
    /// follows, a process and a thread.
    fn split_around_name(&mut self, row: &[u8], header: &Header) -> bool {
        const FIRST: [Option<Column>; 5] =
            [Some(Column::Id), Some(Column::Event), Some(Column::EventType), Some(Column::Name), Some(Column::Time)];
        if header.columns.get(..FIRST.len()) != Some(&FIRST) {
            return false;
        }
        let mut commas = memchr::memchr_iter(b',', row);
        let (Some(first), Some(second), Some(third)) = (commas.next(), commas.next(), commas.next()) else {
            return false;
        };
        let is_mark = str::from_utf8(&row[first + 1..second]).ok().and_then(Event::from_text) == Some(Event::Mstx);
        if !is_mark || row.get(third + 1) != Some(&b'"') {
            return false;
        }
        let name = third + 2;
        let numbers_follow = |at: usize| {
            let mut cells = row[at..].split(|byte| *byte == b',');
            (0..3).all(|_| cells.next().is_some_and(|cell| !cell.is_empty() && cell.iter().all(u8::is_ascii_digit)))
        };
        let ends = memchr::memmem::find_iter(&row[name..], b"\",").map(|end| name + end);
        for end in ends.filter(|end| numbers_follow(end + 2)) {
            self.ranges.clear();
            self.unescaped.clear();
            for range in [0..first, first + 1..second, second + 1..third, name..end] {
                self.ranges.push(CellRange::OfRow(range));
            }
            if self.split_rest(row, end + 2) && self.ranges.len() == header.columns.len() {
                return true;
            }
        }
        false
    }
}

/// Where the quoted cell ends, and whether quotes are doubled in it.
fn closing_quote(row: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut doubled = false;
    loop {
        let quote = at + memchr(b'"', row.get(at..)?)?;
        match row.get(quote + 1) {
            None | Some(b',') => return Some((quote, doubled)),
            Some(b'"') => {
                doubled = true;
                at = quote + 2;
            }
            Some(_) => at = quote + 1,
        }
    }
}

/// Where a cell of a row stands, its quotes included.
pub(crate) fn raw_cell(row: &[u8], place: usize) -> Option<Range<usize>> {
    let mut at = 0;
    for number in 0.. {
        let end = match row.get(at) {
            Some(b'"') => closing_quote(row, at + 1)?.0 + 1,
            _ => memchr(b',', row.get(at..)?).map_or(row.len(), |comma| at + comma),
        };
        if number == place {
            return Some(at..end);
        }
        at = end + 1;
    }
    None
}

/// The processes that have rows in the file.
pub(crate) fn processes(path: &Path) -> Result<Vec<u32>, ReadError> {
    let mut rows = CsvRows::open(path)?;
    let mut seen: Vec<u32> = Vec::new();
    let mut last = None;
    let mut look = |_: RowPlace, row: crate::read::FoundRow<'_>| {
        let Some(process) = row.ok().and_then(|row| row.get(Column::Process).number()) else { return };
        if last.replace(process) != Some(process)
            && let Ok(process) = u32::try_from(process)
            && !seen.contains(&process)
        {
            seen.push(process);
        }
    };
    while rows.read_some(&mut look)? {}
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::COLUMNS;

    /// The line of a row, and its name and attributes, or why there are none.
    type Seen = (u64, Result<(String, String), String>);

    fn read(text: &[u8]) -> Vec<Seen> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut rows = CsvRows::open(file.path()).unwrap();
        let mut all = Vec::new();
        let mut keep = |place: RowPlace, row: crate::read::FoundRow<'_>| {
            let RowPlace::Line(line) = place else { panic!("{place:?}") };
            let texts = |row: &RowCells<'_>| {
                (row.get(Column::Name).text().into_owned(), row.get(Column::Attributes).text().into_owned())
            };
            all.push((line, row.map(texts).map_err(Cow::into_owned)));
        };
        while rows.read_some(&mut keep).unwrap() {}
        all
    }

    fn with_header(rows: &str) -> Vec<u8> {
        format!("{}\n{rows}", COLUMNS.join(",")).into_bytes()
    }

    fn good(line: u64, name: &str, attributes: &str) -> Seen {
        (line, Ok((name.to_owned(), attributes.to_owned())))
    }

    #[test]
    fn cells_may_hold_quotes_commas_and_lines_and_rows_are_known_by_their_first_line() {
        let text = with_header(
            "0,MSTX,Mark,\"a \"\"b\"\",\n c\",7,1,1,0,N/A,,,\r\n\n1,FREE,HAL,N/A,8,1,1,0,0x10,\"{size:1}\",,\"f\ng\"\n2,FREE,HAL,x,9,1,1,0,0x10,,,",
        );
        assert_eq!(read(&text), [good(2, "a \"b\",\n c", ""), good(5, "N/A", "{size:1}"), good(7, "x", "")]);
    }

    #[test]
    fn marks_of_the_existing_tool_may_hold_quotes_as_they_are() {
        let text = with_header(
            "0,MSTX,Mark,\"loss \"0.5\", ok\",7,1,1,0,N/A,,,\n1,MSTX,Mark,\"an \"odd\",\",8,1,1,0,N/A,,,\n\
             2,MSTX,Mark,\"say \"hi\",9,1,1,0,N/A,,,\n3,FREE,HAL,N/A,9,1,1,0,0x10,\"{size:1}\",,\n",
        );
        let names = ["loss \"0.5\", ok", "an \"odd\",", "say \"hi"];
        let marks = names.iter().zip(2..).map(|(name, line)| good(line, name, ""));
        assert_eq!(read(&text), marks.chain([good(5, "N/A", "{size:1}")]).collect::<Vec<_>>());
    }

    #[test]
    fn a_bad_row_costs_no_other() {
        let text = with_header(
            "0,FREE,HAL,N/A,7,1,1,0\n1,FREE,HAL,N/A,7,1,1,0,0x10,\"{size:1}\",,\"never\nclosed\n2,FREE,HAL,N/A,8,1,1,0,0x10,,,\n\
             3,FREE,HAL,N/A,9,1,1,0,0x1",
        );
        let rows = read(&text);
        let lines: Vec<(u64, bool)> = rows.iter().map(|(line, row)| (*line, row.is_ok())).collect();
        assert_eq!(lines, [(2, false), (3, false), (5, true), (6, false)]);
        assert_eq!(rows[0].1.clone().unwrap_err(), "cells: 8 instead of 12");
        assert_eq!(rows[1].1.clone().unwrap_err(), "a quote is not closed");
    }

    #[test]
    fn a_row_longer_than_memory_should_hold_is_passed_over() {
        for length in [MOST_ROW + 1, 3 * MOST_ROW] {
            for quote in ["", "\""] {
                let long = quote.to_owned() + &"x".repeat(length);
                let rows = format!("0,FREE,HAL,{long},7,1,1,0,0x10,,,\n1,FREE,HAL,N/A,8,1,1,0,0x10,,,\n");
                let rows = read(&with_header(&rows));
                assert!(rows[0].1.is_err() && rows[0].0 == 2);
                assert_eq!(rows[1..], [good(3, "N/A", "")]);
            }
        }
    }

    #[test]
    fn what_is_no_dump_is_refused_with_the_reason() {
        let refused = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            CsvRows::open(file.path()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(b"").ends_with("it is empty"), "{}", refused(b""));
        assert!(refused(b"a,b\n1,2\n").ends_with("no column \"Event\""), "{}", refused(b"a,b\n1,2\n"));
        assert!(refused(&[0xff; 100]).contains("no column"));
    }
}
