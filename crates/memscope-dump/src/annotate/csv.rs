//! A csv with something added to some of its rows.
use super::attribute::{block_of, insertion};
use super::{AnnotateError, Annotated, BlockFindings, FileAsRead};
use crate::csv::read::{CsvRows, RawRow, raw_cell};
use crate::destination::PartialFile;
use crate::read::attributes::Attributes;
use crate::read::cells::Column;
use crate::rows::Event;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

const BUFFER: usize = 1 << 18;

pub(super) fn annotate(file: &FileAsRead, findings: &BlockFindings) -> Result<Annotated, AnnotateError> {
    let path = &file.path;
    let failed = || AnnotateError::write(path);
    let old = fs::metadata(path).map_err(failed())?;
    let partial = PartialFile::create(path, old.permissions().mode() & 0o7777).map_err(AnnotateError::of_file)?;
    // A file of another user's stays theirs, if that can be.
    let _ = fchown(partial.file(), Some(old.uid()), Some(old.gid()));
    let mut out = BufWriter::with_capacity(BUFFER, partial.file());
    let annotated = copy(file, findings, &mut out)?;
    out.flush().map_err(failed())?;
    drop(out);
    if annotated.changed == 0 {
        return Ok(annotated);
    }
    partial.file().sync_all().map_err(failed())?;
    file.check()?;
    partial.commit().map_err(AnnotateError::of_file)?;
    Ok(annotated)
}

fn copy(file: &FileAsRead, findings: &BlockFindings, out: &mut impl Write) -> Result<Annotated, AnnotateError> {
    let path = &file.path;
    let (mut rows, header) = CsvRows::open_raw(path)?;
    out.write_all(&header).map_err(AnnotateError::write(path))?;
    let mut annotated = Annotated::default();
    while let Some(row) = rows.next_raw()? {
        let RawRow { bytes, text, cells, columns } = match row {
            Ok(row) => row,
            Err(line) => return Err(AnnotateError::LongRow { path: path.clone(), line }),
        };
        let is_malloc = || {
            let event = cells.as_ref().and_then(|cells| str::from_utf8(cells.get(Column::Event)).ok());
            event.and_then(Event::from_text) == Some(Event::Malloc)
        };
        let mut edit = None;
        if let Some(cells) = &cells
            && is_malloc()
            && let Some(attributes) = Attributes::parse(cells.get(Column::Attributes))
            && let Some((block, earlier)) = block_of(&attributes)
        {
            annotated.numbered += 1;
            let found = findings.of(cells.number(Column::Process), block);
            let place = columns.iter().position(|column| *column == Some(Column::Attributes));
            if !found.is_none()
                && let Some(raw) = place.and_then(|place| raw_cell(text, place))
            {
                let quoted = text[raw.clone()].starts_with(b"\"");
                edit = insertion(&text[raw.clone()], earlier, found, quoted).map(|(at, added)| (raw.start + at, added));
            }
        }
        let written = match edit {
            None => out.write_all(bytes),
            Some((at, added)) => {
                annotated.changed += 1;
                let parts = [&bytes[..at], added.as_bytes(), &bytes[at..]];
                parts.iter().try_for_each(|part| out.write_all(part))
            }
        };
        written.map_err(AnnotateError::write(path))?;
    }
    Ok(annotated)
}
