//! Writes the SQLite form of a dump.
//!
//! Rows are gathered and inserted in large transactions, in a thread of its own, into a new file that nobody else can
//! see yet, so neither a journal nor syncing is needed: a failed export is thrown away as a whole.
use crate::brand::Brand;
use crate::digits::{address, push_decimal};
use crate::pairing::{Pairing, UnpairedCounts};
use crate::rows::{
    CALL_COLUMNS, COLUMNS, CallRow, DeviceId, Event, EventType, FrameCell, FrameRow, NOT_APPLICABLE, REFERENCE, Row,
    StackCells, Value,
};
use crate::worker::{Consumer, Worker};
use memscope_model::TimestampNs;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};
use std::mem;
use std::ops::Range;
use std::path::Path;

/// A transaction ends at this many rows, or at this many bytes of text if stacks are deep.
const BATCH_ROWS: usize = 32_768;
const BATCH_TEXT: usize = 8 << 20;
/// Rows with whole stacks are kilobytes long: with SQLite's usual 4 KiB most of them would spill to overflow pages.
const PAGE_BYTES: u32 = 16384;

/// Writes rows to a database; [`DbWriter::finish`] writes the last ones and closes it.
pub struct DbWriter {
    tables: Worker<Tables>,
    batch: Batch,
    pairing: Pairing,
    paired_rows: u64,
    device_rows: u64,
    /// Calls before the first that has ended: a table without any is refused by MindStudio Insight.
    unended: Option<Vec<(String, CallRow<'static>)>>,
}

/// What a database came to.
pub(crate) struct Written {
    /// Rows of a device in the table that viewers read.
    pub(crate) device_rows: u64,
    pub(crate) unpaired: UnpairedCounts,
}

struct Tables {
    connection: Connection,
    brand: Brand,
    /// There is a table of stacks.
    stacks: bool,
}

/// Rows of one transaction.
#[derive(Default)]
struct Batch {
    rows: Vec<BatchRow>,
    frames: Vec<BatchFrame>,
    calls: Vec<BatchCall>,
    text: Vec<u8>,
}

/// A row of the table of calls.
struct BatchCall {
    function: Range<usize>,
    /// The two times are behind it.
    end_of_start: usize,
    end_of_end: usize,
    thread: u32,
    process: u32,
}

/// A row of the table of stacks.
struct BatchFrame {
    id: u32,
    caller: u32,
    frame: Range<usize>,
}

/// A row whose texts are in [`Batch::text`].
struct BatchRow {
    id: u64,
    time: TimestampNs,
    process: u32,
    thread: u32,
    constants: Constants,
    pointer: Option<u64>,
    name: Option<Range<usize>>,
    attributes: Range<usize>,
    python_stack: Range<usize>,
    c_stack: Range<usize>,
    paired: bool,
}

/// Cells that are mostly the same in one row and the next; bound again only if they change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Constants {
    event: Event,
    event_type: EventType,
    device: DeviceId,
}

