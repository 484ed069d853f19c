//! Reads the SQLite form of a dump, ours and the existing tool's. Never writes, not even a journal beside the file.
use super::APPLICATION_ID;
use crate::Brand;
use crate::read::cells::{Cell, Column, Header, RowCells};
use crate::read::error::ReadError;
use crate::read::{RowFile, VisitRow};
use memscope_model::RowPlace;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROWS_AT_ONCE: usize = 8192;
/// How long to wait for a program that writes to the file.
const PATIENCE: Duration = Duration::from_secs(2);
/// No cell of a row is longer.
const MOST_CELL: usize = 16 << 20;
/// How many rows may be unreadable before the rest of the table is given up.
const MOST_UNREADABLE: u32 = 100;

pub(crate) struct DbRows {
    path: PathBuf,
    connection: Connection,
    tables: Vec<Table>,
    /// The table at hand, and its last row that was read.
    table: usize,
    last: i64,
    unreadable: u32,
    stacks: Option<Table>,
    is_ours: bool,
}

struct Table {
    header: Header,
    /// Asks for the rows behind a number, with the columns that are known.
    select: String,
    /// Asks for the number of the next row alone.
    select_next: String,
    largest: i64,
}

impl DbRows {
    pub(crate) fn open(path: &Path) -> Result<DbRows, ReadError> {
        let connection = connect(path).map_err(ReadError::database(path))?;
        let (tables, stacks, id) = tables(&connection).map_err(ReadError::database(path))?;
        let foreign = |why: String| Err(ReadError::Foreign { path: path.to_owned(), why });
        match tables.first().map(|table| table.header.lacks()) {
            None => {
                let [new, old] = [Brand::MsMemScope, Brand::MsLeaks].map(Brand::table);
                foreign(format!("it has neither a table {new} nor a table {old}"))
            }
            Some(Some(column)) => foreign(format!("its table has no column {column:?}")),
            Some(None) => Ok(DbRows {
                path: path.to_owned(),
                connection,
                tables,
                table: 0,
                last: i64::MIN,
                unreadable: 0,
                stacks,
                is_ours: id == APPLICATION_ID,
            }),
        }
    }

    /// After a row that cannot be read: its number, or `None` if that cannot be read either.
    fn next_number(&self, table: &Table) -> Option<i64> {
        self.connection.query_row(&table.select_next, [self.last], |row| row.get(0)).optional().ok().flatten()
    }
}

impl RowFile for DbRows {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_some(&mut self, visit: VisitRow<'_>) -> Result<bool, ReadError> {
        let Some(table) = self.tables.get(self.table) else { return Ok(false) };
        let before = self.last;
        match read_rows(&self.connection, table, &mut self.last, visit) {
            Ok(count) if count == ROWS_AT_ONCE => {}
            Ok(_) => {
                self.table += 1;
                self.last = i64::MIN;
            }
            // Nothing can be said of a table whose first rows cannot be read.
            Err(error) if before == i64::MIN && self.last == before => {
                return Err(ReadError::database(&self.path)(error));
            }
            Err(error) => {
                self.unreadable += 1;
                let next = self.next_number(table).filter(|_| self.unreadable < MOST_UNREADABLE);
                let Some(number) = next else { return Err(ReadError::database(&self.path)(error)) };
                self.last = number;
                visit(RowPlace::RowId(number), Err(Cow::Owned(error.to_string())));
            }
        }
        Ok(self.table < self.tables.len())
    }

    fn read_stacks(&mut self, visit: VisitRow<'_>) -> Result<(), ReadError> {
        let Some(table) = &self.stacks else { return Ok(()) };
        let mut last = i64::MIN;
        while read_rows(&self.connection, table, &mut last, visit).map_err(ReadError::database(&self.path))?
            == ROWS_AT_ONCE
        {}
        Ok(())
    }

    fn has_quoted_texts(&self) -> bool {
        !self.is_ours
    }

    fn progress(&self) -> f64 {
        match self.tables.get(self.table) {
            Some(table) if self.last > 0 => (self.last as f64 / table.largest.max(1) as f64).min(1.0),
            Some(_) => 0.0,
            None => 1.0,
        }
    }
}

