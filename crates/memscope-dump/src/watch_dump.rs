//! What watched blocks held: `device_<id>/watch_dump/`, a `.bin` file for each look whose bytes were kept, and for the others a line of
//! checksums in `watch_dump_data_check_sum_<id>_<time>.csv`.
//!
//! Looks that found the same bytes are one file with several names, where the file system has links.
use crate::csv::push_plain;
use crate::destination::{DUMP_MODE, PartialFile, create_directories};
use crate::error::ExportError;
use memscope_model::watch::{Contents, WatchId, WatchLook, WatchSource, WatchedBlock};
use memscope_model::{Device, Moment, NoteKind, Phase, State, TraceEvent, TraceSink};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const HEADINGS: &str = "Tensor info,Check data sum\n";
/// Of a file's name, in bytes.
const LONGEST_NAME: usize = 255;
/// Of an operator's name in it, so that the rest has room.
const LONGEST_OPERATOR: usize = 120;

/// A sink that writes the files.
pub(crate) struct WatchDump<'a> {
    process_directory: &'a Path,
    time: &'a str,
    contents: Option<Contents>,
    /// Whether operators were asked for: else those of torch were looked at only to know whose a block is.
    operators: bool,
    /// What each watched block is called in the names of files, and where it is.
    watched: FxHashMap<WatchId, (String, Device, u32)>,
    sums: FxHashMap<Device, Sums>,
    /// The first file of each content.
    written: FxHashMap<u64, PathBuf>,
    /// Hashes of names that are taken.
    names: FxHashSet<u64>,
    /// Full disks end the writing.
    failure: Option<ExportError>,
}

/// The checksums of a device.
struct Sums {
    partial: PartialFile,
    writer: BufWriter<fs::File>,
}

