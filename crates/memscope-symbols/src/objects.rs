//! Files that several threads look addresses up in: each is read once, each address is looked up once.
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::demangle::Names;
use crate::frame::SourceFrame;
use crate::sources::Sources;

/// Where distributions install separate debug files.
const SYSTEM_DEBUG_DIRECTORY: &str = "/usr/lib/debug";
/// Debug information of files that no [`crate::Symbolizer`] asks for any more is held in memory up to this much, together
/// with that of the others; then those that were not asked for longest are closed, and read again should they be asked for
/// something new. Answers are never forgotten.
const MOST_BYTES: u64 = 1 << 30;
/// The same for open files: each costs a descriptor, of which a process has a thousand.
const MOST_OPEN: usize = 512;

/// Of an object that no symbolizer has: it is known under its path, and among the open ones.
const OWN_COUNT: usize = 2;

/// What was read of all files so far, one object per (path, build id). Clones share it.
#[derive(Clone)]
pub struct Symbols(Arc<Shared>);

struct Shared {
    debug_directories: Vec<PathBuf>,
    /// Known under a path; nearly always one, more if the file was replaced between two recorded processes.
    by_path: Mutex<FxHashMap<PathBuf, Vec<Arc<Object>>>>,
    open: Mutex<Vec<Opened>>,
    most_bytes: u64,
    /// Counts lookups, to tell which file was asked last.
    time: AtomicU64,
}

struct Opened {
    object: Arc<Object>,
    bytes: u64,
}

/// One file as a program ran it.
pub(crate) struct Object {
    path: PathBuf,
    pub(crate) recorded_build_id: Vec<u8>,
    last_asked: AtomicU64,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    /// `None`: not read yet, or closed.
    sources: Option<Sources>,
    answers: FxHashMap<u64, Arc<[SourceFrame]>>,
    names: Names,
    problems: Vec<String>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    pub fn new() -> Symbols {
        Symbols::with_debug_directories(vec![PathBuf::from(SYSTEM_DEBUG_DIRECTORY)])
    }

    /// Looks for separate debug files in these directories instead of the system's.
    pub fn with_debug_directories(debug_directories: Vec<PathBuf>) -> Symbols {
        Symbols::keeping(debug_directories, MOST_BYTES)
    }

    fn keeping(debug_directories: Vec<PathBuf>, most_bytes: u64) -> Symbols {
        Symbols(Arc::new(Shared {
            debug_directories,
            by_path: Mutex::default(),
            open: Mutex::default(),
            most_bytes,
            time: AtomicU64::new(0),
        }))
    }

    /// The object of that path and build id; nothing is read for it yet.
    pub(crate) fn object(&self, path: &Path, build_id: &[u8]) -> Arc<Object> {
        let mut by_path = lock(&self.0.by_path);
        let known = by_path.get(path).map(Vec::as_slice).unwrap_or_default();
        if let Some(object) = known.iter().find(|object| object.recorded_build_id == build_id) {
            return Arc::clone(object);
        }
        let object = Arc::new(Object {
            path: path.to_owned(),
            recorded_build_id: build_id.to_owned(),
            last_asked: AtomicU64::new(0),
            contents: Mutex::default(),
        });
        by_path.entry(path.to_owned()).or_default().push(Arc::clone(&object));
        object
    }

