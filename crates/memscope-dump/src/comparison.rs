//! `compare/memory_compare_<time>.csv`: two sequences of operators and kernels side by side, as the manual has it.
use crate::csv::write::push_plain;
use crate::destination::{DUMP_MODE, PartialFile, create_directories};
use crate::digits::push_decimal;
use crate::error::ExportError;
use crate::event_rows::device_id;
use crate::rows::{Event, NOT_APPLICABLE};
use jiff::Zoned;
use memscope_model::Device;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The two lines above the rows: what the columns of bytes are of, and the columns.
const HEADER: &[u8] = b",,,Base,Compare\n\
    Event,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n";
const DIRECTORY: &str = "compare";
const FILE_START: &str = "memory_compare_";
/// Rows are gathered until this many bytes are worth a system call.
const CHUNK: usize = 1 << 20;

/// An operator or kernel of one of the two, or of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComparisonRow<'r> {
    pub event: Event,
    pub name: &'r str,
    pub device: Device,
    /// Change of memory in the base; `None` if it has no such launch.
    pub base: Option<i64>,
    pub compared: Option<i64>,
}

impl ComparisonRow<'_> {
    /// A launch that is not there changes nothing.
    pub fn difference(&self) -> i64 {
        self.compared.unwrap_or(0).saturating_sub(self.base.unwrap_or(0))
    }
}

/// Writes the file of a comparison below `output_dir` and returns its name. It is there when it is complete, and replaces no
/// other.
pub fn write_comparison<'r>(
    output_dir: &Path,
    now: &Zoned,
    rows: impl Iterator<Item = ComparisonRow<'r>>,
) -> Result<PathBuf, ExportError> {
    let directory = output_dir.join(DIRECTORY);
    create_directories(&directory)?;
    PartialFile::remove_abandoned(&directory, FILE_START);
    let target = free_name(&directory, now);
    let partial = PartialFile::create(&target, DUMP_MODE)?;
    let mut out = partial.file();
    let failed = |source| ExportError::Comparison { path: target.clone(), source };
    let mut pending = HEADER.to_vec();
    for row in rows {
        push_row(&mut pending, &row);
        if pending.len() >= CHUNK {
            out.write_all(&pending).map_err(failed)?;
            pending.clear();
        }
    }
    out.write_all(&pending).map_err(failed)?;
    partial.commit()
}

/// Of two comparisons within a second the later one is dated a second later.
fn free_name(directory: &Path, now: &Zoned) -> PathBuf {
    let mut time = now.clone();
    loop {
        let name = directory.join(format!("{FILE_START}{}.csv", time.strftime("%Y%m%d%H%M%S")));
        match time.checked_add(Duration::from_secs(1)) {
            Ok(later) if name.symlink_metadata().is_ok() => time = later,
            _ => return name,
        }
    }
}

fn push_row(out: &mut Vec<u8>, row: &ComparisonRow<'_>) {
    out.extend_from_slice(row.event.text().as_bytes());
    out.push(b',');
    push_plain(out, row.name);
    out.push(b',');
    device_id(row.device).push_text(out);
    for change in [row.base, row.compared, Some(row.difference())] {
        out.push(b',');
        match change {
            Some(bytes) => push_signed(out, bytes),
            None => out.extend_from_slice(NOT_APPLICABLE.as_bytes()),
        }
    }
    out.push(b'\n');
}

fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_decimal(out, value.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use jiff::tz::TimeZone;
    use std::fs;

    #[test]
    fn what_a_killed_comparison_left_goes_with_the_next_and_what_one_writes_stays() {
        let output = tempfile::tempdir().unwrap();
        let directory = output.path().join(DIRECTORY);
        fs::create_dir(&directory).unwrap();
        let path = |name: &str| directory.join(name);
        fs::write(path(".memory_compare_20251203091100.csv.partial"), b"left").unwrap();
        fs::write(path(".memory_compare_20251203091101.csv.partial"), b"under way").unwrap();
        fs::write(path(".mine.csv.partial"), b"another's").unwrap();
        let under_way = fs::File::open(path(".memory_compare_20251203091101.csv.partial")).unwrap();
        under_way.try_lock().unwrap();
        write_comparison(output.path(), &now(), std::iter::empty()).unwrap();
        let mut names: Vec<String> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(
            names,
            [".memory_compare_20251203091101.csv.partial", ".mine.csv.partial", "memory_compare_20251203091159.csv"]
        );
    }

    fn now() -> Zoned {
        date(2025, 12, 3).at(9, 11, 59, 0).to_zoned(TimeZone::UTC).unwrap()
    }

    #[test]
    fn each_launch_is_a_row_below_two_lines_of_headings() {
        let output = tempfile::tempdir().unwrap();
        let row = |name, base, compared| ComparisonRow {
            event: Event::OpLaunch,
            name,
            device: Device::Npu(3),
            base,
            compared,
        };
        let rows = [
            row("aten::mm", Some(512), Some(-512)),
            row("a, \"b\"\nc", Some(i64::MIN), None),
            ComparisonRow { event: Event::KernelLaunch, ..row("k", None, Some(i64::MAX)) },
        ];
        let file = write_comparison(output.path(), &now(), rows.into_iter()).unwrap();
        assert_eq!(file, output.path().join("compare/memory_compare_20251203091159.csv"));
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            ",,,Base,Compare\n\
             Event,Name,Device Id,Allocated Memory(byte),Allocated Memory(byte),Diff Memory(byte)\n\
             OP_LAUNCH,aten::mm,3,512,-512,-1024\n\
             OP_LAUNCH,\"a, \"\"b\"\"\nc\",3,-9223372036854775808,N/A,9223372036854775807\n\
             KERNEL_LAUNCH,k,3,N/A,9223372036854775807,9223372036854775807\n"
        );
    }

    #[test]
    fn no_comparison_takes_the_place_of_another() {
        let output = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> =
            (0..3).map(|_| write_comparison(output.path(), &now(), std::iter::empty()).unwrap()).collect();
        let ends: Vec<String> =
            names.iter().map(|name| name.to_string_lossy().rsplit_once('_').unwrap().1.to_owned()).collect();
        assert_eq!(ends, ["20251203091159.csv", "20251203091200.csv", "20251203091201.csv"]);
    }
}
