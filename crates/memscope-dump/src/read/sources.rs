//! What a path holds: spools, dump files, of one process or many.
use super::RowFile;
use super::error::ReadError;
use super::source::FileSource;
use crate::Brand;
use crate::csv::read::{self as csv_read, CsvRows};
use crate::sqlite::read::{self as sqlite_read, DbRows};
use memscope_model::{ModelError, Process, TraceSource, survey_processes};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A process that can be traced.
pub struct Source {
    /// The process directory, or the file, where it is one alone.
    pub path: PathBuf,
    pub trace: Box<dyn TraceSource + Send>,
}

/// What was found at a path.
#[derive(Default)]
pub struct Sources {
    /// Recordings first, in order of start time, then files by their names.
    pub found: Vec<Source>,
    /// What looks like a recording or a dump and cannot be read, and why.
    pub unreadable: Vec<(PathBuf, ModelError)>,
}

/// The one process at `path`: a recording, a directory of dump files, or a file.
pub fn open(path: &Path) -> Result<Box<dyn TraceSource + Send>, ModelError> {
    let mut sources = sources(path)?;
    match (sources.found.len(), sources.found.pop(), sources.unreadable.pop()) {
        (1, Some(source), _) => Ok(source.trace),
        (0, _, Some((_, error))) => Err(error),
        (0, ..) => Err(ReadError::Nothing { path: path.to_owned() }.into()),
        (number, ..) => Err(ReadError::Several { path: path.to_owned(), number }.into()),
    }
}

/// The processes at `path`. Of one that has a recording its files are passed over; of one that has files of both forms,
/// its databases.
pub fn sources(path: &Path) -> Result<Sources, ModelError> {
    let mut sources = Sources::default();
    if !fs::metadata(path).map_err(ReadError::io(path))?.is_dir() {
        return Ok(file_sources(path, &[]));
    }
    let recordings = survey_processes(path, None)?;
    for directory in &recordings.processes {
        match Process::open(directory) {
            Ok(process) => sources.found.push(Source { path: directory.clone(), trace: Box::new(process) }),
            Err(error) => sources.unreadable.push((directory.clone(), error)),
        }
    }
    sources.unreadable.extend(recordings.unreadable);
    let recorded: Vec<PathBuf> = sources.found.iter().map(|source| source.path.clone()).collect();
    let files = file_sources(path, &recorded);
    sources.found.extend(files.found);
    sources.unreadable.extend(files.unreadable);
    Ok(sources)
}

/// As [`sources`], only dump files, and not those in the process directories `recorded`.
pub fn file_sources(path: &Path, recorded: &[PathBuf]) -> Sources {
    let mut sources = Sources::default();
    if !path.is_dir() {
        sources.add_files(Group { root: path.to_owned(), pid: None, files: vec![path.to_owned()] });
        return sources;
    }
    let mut files = Vec::new();
    find_dumps(path, MOST_LEVELS, &mut files);
    groups(files)
        .into_iter()
        .filter(|group| !recorded.contains(&group.root))
        .for_each(|group| sources.add_files(group));
    sources
}

impl Sources {
    fn add_files(&mut self, group: Group) {
        let Group { root, pid, files } = group;
        if let Some(pid) = pid {
            return self.add(root, FileSource::new(files, pid, None));
        }
        let mut pids: Vec<u32> = Vec::new();
        let mut error = None;
        for file in &files {
            match processes(file) {
                Ok(found) => pids.extend(found),
                Err(failure) => error = error.or(Some((file.clone(), failure))),
            }
        }
        if let Some((file, error)) = error {
            self.unreadable.push((file, error.into()));
            if pids.is_empty() {
                return;
            }
        }
        pids.sort_unstable();
        pids.dedup();
        match pids[..] {
            [] => self.add(root, FileSource::new(files, 0, None)),
            [pid] => self.add(root, FileSource::new(files, pid, None)),
            _ => pids.iter().for_each(|pid| self.add(root.clone(), FileSource::new(files.clone(), *pid, Some(*pid)))),
        }
    }