impl DbWriter {
    /// `path` is an empty file or none.
    pub fn create(path: &Path, brand: Brand) -> rusqlite::Result<DbWriter> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "application_id", super::APPLICATION_ID)?;
        create_table(&connection, brand.table())?;
        Ok(DbWriter {
            tables: Worker::new(Tables { connection, brand, stacks: false }),
            batch: Batch::default(),
            pairing: Pairing::default(),
            paired_rows: 0,
            device_rows: 0,
            unended: Some(Vec::new()),
        })
    }

    pub fn write(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let paired = self.pairing.admit(row).is_ok();
        self.paired_rows += u64::from(paired);
        self.device_rows += u64::from(paired && row.device != DeviceId::Unknown);
        self.batch.push(row, paired);
        self.pass_on()
    }

    pub fn write_frame(&mut self, row: &FrameRow<'_>) -> rusqlite::Result<()> {
        self.batch.push_frame(row);
        self.pass_on()
    }

    pub fn write_call(&mut self, row: &CallRow<'_>) -> rusqlite::Result<()> {
        if let Some(unended) = &mut self.unended {
            if !row.prefix().is_empty() {
                unended.push((row.function.to_owned(), CallRow { function: "", ..*row }));
                return Ok(());
            }
            for (function, row) in self.unended.take().into_iter().flatten() {
                self.batch.push_call(&CallRow { function: &function, ..row });
            }
        }
        self.batch.push_call(row);
        self.pass_on()
    }

    fn pass_on(&mut self) -> rusqlite::Result<()> {
        if self.batch.is_full() {
            self.batch = self.tables.submit(mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Rows in the table that viewers read.
    pub fn paired_rows(&self) -> u64 {
        self.paired_rows
    }

    /// `alive` are the numbers of the blocks that were never freed, ascending.
    pub(crate) fn finish(self, alive: &[u64]) -> rusqlite::Result<Written> {
        if let Some(tables) = self.tables.finish(self.batch)? {
            tables.write_alive(self.pairing.rows_of(alive))?;
            tables.describe_stacks()?;
            tables.connection.close().map_err(|(_, error)| error)?;
        }
        Ok(Written { device_rows: self.device_rows, unpaired: self.pairing.counts })
    }

    /// As if the disk had no room for more.
    #[cfg(test)]
    pub(crate) fn allow_pages(&self, pages: u32) {
        let tables = self.tables.consumer().unwrap();
        tables.connection.pragma_update(None, "max_page_count", pages).unwrap();
    }
}

impl Batch {
    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS
            || self.frames.len() >= BATCH_ROWS
            || self.calls.len() >= BATCH_ROWS
            || self.text.len() >= BATCH_TEXT
    }

    fn push(&mut self, row: &Row<'_>, paired: bool) {
        let name = row.name.map(|name| self.keep(name.as_bytes()));
        let start = self.text.len();
        push_json(&mut self.text, row);
        let attributes = start..self.text.len();
        let (python_stack, c_stack) = match row.stack {
            StackCells::Inline { python, c } => (self.keep(python.as_bytes()), self.keep(c.as_bytes())),
            StackCells::Table { python, c } => (self.keep_reference(python), self.keep_reference(c)),
        };
        self.rows.push(BatchRow {
            id: row.id,
            time: row.time,
            process: row.process,
            thread: row.thread,
            constants: Constants { event: row.event, event_type: row.event_type, device: row.device },
            pointer: row.pointer,
            name,
            attributes,
            python_stack,
            c_stack,
            paired,
        });
    }

    fn push_frame(&mut self, row: &FrameRow<'_>) {
        let frame = match row.frame {
            FrameCell::Text(text) => self.keep(text.as_bytes()),
            FrameCell::SameAs(row) => self.keep_reference(row),
        };
        self.frames.push(BatchFrame { id: row.id, caller: row.caller, frame });
    }

    fn push_call(&mut self, row: &CallRow<'_>) {
        let begin = self.text.len();
        self.keep(row.prefix().as_bytes());
        self.keep(row.function.as_bytes());
        let function = begin..self.text.len();
        let [end_of_start, end_of_end] = [row.start, row.end].map(|time| {
            match time {
                Some(time) => push_decimal(&mut self.text, time.0),
                None => self.text.extend_from_slice(NOT_APPLICABLE.as_bytes()),
            }
            self.text.len()
        });
        let CallRow { thread, process, .. } = *row;
        self.calls.push(BatchCall { function, end_of_start, end_of_end, thread, process });
    }

    /// `#<row>`, or nothing for row 0.
    fn keep_reference(&mut self, row: u32) -> Range<usize> {
        let start = self.text.len();
        if row != 0 {
            self.text.push(REFERENCE);
            push_decimal(&mut self.text, u64::from(row));
        }
        start..self.text.len()
    }

    fn keep(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }
}

impl Consumer for Tables {
    type Piece = Batch;
    type Error = rusqlite::Error;

    /// Inserts the rows in one transaction.
    fn consume(&mut self, batch: &mut Batch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        if !batch.frames.is_empty() {
            insert_frames(&transaction, self.brand, batch)?;
            self.stacks = true;
        }
        if !batch.calls.is_empty() {
            insert_calls(&transaction, self.brand, batch)?;
        }
        {
            let mut paired = Insertion::new(&transaction, self.brand.table())?;
            let mut unpaired = None;
            for row in &batch.rows {
                if row.paired {
                    paired.insert(row, &batch.text)?;
                    continue;
                }
                let insertion = match &mut unpaired {
                    Some(insertion) => insertion,
                    None => {
                        create_table(&transaction, self.brand.unpaired_table())?;
                        unpaired.insert(Insertion::new(&transaction, self.brand.unpaired_table())?)
                    }
                };
                insertion.insert(row, &batch.text)?;
            }
        }
        transaction.commit()?;
        batch.rows.clear();
        batch.frames.clear();
        batch.calls.clear();
        batch.text.clear();
        Ok(())
    }
}

impl Tables {
    /// The rows of the blocks that were never freed and their sizes, so that nobody need look for the free of each, nor read
    /// its attributes.
    fn write_alive(&self, rows: impl Iterator<Item = (u64, u64)>) -> rusqlite::Result<()> {
        let table = self.brand.alive_table();
        let transaction = self.connection.unchecked_transaction()?;
        transaction.execute(&format!("CREATE TABLE {table} (\"ID\" INTEGER PRIMARY KEY, \"Size\" INTEGER)"), ())?;
        {
            let mut insertion = transaction.prepare(&format!("INSERT INTO {table} VALUES (?1,?2)"))?;
            for (row, size) in rows {
                insertion.execute([signed(row), signed(size)])?;
            }
        }
        transaction.commit()
    }

    /// Whole stacks by the number in a cell: what a cell would say if it did not refer to the table.
    fn describe_stacks(&self) -> rusqlite::Result<()> {
        if !self.stacks {
            return Ok(());
        }
        let (view, table) = (self.brand.stack_texts_view(), self.brand.stacks_table());
        let statement = format!(
            "CREATE VIEW {view} AS SELECT ID, (
                WITH RECURSIVE way(row, depth) AS (
                    SELECT innermost.ID, 0
                    UNION ALL SELECT Caller, depth + 1 FROM way JOIN {table} ON ID = row WHERE Caller IS NOT NULL)
                SELECT group_concat(text, char(10)) FROM (
                    SELECT coalesce(first.Frame, own.Frame) AS text
                    FROM way JOIN {table} AS own ON own.ID = way.row
                    LEFT JOIN {table} AS first ON own.Frame GLOB '#[0-9]*' AND first.ID = substr(own.Frame, 2)
                    ORDER BY depth)
            ) AS \"Call Stack\" FROM {table} AS innermost"
        );
        self.connection.execute(&statement, ())?;
        Ok(())
    }
}