impl TraceSink for WatchDump<'_> {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, _: &State<'_>) -> ControlFlow<()> {
        if let TraceEvent::Note(note) = event {
            match &note.kind {
                NoteKind::WatchBegin(block) => self.begin(block),
                NoteKind::WatchEnd { watch, .. } => {
                    self.watched.remove(watch);
                }
                NoteKind::WatchLook(look)
                    if self.failure.is_none()
                        && note.chosen
                        && (self.operators || look.moment.source != WatchSource::Aten) =>
                {
                    self.failure = self.look(look, note.at).err();
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'a> WatchDump<'a> {
    pub(crate) fn new(
        process_directory: &'a Path,
        time: &'a str,
        contents: Option<Contents>,
        operators: bool,
    ) -> WatchDump<'a> {
        WatchDump {
            process_directory,
            time,
            contents,
            operators,
            watched: FxHashMap::default(),
            sums: FxHashMap::default(),
            written: FxHashMap::default(),
            names: FxHashSet::default(),
            failure: None,
        }
    }

    fn begin(&mut self, block: &WatchedBlock<'_>) {
        let is_taken = |label: &str| {
            self.watched.values().any(|(known, device, output)| {
                (known.as_str(), *device, *output) == (label, block.device, block.output)
            })
        };
        let mut label = block.name.to_owned();
        for number in 2.. {
            if !is_taken(&label) {
                break;
            }
            label = format!("{}~{number}", block.name);
        }
        self.watched.insert(block.watch, (label, block.device, block.output));
    }

    fn look(&mut self, look: &WatchLook<'_>, at: Moment) -> Result<(), ExportError> {
        let Some((label, device, output)) = self.watched.get(&look.watch) else { return Ok(()) };
        let device = *device;
        let operator = look.moment.name.map_or("unknown", |name| name.text);
        let phase = if look.moment.phase == Phase::Start { "before" } else { "after" };
        let rest = format!("_{}-{label}_{output}_{phase}", look.moment.call);
        let directory = self.process_directory.join(format!("device_{}", device_text(device))).join("watch_dump");
        let is_kept =
            look.content != 0 && self.contents.as_ref().is_some_and(|kept| kept.length(look.content).is_some());
        if !is_kept {
            let name = format!("{}_{}/{operator}{rest}.bin", device_text(device), at.thread);
            return self.sum(device, &directory, &name, look.checksum);
        }
        let name = format!("{}_{}_{}{}", device_text(device), at.thread, cut(operator, LONGEST_OPERATOR), rest);
        let name = self.unique(device, &file_name(&name));
        self.bytes(look.content, &directory.join(name))
    }

    fn sum(&mut self, device: Device, directory: &Path, name: &str, checksum: u64) -> Result<(), ExportError> {
        let sums = match self.sums.entry(device) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                create_directories(directory)?;
                let text = device_text(device);
                let path = directory.join(format!("watch_dump_data_check_sum_{text}_{}.csv", self.time));
                let partial = PartialFile::create(&path, DUMP_MODE)?;
                let file = partial.file().try_clone().map_err(ExportError::write(&path))?;
                let mut writer = BufWriter::new(file);
                writer.write_all(HEADINGS.as_bytes()).map_err(ExportError::write(&path))?;
                place.insert(Sums { partial, writer })
            }
        };
        let mut line = Vec::with_capacity(name.len() + 20);
        push_plain(&mut line, name);
        let _ = writeln!(line, ",{checksum:016x}");
        sums.writer.write_all(&line).map_err(ExportError::write(sums.partial.target()))
    }

    /// Another name if it is taken.
    fn unique(&mut self, device: Device, name: &str) -> String {
        let mut found = format!("{name}.bin");
        for number in 2.. {
            let mut hasher = FxHasher::default();
            (device, &found).hash(&mut hasher);
            if self.names.insert(hasher.finish()) {
                break;
            }
            found = format!("{name}~{number}.bin");
        }
        found
    }

    fn bytes(&mut self, content: u64, path: &Path) -> Result<(), ExportError> {
        if let Some(directory) = path.parent() {
            create_directories(directory)?;
        }
        // What an earlier export wrote.
        let _ = fs::remove_file(path);
        if let Some(first) = self.written.get(&content)
            && fs::hard_link(first, path).is_ok()
        {
            return Ok(());
        }
        let Some(contents) = &self.contents else { return Ok(()) };
        let partial = PartialFile::create(path, DUMP_MODE)?;
        let mut file = partial.file();
        contents.read(content, &mut |piece| file.write_all(piece)).map_err(ExportError::write(path))?;
        partial.commit()?;
        self.written.insert(content, path.to_owned());
        Ok(())
    }

    /// The files, or the directories of many.
    pub(crate) fn finish(self, files: &mut Vec<PathBuf>, failures: &mut Vec<ExportError>) {
        let mut directories: Vec<PathBuf> =
            self.written.into_values().filter_map(|path| path.parent().map(Path::to_owned)).collect();
        directories.sort();
        directories.dedup();
        files.extend(directories);
        failures.extend(self.failure);
        for Sums { partial, mut writer } in self.sums.into_values() {
            let done = writer.flush().map_err(ExportError::write(partial.target()));
            match done.and_then(|()| partial.commit()) {
                Ok(path) => files.push(path),
                Err(failure) => failures.push(failure),
            }
        }
    }
}

fn device_text(device: Device) -> String {
    match device {
        Device::Unknown => "unknown".to_owned(),
        device => device.to_string(),
    }
}

/// What a file may be called: a name in one piece, not too long.
fn file_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|letter| match letter {
            '/' => '.',
            letter if letter.is_control() => '_',
            letter => letter,
        })
        .collect();
    // Room for an extension and a number.
    cut(&name, LONGEST_NAME - 10)
}

/// Longer ones lose their middle, and say by a hash which it was.
fn cut(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let mut hasher = FxHasher::default();
    name.hash(&mut hasher);
    let half = longest / 2 - 10;
    let head = name.floor_char_boundary(half);
    let tail = name.ceil_char_boundary(name.len() - half);
    format!("{}~{:08x}~{}", &name[..head], hasher.finish() as u32, &name[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_no_slashes_and_are_never_too_long() {
        assert_eq!(file_name("0_7_token0/layer0/op0_1-w_0_before"), "0_7_token0.layer0.op0_1-w_0_before");
        let long = file_name(&"算子/".repeat(100));
        assert!(long.len() <= LONGEST_NAME - 10 && !long.contains('/'), "{long}");
        let others = ["a", "b"].map(|middle| file_name(&format!("{}{middle}{}", "x".repeat(200), "y".repeat(200))));
        assert_ne!(others[0], others[1]);
    }
}