    fn add(&mut self, path: PathBuf, source: FileSource) {
        self.found.push(Source { path, trace: Box::new(source) });
    }
}

/// Files that belong together.
struct Group {
    root: PathBuf,
    /// Where the directory's name says it.
    pid: Option<u32>,
    files: Vec<PathBuf>,
}

/// `<output>/<process>/device_<id>/dump/<file>`, and one more for an output directory among others.
const MOST_LEVELS: u32 = 5;

fn find_dumps(directory: &Path, levels: u32, files: &mut Vec<PathBuf>) {
    // A directory that cannot be listed holds nothing for us; the one the user named was listed before.
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // Links are followed to files, not to directories, which may lead in a circle.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && levels > 1 => find_dumps(&path, levels - 1, files),
            Ok(_) if form_of_name(&path).is_some() && path.is_file() => files.push(path),
            _ => {}
        }
    }
}

/// What a file's name says it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Csv,
    Database,
}

/// `memscope_dump_<digits>.csv` and its kin.
fn form_of_name(path: &Path) -> Option<Form> {
    let name = path.file_name()?.to_str()?;
    let rest = [Brand::MsMemScope, Brand::MsLeaks].iter().find_map(|brand| name.strip_prefix(brand.table()))?;
    let (time, extension) = rest.strip_prefix('_')?.split_once('.')?;
    let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    let form = match extension {
        "csv" => Form::Csv,
        "db" => Form::Database,
        _ => return None,
    };
    is_time.then_some(form)
}

/// By process directory; files outside of one stand for themselves.
fn groups(files: Vec<PathBuf>) -> Vec<Group> {
    let mut groups: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let root = process_directory(&file).map_or_else(|| file.clone(), Path::to_owned);
        groups.entry(root).or_default().push(file);
    }
    let group = |(root, mut files): (PathBuf, Vec<PathBuf>)| {
        if files.iter().any(|file| form_of_name(file) == Some(Form::Csv)) {
            files.retain(|file| form_of_name(file) == Some(Form::Csv));
        }
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        Group { pid: pid_of_name(&name), files, root }
    };
    groups.into_iter().map(group).collect()
}

/// What `device_<id>/dump/<file>` is in.
fn process_directory(file: &Path) -> Option<&Path> {
    let dump = file.parent()?;
    let device = dump.parent()?;
    let is_device = device.file_name()?.to_str()?.starts_with("device_");
    let directory = device.parent().filter(|directory| !directory.as_os_str().is_empty());
    (dump.file_name()? == "dump" && is_device).then_some(directory)?
}

/// `<brand>_<pid>_<time>_ascend`.
fn pid_of_name(name: &str) -> Option<u32> {
    let brands = [Brand::MsMemScope, Brand::MsLeaks];
    let rest = brands.iter().find_map(|brand| name.strip_prefix(brand.name()))?;
    let (pid, rest) = rest.strip_prefix('_')?.split_once('_')?;
    rest.ends_with("_ascend").then(|| pid.parse().ok())?
}

/// A file by what it is, not by its name.
pub(crate) fn open_rows(path: &Path) -> Result<Box<dyn RowFile + Send>, ReadError> {
    Ok(match is_database(path)? {
        true => Box::new(DbRows::open(path)?),
        false => Box::new(CsvRows::open(path)?),
    })
}

fn processes(path: &Path) -> Result<Vec<u32>, ReadError> {
    match is_database(path)? {
        true => sqlite_read::processes(path),
        false => csv_read::processes(path),
    }
}

pub(crate) fn is_database(path: &Path) -> Result<bool, ReadError> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(ReadError::io(path))?.is_file() {
        return Err(ReadError::Foreign { path: path.to_owned(), why: "it is not a regular file".to_owned() });
    }
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(ReadError::io(path))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut beginning).map_err(ReadError::io(path))?;
    Ok(beginning == MAGIC)
}