fn insert_frames(transaction: &Connection, brand: Brand, batch: &Batch) -> rusqlite::Result<()> {
    let table = brand.stacks_table();
    transaction.execute(
        &format!("CREATE TABLE IF NOT EXISTS {table} (\"ID\" INTEGER PRIMARY KEY, \"Caller\" INTEGER, \"Frame\" TEXT)"),
        (),
    )?;
    let mut insertion = transaction.prepare(&format!("INSERT INTO {table} VALUES (?1,?2,?3)"))?;
    for row in &batch.frames {
        insertion.raw_bind_parameter(1, row.id)?;
        insertion.raw_bind_parameter(2, (row.caller != 0).then_some(row.caller))?;
        insertion.raw_bind_parameter(3, Text(&batch.text[row.frame.clone()]))?;
        insertion.raw_execute()?;
    }
    Ok(())
}

/// The columns have the types that viewers know them by.
fn insert_calls(transaction: &Connection, brand: Brand, batch: &Batch) -> rusqlite::Result<()> {
    let Some(first) = batch.calls.first() else { return Ok(()) };
    let table = brand.calls_table(first.process);
    let [function, start, end, thread, process] = CALL_COLUMNS;
    transaction.execute(
        &format!(
            "CREATE TABLE IF NOT EXISTS {table} (\"{function}\" TEXT, \"{start}\" TEXT, \"{end}\" TEXT, \
             \"{thread}\" INTEGER, \"{process}\" INTEGER)"
        ),
        (),
    )?;
    let mut insertion = transaction.prepare(&format!("INSERT INTO {table} VALUES (?1,?2,?3,?4,?5)"))?;
    let mut bound = None;
    for row in &batch.calls {
        insertion.raw_bind_parameter(1, Text(&batch.text[row.function.clone()]))?;
        insertion.raw_bind_parameter(2, Text(&batch.text[row.function.end..row.end_of_start]))?;
        insertion.raw_bind_parameter(3, Text(&batch.text[row.end_of_start..row.end_of_end]))?;
        if bound != Some((row.thread, row.process)) {
            insertion.raw_bind_parameter(4, row.thread)?;
            insertion.raw_bind_parameter(5, row.process)?;
            bound = Some((row.thread, row.process));
        }
        insertion.raw_execute()?;
    }
    Ok(())
}

