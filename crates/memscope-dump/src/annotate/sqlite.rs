//! A database with something added to some of its rows, in one transaction.
use super::attribute::{block_of, insertion};
use super::{AnnotateError, Annotated, BlockFindings, FileAsRead};
use crate::Brand;
use crate::read::attributes::Attributes;
use crate::read::cells::Cell;
use crate::rows::{COLUMNS, Event};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::time::Duration;

/// How long to wait for a program that writes to the file.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn annotate(file: &FileAsRead, findings: &BlockFindings) -> Result<Annotated, AnnotateError> {
    let path = &file.path;
    let failed = || AnnotateError::database(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed())?;
    connection.busy_timeout(PATIENCE).map_err(failed())?;
    // Nothing in the file decides what else is written.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).map_err(failed())?;
    connection.pragma_update(None, "trusted_schema", false).map_err(failed())?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed())?;
    let mut annotated = Annotated::default();
    for table in tables(&transaction).map_err(failed())? {
        change(&transaction, table, findings, &mut annotated).map_err(failed())?;
    }
    if annotated.changed == 0 {
        return Ok(annotated);
    }
    transaction.commit().map_err(failed())?;
    connection.close().map_err(|(_, error)| failed()(error))?;
    Ok(annotated)
}

/// Those of the reader. The new name wins if both are there.
fn tables(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<&'static str>> {
    let exists = |table: &&str| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        transaction.query_row(sql, [table], |row| row.get::<_, i64>(0)).map(|count| count > 0)
    };
    for brand in [Brand::MsMemScope, Brand::MsLeaks] {
        if exists(&brand.table())? {
            let unpaired = Some(brand.unpaired_table()).filter(|table| exists(table).unwrap_or(false));
            return Ok(std::iter::once(brand.table()).chain(unpaired).collect());
        }
    }
    Ok(Vec::new())
}

fn change(
    transaction: &Transaction<'_>,
    table: &str,
    findings: &BlockFindings,
    annotated: &mut Annotated,
) -> rusqlite::Result<()> {
    let [event, process, attributes] = [1, 5, 9].map(|place: usize| COLUMNS[place]);
    let mut rows =
        transaction.prepare(&format!("SELECT rowid, \"{event}\", \"{process}\", \"{attributes}\" FROM {table}"))?;
    let mut changes: Vec<(i64, String)> = Vec::new();
    let mut rows = rows.query(())?;
    while let Some(row) = rows.next()? {
        let ValueRef::Text(event) = row.get_ref(1)? else { continue };
        let ValueRef::Text(text) = row.get_ref(3)? else { continue };
        if str::from_utf8(event).ok().and_then(Event::from_text) != Some(Event::Malloc) {
            continue;
        }
        let Some(attributes) = Attributes::parse(text) else { continue };
        let Some((block, earlier)) = block_of(&attributes) else { continue };
        annotated.numbered += 1;
        let process = match row.get_ref(2)? {
            ValueRef::Integer(number) => Cell::Integer(number).number(),
            ValueRef::Text(text) => Cell::Text(text).number(),
            _ => None,
        };
        let found = findings.of(process, block);
        if found.is_none() {
            continue;
        }
        let Ok(whole) = str::from_utf8(text) else { continue };
        if let Some((at, added)) = insertion(text, earlier, found, false) {
            changes.push((row.get(0)?, [&whole[..at], &added, &whole[at..]].concat()));
        }
    }
    drop(rows);
    let mut update = transaction.prepare(&format!("UPDATE {table} SET \"{attributes}\" = ?1 WHERE rowid = ?2"))?;
    for (number, text) in changes {
        annotated.changed += update.execute((text, number))? as u64;
    }
    Ok(())
}
