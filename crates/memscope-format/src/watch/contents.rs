//! `watch.spool`, read: any bytes may be in it.
use super::{LONGEST_PIECE, PIECE_MAGIC, PieceHeader};
use crate::layout;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The contents of a recording, found; their bytes are read when they are asked for.
#[derive(Debug)]
pub struct Contents {
    file: File,
    contents: BTreeMap<u64, Content>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    total: u64,
    /// In the order of their offsets: where in the file its header is.
    pieces: Vec<(PieceHeader, u64)>,
}

impl Contents {
    /// Finds all pieces. `Err` with [`io::ErrorKind::NotFound`] where no bytes were kept.
    pub fn open(path: &Path) -> io::Result<Contents> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut contents: BTreeMap<u64, Content> = BTreeMap::new();
        let mut at = 0;
        while let Some((header, place)) = next_piece(&file, at, length)? {
            at = place + PieceHeader::SIZE as u64 + header.length;
            let content = contents.entry(header.content).or_default();
            content.total = header.total;
            // A piece that was torn is there twice; the second is whole.
            content.pieces.retain(|(known, _)| known.offset != header.offset);
            content.pieces.push((header, place));
        }
        for content in contents.values_mut() {
            content.pieces.sort_by_key(|(header, _)| header.offset);
        }
        Ok(Contents { file, contents })
    }

    /// How long a content is, if all of it is there.
    pub fn length(&self, content: u64) -> Option<u64> {
        let content = self.contents.get(&content)?;
        let mut end = 0;
        for (header, _) in &content.pieces {
            if header.offset != end {
                return None;
            }
            end += header.length;
        }
        (end == content.total).then_some(end)
    }

    /// Gives the bytes of a content to `take`, piece by piece, in order; `false` if they are not all there.
    pub fn read(&self, content: u64, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        if self.length(content).is_none() {
            return Ok(false);
        }
        for index in 0.. {
            let Some(piece) = self.piece(content, index)? else { break };
            if piece.is_empty() {
                return Ok(false);
            }
            take(&piece)?;
        }
        Ok(true)
    }

    /// Piece `index` of a content, empty if it is damaged; `None` behind the last.
    pub fn piece(&self, content: u64, index: usize) -> io::Result<Option<Vec<u8>>> {
        let Some((header, place)) = self.contents.get(&content).and_then(|content| content.pieces.get(index)) else {
            return Ok(None);
        };
        let mut bytes = vec![0; PieceHeader::SIZE + header.length as usize];
        self.file.read_exact_at(&mut bytes, *place)?;
        let (head, payload) = bytes.split_at(PieceHeader::SIZE);
        let (fields, checksum) = head.split_at(PieceHeader::SIZE - 8);
        let is_whole = fields
            .first_chunk()
            .zip(checksum.first_chunk())
            .is_some_and(|(fields, checksum)| layout::checksum(fields, payload) == u64::from_le_bytes(*checksum));
        Ok(Some(if is_whole { payload.to_vec() } else { Vec::new() }))
    }
}

/// The first piece at or behind `at`, and where it is.
fn next_piece(file: &File, mut at: u64, length: u64) -> io::Result<Option<(PieceHeader, u64)>> {
    let mut bytes = [0; PieceHeader::SIZE];
    while at + PieceHeader::SIZE as u64 <= length {
        file.read_exact_at(&mut bytes, at)?;
        match PieceHeader::decode(&bytes) {
            Some(header)
                if at + PieceHeader::SIZE as u64 + header.length <= length && !is_torn(file, &header, at, length)? =>
            {
                return Ok(Some((header, at)));
            }
            // A write that was cut short is followed by the whole.
            _ => match next_magic(file, at + 1, length)? {
                Some(place) => at = place,
                None => return Ok(None),
            },
        }
    }
    Ok(None)
}

/// Whether another piece begins before this one ends.
fn is_torn(file: &File, header: &PieceHeader, at: u64, length: u64) -> io::Result<bool> {
    let end = at + PieceHeader::SIZE as u64 + header.length;
    if end == length {
        return Ok(false);
    }
    let mut magic = [0; 4];
    if end + 4 > length {
        return Ok(true);
    }
    file.read_exact_at(&mut magic, end)?;
    Ok(u32::from_le_bytes(magic) != PIECE_MAGIC)
}

fn next_magic(file: &File, mut at: u64, length: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; LONGEST_PIECE.min(length.saturating_sub(at) as usize)];
    while at < length {
        let read = file.read_at(&mut buffer, at)?;
        let found =
            buffer.get(..read).unwrap_or_default().windows(4).position(|four| four == PIECE_MAGIC.to_le_bytes());
        match found {
            Some(place) => return Ok(Some(at + place as u64)),
            None if read < 4 => break,
            // The magic may lie across two readings.
            None => at += read as u64 - 3,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(content: u64, offset: u64, total: u64, payload: &[u8]) -> Vec<u8> {
        let header = PieceHeader { watch: 1, content, offset, length: payload.len() as u64, total };
        let mut bytes = header.encode();
        layout::seal(&mut bytes, payload);
        [&bytes, payload].concat()
    }

    fn contents(bytes: &[u8]) -> Contents {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(super::super::CONTENTS_FILE);
        std::fs::write(&path, bytes).unwrap();
        Contents::open(&path).unwrap()
    }

    fn whole(contents: &Contents, content: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let take = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        contents.read(content, take).unwrap().then_some(bytes)
    }

    #[test]
    fn pieces_of_several_contents_are_put_together() {
        let found = contents(&[piece(2, 0, 5, b"abc"), piece(1, 0, 2, b"xy"), piece(2, 3, 5, b"de")].concat());
        assert_eq!((whole(&found, 1), whole(&found, 2)), (Some(b"xy".to_vec()), Some(b"abcde".to_vec())));
        assert_eq!((whole(&found, 3), found.length(2)), (None, Some(5)));
    }

    #[test]
    fn torn_and_damaged_pieces_are_no_contents() {
        let torn = &piece(1, 0, 300, &[7; 300])[..200];
        let found = contents(&[torn, &piece(1, 0, 300, &[7; 300]), &piece(2, 0, 4, b"four")[..66]].concat());
        assert_eq!((whole(&found, 1), whole(&found, 2)), (Some(vec![7; 300]), None));
        let mut damaged = piece(1, 0, 300, &[7; 300]);
        damaged[100] = 8;
        assert_eq!(whole(&contents(&damaged), 1), None);
        assert_eq!(
            whole(&contents(b"msmbmsmbmsmb whatever, and longer than a header has to be, so that it is read"), 1),
            None
        );
    }
}