    /// Frames at a return address. `problems` gets the lines about the object that it has not got yet: `told` of them it
    /// has.
    pub(crate) fn frames(
        &self,
        object: &Arc<Object>,
        offset: u64,
        told: &mut usize,
        problems: &mut Vec<String>,
    ) -> Arc<[SourceFrame]> {
        // Whoever asks for the same file meanwhile waits, which is shorter than reading it a second time.
        let mut contents = lock(&object.contents);
        let mut newly_opened = None;
        let answer = match contents.answers.get(&offset) {
            Some(known) => Arc::clone(known),
            None => {
                object.last_asked.store(self.0.time.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                let Contents { sources, answers, names, problems } = &mut *contents;
                let sources = sources.get_or_insert_with(|| {
                    let mut found = Vec::new();
                    let opened =
                        Sources::open(&object.path, &object.recorded_build_id, &self.0.debug_directories, &mut found);
                    found.retain(|line| !problems.contains(line));
                    problems.append(&mut found);
                    newly_opened = Some(opened.bytes());
                    opened
                });
                let frames: Arc<[SourceFrame]> = sources.frames(&object.path, offset, names, problems).into();
                answers.insert(offset, Arc::clone(&frames));
                frames
            }
        };
        problems.extend(contents.problems.iter().skip(*told).cloned());
        *told = contents.problems.len();
        drop(contents);
        if let Some(bytes) = newly_opened {
            self.keep(object, bytes);
        }
        answer
    }

    /// Notes that the object's file was read, and closes others for it that are not in use.
    fn keep(&self, object: &Arc<Object>, bytes: u64) {
        let mut open = lock(&self.0.open);
        open.push(Opened { object: Arc::clone(object), bytes });
        let mut held: u64 = open.iter().map(|opened| opened.bytes).sum();
        while held > self.0.most_bytes || open.len() > MOST_OPEN {
            let unused = open.iter().enumerate().filter(|(_, opened)| Arc::strong_count(&opened.object) == OWN_COUNT);
            let oldest = unused.min_by_key(|(_, opened)| opened.object.last_asked.load(Ordering::Relaxed));
            let Some((place, _)) = oldest else { return };
            // Nobody waits for this list with the contents of an object in hand.
            let closed = open.swap_remove(place);
            lock(&closed.object.contents).sources = None;
            held -= closed.bytes;
        }
    }
}

/// A thread that panicked with the lock in its hands has left whole entries.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Symbolizer;

    fn open(symbols: &Symbols) -> usize {
        lock(&symbols.0.open).len()
    }

    #[test]
    fn a_file_is_read_once_for_all_threads_and_all_get_the_same_answer() {
        let symbols = Symbols::with_debug_directories(Vec::new());
        let own = std::env::current_exe().unwrap();
        let addresses: Vec<u64> = (1..400).map(|number| number * 0x2345).collect();
        let answers: Vec<Vec<Vec<SourceFrame>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut symbolizer = Symbolizer::sharing(&symbols);
                        addresses.iter().map(|offset| symbolizer.c_frames(&own, &[], *offset).to_vec()).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(answers[0].iter().any(|frames| !frames.is_empty()));
        assert!(answers.iter().all(|of_thread| *of_thread == answers[0]));
        assert_eq!(open(&symbols), 1);
    }

    #[test]
    fn files_nobody_asks_for_any_more_are_closed_when_they_hold_too_much_and_answer_all_the_same() {
        let (own, shell) = (std::env::current_exe().unwrap(), PathBuf::from("/bin/sh"));
        let tight = Symbols::keeping(Vec::new(), 1);
        let offsets: Vec<u64> = (0x4000..0x10_0000).step_by(0xb321).collect();
        let ask = |symbolizer: &mut Symbolizer, path: &Path, offsets: &[u64]| -> Vec<Vec<SourceFrame>> {
            offsets.iter().map(|offset| symbolizer.c_frames(path, &[], *offset).to_vec()).collect()
        };
        let expected = ask(&mut Symbolizer::with_debug_directories(Vec::new()), &own, &offsets);
        assert!(expected.iter().any(|frames| !frames.is_empty()));
        {
            let mut one = Symbolizer::sharing(&tight);
            assert_eq!(ask(&mut one, &own, &offsets[..5]), expected[..5]);
            ask(&mut one, &shell, &offsets);
            assert_eq!(open(&tight), 2, "both are in use");
        }
        ask(&mut Symbolizer::sharing(&tight), Path::new("/bin/ls"), &offsets);
        assert_eq!(open(&tight), 1);
        assert_eq!(ask(&mut Symbolizer::sharing(&tight), &own, &offsets), expected);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_to_everyone_who_asks_for_it_once() {
        let symbols = Symbols::with_debug_directories(Vec::new());
        for _ in 0..2 {
            let mut symbolizer = Symbolizer::sharing(&symbols);
            for offset in [16, 32] {
                assert!(symbolizer.c_frames(Path::new("/nowhere/libgone.so"), &[7], offset).is_empty());
            }
            assert_eq!(symbolizer.problems().len(), 1, "{:?}", symbolizer.problems());
        }
    }
}