/// Gives the rows behind `last` to `visit`, some thousand at most, and says how many there were.
fn read_rows(connection: &Connection, table: &Table, last: &mut i64, visit: VisitRow<'_>) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(&table.select)?;
    let mut rows = statement.query([*last])?;
    let known: Vec<Column> = table.header.columns.iter().flatten().copied().collect();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let mut cells = RowCells::new(&table.header);
        let mut refused = None;
        for (at, column) in known.iter().enumerate() {
            let cell = match row.get_ref(at + 1)? {
                ValueRef::Null => Cell::Nothing,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Text(text) | ValueRef::Blob(text) if text.len() <= MOST_CELL => Cell::Text(text),
                ValueRef::Text(_) | ValueRef::Blob(_) => {
                    refused = Some("a cell longer than any can be");
                    Cell::Nothing
                }
                ValueRef::Real(_) => {
                    refused = Some("a number with a fraction");
                    Cell::Nothing
                }
            };
            cells.set(*column, cell);
        }
        *last = number;
        count += 1;
        visit(RowPlace::RowId(number), refused.map_or(Ok(&cells), |why| Err(Cow::Borrowed(why))));
    }
    Ok(count)
}

/// Opens the file to read. Nobody writes where there is no journal: then the file is taken as it is, which needs neither
/// locks nor a directory to write to.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let has_journal = ["-wal", "-journal"].iter().any(|suffix| {
        let mut name = OsString::from(path);
        name.push(suffix);
        std::fs::metadata(name).is_ok_and(|journal| journal.len() > 0)
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match has_journal {
        true => Connection::open_with_flags(path, flags)?,
        false => Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?,
    };
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

fn immutable_uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    for byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// The tables of rows, that of stacks, and who says to have written the file. The new name wins if both are there.
fn tables(connection: &Connection) -> rusqlite::Result<(Vec<Table>, Option<Table>, i32)> {
    let id = connection.query_row("PRAGMA application_id", (), |row| row.get(0))?;
    for brand in [Brand::MsMemScope, Brand::MsLeaks] {
        let Some(dump) = table(connection, brand.table())? else { continue };
        let unpaired = table(connection, brand.unpaired_table())?;
        let stacks = table(connection, brand.stacks_table())?;
        return Ok((std::iter::once(dump).chain(unpaired).collect(), stacks, id));
    }
    Ok((Vec::new(), None, id))
}

fn table(connection: &Connection, name: &str) -> rusqlite::Result<Option<Table>> {
    let mut statement = connection.prepare_cached(
        "SELECT columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns \
         WHERE tables.type = 'table' AND tables.name = ?1 ORDER BY columns.cid",
    )?;
    let names: Vec<String> = statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if names.is_empty() {
        return Ok(None);
    }
    let header = Header::of(names.iter().map(|name| Cow::Borrowed(name.as_str())));
    let known = names.iter().zip(&header.columns).filter(|(_, column)| column.is_some());
    let columns: String = known.map(|(name, _)| format!(", \"{}\"", name.replace('"', "\"\""))).collect();
    let behind = format!("FROM {name} WHERE rowid > ?1 ORDER BY rowid LIMIT");
    let largest = connection.query_row(&format!("SELECT max(rowid) FROM {name}"), (), |row| row.get(0));
    Ok(Some(Table {
        select: format!("SELECT rowid{columns} {behind} {ROWS_AT_ONCE}"),
        select_next: format!("SELECT rowid {behind} 1"),
        // Only the progress needs it; where it cannot be read, the rows will say why.
        largest: largest.ok().flatten().unwrap_or(0),
        header,
    }))
}

/// The processes that have rows in the file.
pub(crate) fn processes(path: &Path) -> Result<Vec<u32>, ReadError> {
    let rows = DbRows::open(path)?;
    let mut seen = Vec::new();
    if !rows.tables[0].header.has(Column::Process) {
        return Ok(seen);
    }
    let brand = [Brand::MsMemScope, Brand::MsLeaks];
    for brand in brand.into_iter().filter(|brand| rows.tables[0].select.contains(&format!("FROM {} ", brand.table()))) {
        let sql = format!("SELECT DISTINCT \"Process Id\" FROM {}", brand.table());
        let mut collect = || -> rusqlite::Result<()> {
            let mut statement = rows.connection.prepare(&sql)?;
            let mut found = statement.query(())?;
            while let Some(row) = found.next()? {
                let process = match row.get_ref(0)? {
                    ValueRef::Integer(number) => u32::try_from(number).ok(),
                    ValueRef::Text(text) => Cell::Text(text).number().and_then(|number| u32::try_from(number).ok()),
                    _ => None,
                };
                seen.extend(process.filter(|process| !seen.contains(process)));
            }
            Ok(())
        };
        // What cannot be read is reported when the rows are read.
        let _ = collect();
    }
    Ok(seen)
}