/// `ID` is the rowid, which makes it the index that costs nothing: numbers of rows only grow.
fn create_table(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|column| match *column {
            "ID" => format!("\"{column}\" INTEGER PRIMARY KEY"),
            "Timestamp(ns)" | "Process Id" | "Thread Id" => format!("\"{column}\" INTEGER"),
            _ => format!("\"{column}\" TEXT"),
        })
        .collect();
    connection.execute(&format!("CREATE TABLE IF NOT EXISTS {name} ({})", columns.join(", ")), ())?;
    Ok(())
}

/// The prepared insertion into one table, with what is bound to it at the moment.
struct Insertion<'c> {
    statement: Statement<'c>,
    bound: Option<Constants>,
    name_bound: bool,
}

impl<'c> Insertion<'c> {
    fn new(connection: &'c Connection, table: &str) -> rusqlite::Result<Insertion<'c>> {
        let places: Vec<String> = (1..=COLUMNS.len()).map(|number| format!("?{number}")).collect();
        let statement = connection.prepare(&format!("INSERT INTO {table} VALUES ({})", places.join(",")))?;
        Ok(Insertion { statement, bound: None, name_bound: true })
    }

    fn insert(&mut self, row: &BatchRow, text: &[u8]) -> rusqlite::Result<()> {
        let Insertion { statement, bound, name_bound } = self;
        statement.raw_bind_parameter(1, signed(row.id))?;
        if *bound != Some(row.constants) {
            let Constants { event, event_type, device } = row.constants;
            statement.raw_bind_parameter(2, event.text())?;
            statement.raw_bind_parameter(3, event_type.database_text())?;
            statement.raw_bind_parameter(8, device.text())?;
            *bound = Some(row.constants);
        }
        match &row.name {
            Some(name) => {
                statement.raw_bind_parameter(4, Text(&text[name.clone()]))?;
                *name_bound = true;
            }
            None if *name_bound => {
                statement.raw_bind_parameter(4, NOT_APPLICABLE)?;
                *name_bound = false;
            }
            None => {}
        }
        statement.raw_bind_parameter(5, signed(row.time.0))?;
        statement.raw_bind_parameter(6, row.process)?;
        statement.raw_bind_parameter(7, row.thread)?;
        match row.pointer {
            Some(pointer) => statement.raw_bind_parameter(9, Text(&address(pointer)))?,
            None => statement.raw_bind_parameter(9, NOT_APPLICABLE)?,
        }
        statement.raw_bind_parameter(10, Text(&text[row.attributes.clone()]))?;
        statement.raw_bind_parameter(11, Text(&text[row.python_stack.clone()]))?;
        statement.raw_bind_parameter(12, Text(&text[row.c_stack.clone()]))?;
        statement.raw_execute()?;
        Ok(())
    }
}

/// Bytes that are known to be UTF-8.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// SQLite has no larger integer; no clock and no counter gets there.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The attributes as a JSON object without blanks. All values are strings: readers take a number for 0.
pub(super) fn push_json(out: &mut Vec<u8>, row: &Row<'_>) {
    out.push(b'{');
    for (at, attribute) in row.attributes.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(attribute.key.as_bytes());
        out.extend_from_slice(b"\":");
        match attribute.value {
            // A string always has a JSON form.
            Value::Text(text) => serde_json::to_writer(&mut *out, text).unwrap_or_default(),
            Value::Integer(value) => {
                out.push(b'"');
                push_decimal(out, value);
                out.push(b'"');
            }
            Value::Address(value) => {
                out.push(b'"');
                out.extend_from_slice(&address(value));
                out.push(b'"');
            }
        }
    }
    out.push(b'}');
}
