//! The bytes of a format version stay what they are: spools that were written once are read as they were then, and the encoder still
//! writes them.
//!
//! Nothing below `golden/` is ever edited. A change that does not pass here is a new format version, whose spools are made
//! by `cargo test -p memscope-format --test golden -- --ignored`; it writes only what does not exist.
#[path = "golden/recipes.rs"]
mod recipes;

use memscope_format::decode::{Spool, text};
use memscope_format::layout::{EVENTS_FILE, SPOOL_DIRECTORY, VERSION, WINDOWS_FILE};
use memscope_format::settings::Mask;
use recipes::RECIPES;
use std::fs;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The golden spools of all versions.
fn spools() -> Vec<PathBuf> {
    let directories = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    directories(&golden()).iter().flat_map(|version| directories(version)).collect()
}

fn text_of(spool: &Path) -> String {
    text::of_spool(&Spool::open(&spool.join(SPOOL_DIRECTORY)).unwrap()).unwrap()
}

#[test]
fn golden_spools_are_read_as_they_were_when_they_were_written() {
    let spools = spools();
    assert!(spools.len() >= RECIPES.len());
    for spool in spools {
        let expected = fs::read_to_string(spool.join("dump.txt")).unwrap();
        let read = text_of(&spool);
        for (number, (read, expected)) in (1..).zip(read.lines().zip(expected.lines())) {
            assert_eq!(read, expected, "{} line {number}", spool.display());
        }
        assert_eq!(read, expected, "{}", spool.display());
    }
}

#[test]
fn the_encoder_still_writes_the_golden_spools() {
    for (name, recipe) in RECIPES {
        let written = tempfile::tempdir().unwrap();
        recipe().write(written.path()).unwrap();
        for file in [WINDOWS_FILE, EVENTS_FILE] {
            let bytes = |directory: &Path| fs::read(directory.join(SPOOL_DIRECTORY).join(file)).unwrap_or_default();
            let (written, kept) = (bytes(written.path()), bytes(&golden().join(format!("v{VERSION}")).join(name)));
            let differs = written.iter().zip(&kept).position(|(one, other)| one != other);
            assert_eq!((differs, written.len()), (None, kept.len()), "{name}/{file}");
        }
    }
}

/// Settings of recordings that exist, with keys that are no longer written.
#[test]
fn settings_of_golden_spools_are_read() {
    let spool = Spool::open(&golden().join("v3/malloc").join(SPOOL_DIRECTORY)).unwrap();
    let settings = spool.process().settings();
    assert_eq!((settings.version, settings.run, settings.owner), (Some(1), Some(u64::MAX), Some(1000)));
    assert_eq!(
        (settings.brand, settings.utc_offset, settings.dir),
        (Some("msleaks"), Some(-12_600), Some(&b"/tmp/a b;c"[..]))
    );
    assert_eq!((settings.c_depth, settings.python_depth, settings.max_size), (Some(50), Some(1000), Some(2 << 30)));
    assert_eq!((settings.cpu, settings.npus, settings.deferred), (Some(true), Some(Mask::ALL), Some(true)));
    assert_eq!(
        (settings.level, settings.events, settings.dump, settings.analysis),
        (Some(3), Some(15), Some(7), Some(9))
    );
    assert_eq!((settings.oom_holders, settings.data_format, settings.log_level), (Some(10), Some(1), Some(3)));
    assert_eq!(settings.steps.unwrap().iter().collect::<Vec<_>>(), [1, u32::MAX, 3]);
    assert_eq!(settings.watch.unwrap().to_string(), "op;0%25:1,op1,full-content");
    assert_eq!(settings.stacks, None, "not said then");
}

#[test]
#[ignore = "makes files, once for each version and recipe"]
fn make_golden_spools_that_do_not_exist() {
    for (name, recipe) in RECIPES {
        let directory = golden().join(format!("v{VERSION}")).join(name);
        if !directory.exists() {
            recipe().write(&directory).unwrap();
            fs::write(directory.join("dump.txt"), text_of(&directory)).unwrap();
        }
    }
}
