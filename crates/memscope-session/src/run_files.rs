//! Files of a run, beside the directories of its processes: what is known of it as a whole, or of processes without one.
//!
//! They are inputs of whoever reads the recording later, and stay as long as it does; so they have names that a listing
//! shows: `run_<run id>.<kind>`. `memscope-usage` names its logs likewise.
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn path(output_dir: &Path, run_id: u64, kind: &str) -> PathBuf {
    output_dir.join(format!("run_{run_id}.{kind}"))
}

/// Those of all runs whose kind begins so: the run, what follows the beginning, and where it is, in the order of their names.
pub(crate) fn find(output_dir: &Path, kind: &str) -> Vec<(u64, String, PathBuf)> {
    let entries = fs::read_dir(output_dir).into_iter().flatten().flatten();
    let of_run = |path: PathBuf| {
        let (run, rest) = path.file_name()?.to_str()?.strip_prefix("run_")?.split_once('.')?;
        let (run, rest) = (run.parse().ok()?, rest.strip_prefix(kind)?.to_owned());
        Some((run, rest, path))
    };
    let mut found: Vec<(u64, String, PathBuf)> = entries.filter_map(|entry| of_run(entry.path())).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_runs_are_told_from_all_others() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path();
        let [first, second] = [3, 12].map(|run| path(output, run, "end_7"));
        for file in [&first, &second, &path(output, 3, "other")] {
            fs::write(file, "").unwrap();
        }
        for name in ["run_x.end_7", "run_3end_7", "run_.end_7", "end_7", "run_-3.end_7"] {
            fs::write(output.join(name), "").unwrap();
        }
        assert_eq!(find(output, "end_"), [(3, "7".to_owned(), first), (12, "7".to_owned(), second)]);
        assert_eq!(find(&output.join("nowhere"), "end_"), []);
    }
}
