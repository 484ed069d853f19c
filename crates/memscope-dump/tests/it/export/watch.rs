//! What watched blocks held, as files.
use crate::export::recording::Recording;
use memscope_dump::Format;
use memscope_testkit::watch::{CONTENTS_FILE, GivenFor, PieceHeader, WatchEnding, WatchOrigin, WatchSource};
use memscope_testkit::{DevAddr, Extended, LaneNumber, LogicalDevice, Phase, SpoolBuilder, StackRef};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const SUMS: &str = "watch_dump_data_check_sum_0_20251203091122.csv";

fn begin(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64, watch: u32, name: &str) {
    let record = Extended::WatchBegin {
        watch,
        origin: WatchOrigin::Program,
        flags: 0,
        device: LogicalDevice(0),
        address: DevAddr(0x1000),
        size: 3,
        output: 0,
        checksum: 1,
        content: 0,
        stack: StackRef::NONE,
        name: name.as_bytes(),
    };
    spool.record(lane, ticks, &record);
}

/// A call of an operator, and what each watch was seen to hold before and after it: checksums and contents.
fn operator(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64, name: &str, looks: &[(u32, u64, u64)]) {
    for (step, phase) in [(0, Phase::Start), (100, Phase::End)] {
        let (source, stack) = (WatchSource::Aten, StackRef::NONE);
        let text = if phase == Phase::Start { name } else { "" };
        let moment = Extended::WatchMoment { source, phase, operator: ticks, kernel: 0, stack, name: text.as_bytes() };
        spool.record(lane, ticks + step, &moment);
        for (number, (watch, checksum, content)) in (1..).zip(looks.iter().copied()) {
            let look = Extended::WatchLook { watch, given: GivenFor::Nothing, checksum, content };
            spool.record(lane, ticks + step + number, &look);
        }
    }
}

fn files(recording: &Recording) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(recording.directory.join("device_0/watch_dump"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn names(recording: &Recording) -> Vec<String> {
    files(recording).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn each_look_has_a_line_and_two_blocks_of_a_name_have_lines_of_their_own() {
    let recording = Recording::new(|spool| {
        spool.config("c=0;py=0;cpu=0;npu=ffffffff;level=1;events=7;dump=7;dir=/tmp");
        let lane = spool.lane(32);
        begin(spool, lane, 1, 1, "a,b");
        begin(spool, lane, 2, 2, "a,b");
        operator(spool, lane, 10, "x/aten::add", &[(1, 0xab, 0), (2, 0xcd, 0)]);
        operator(spool, lane, 500, "x/aten::add", &[(1, 0xef, 0)]);
        spool.record(lane, 900, &Extended::WatchEnd { watch: 1, reason: WatchEnding::Removed });
        // Of a block that is not watched any more, and of one that never was.
        operator(spool, lane, 1000, "late", &[(1, 1, 0), (77, 2, 0)]);
    });
    recording.export(Format::Csv);
    assert_eq!(names(&recording), [SUMS]);
    let expected = "Tensor info,Check data sum\n\
        \"0_32/x/aten::add_1-a,b_0_before.bin\",00000000000000ab\n\
        \"0_32/x/aten::add_1-a,b~2_0_before.bin\",00000000000000cd\n\
        \"0_32/x/aten::add_1-a,b_0_after.bin\",00000000000000ab\n\
        \"0_32/x/aten::add_1-a,b~2_0_after.bin\",00000000000000cd\n\
        \"0_32/x/aten::add_2-a,b_0_before.bin\",00000000000000ef\n\
        \"0_32/x/aten::add_2-a,b_0_after.bin\",00000000000000ef\n";
    assert_eq!(fs::read_to_string(&files(&recording)[0]).unwrap(), expected);
}

#[test]
fn kept_bytes_are_files_and_the_same_bytes_one_file_also_if_exported_again() {
    let recording = Recording::new(|spool| {
        spool.config("c=0;py=0;cpu=0;npu=ffffffff;level=1;events=7;dump=7;dir=/tmp");
        let lane = spool.lane(32);
        begin(spool, lane, 1, 1, "w");
        operator(spool, lane, 10, "token0/op0", &[(1, 1, 1)]);
        operator(spool, lane, 500, "token0/op0", &[(1, 2, 2)]);
        // A content that is lost leaves its checksum.
        operator(spool, lane, 900, "op1", &[(1, 3, 3)]);
    });
    let pieces: Vec<u8> = [(1, b"abc"), (2, b"abd")]
        .into_iter()
        .flat_map(|(content, bytes)| {
            let header = PieceHeader { watch: 1, content, offset: 0, length: 3, total: 3 };
            let mut header = header.encode();
            memscope_testkit::seal(&mut header, bytes);
            [&header[..], &bytes[..]].concat()
        })
        .collect();
    fs::write(recording.directory.join("spool").join(CONTENTS_FILE), pieces).unwrap();
    for _ in 0..2 {
        recording.export(Format::Csv);
        assert_eq!(
            names(&recording),
            [
                "0_32_token0.op0_1-w_0_after.bin",
                "0_32_token0.op0_1-w_0_before.bin",
                "0_32_token0.op0_2-w_0_after.bin",
                "0_32_token0.op0_2-w_0_before.bin",
                SUMS,
            ]
        );
        let files = files(&recording);
        let contents: Vec<Vec<u8>> = files[..4].iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(contents, [b"abc", b"abc", b"abd", b"abd"]);
        let number = |path: &PathBuf| fs::metadata(path).unwrap().ino();
        assert_eq!(number(&files[0]), number(&files[1]));
        assert_ne!(number(&files[1]), number(&files[2]));
        assert_eq!(fs::read_to_string(&files[4]).unwrap().lines().count(), 3);
    }
}
