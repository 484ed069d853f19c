//! What the fuzz targets share: recordings on disk, and the whole way from a recording to both kinds of file.
use memscope_dump::{ExportOptions, Exported, Format, Room, export_process};
use memscope_format::layout::{PROCESS_HEADER_SIZE, PROCESS_MAGIC, VERSION, WINDOW_SIZE};
use memscope_model::{Process, Status};
use memscope_symbols::Symbolizer;
use memscope_testkit::{AccessMode, Phase, Space, SpoolBuilder, TaskLogLine, TensorOwner};
use std::path::Path;

/// A process header that gets a reader past the first checks.
pub fn header_page(windows: u32) -> Vec<u8> {
    let mut page = vec![0u8; PROCESS_HEADER_SIZE];
    page[..8].copy_from_slice(&PROCESS_MAGIC);
    for (offset, value) in [(8, VERSION), (12, PROCESS_HEADER_SIZE as u32), (16, WINDOW_SIZE as u32), (84, windows)] {
        page[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    page
}

/// Two lanes with allocations and launches and one with a task log, two blocks and a window each.
pub fn sound_recording(directory: &Path) {
    let mut spool = SpoolBuilder::new();
    let lanes = [spool.lane(1), spool.lane(2)];
    let log = spool.lane(3);
    spool.kernel_name(lanes[0], 7, "MatMul").device_clock(log, 0, 0, 0, 1_000_000);
    for number in 1..=60u64 {
        let lane = lanes[number as usize % 2];
        spool.alloc(lane, number * 10, number << 8, number, 0);
        if number % 3 == 0 {
            spool.free(lane, number * 10 + 1, number << 8, 0);
        }
        let (task, counter) = (number as u32, number * 10 + 4);
        spool.launch(lane, number * 10 + 2).task(lane, number * 10 + 3, 0, 1, task, 7);
        let begin = TaskLogLine { stream: 1, task, unit: 0, end: false, counter };
        spool.executions(log, number * 10 + 9, 0, true, &[begin, TaskLogLine { end: true, ..begin }]);
        if number % 4 == 0 {
            let (ticks, address) = (number * 10 + 2, 0x12c0_0000_0000 + (number << 12));
            spool.heap(lane, ticks, Space::Atb, 0, address, 4096).region(lane, ticks, Space::Atb, 0, address, 512);
            spool.operator_start(lane, ticks, number, 0, (address, 512), "0_1/7_Add", "Add", 0);
            spool.access(lane, ticks, AccessMode::Write, TensorOwner::AtbOperator, 0, (address + 8, 24), &[2, 3]);
            spool
                .kernel(lane, ticks, Phase::Start, 0, "0_1/7_Add/0_AddKernel/before")
                .operator_end(lane, ticks, number);
            spool.aten_name(lane, 0, "aten::add").aten_start(lane, ticks, number, 0, 0, 0);
            spool
                .aten_access(lane, ticks, AccessMode::Read, 0, 0, (address + 16, 8), address, &[2])
                .aten_end(lane, ticks, number);
            spool.heap_end(lane, ticks, Space::Atb, address);
        }
        if number % 25 == 0 {
            spool.end_generation(log);
            spool.end_generation(lanes[0]);
            spool.end_generation(lanes[1]);
        }
    }
    spool.write(directory).unwrap();
}

/// Exports what can be read, in both formats; the two must agree on the number of rows.
pub fn export_both(directory: &Path) {
    let exported = [Format::Csv, Format::Db].map(|format| export(directory, format));
    let rows: Vec<u64> = exported.iter().flatten().map(|exported| exported.rows).collect();
    assert!(rows.windows(2).all(|pair| pair[0] == pair[1]), "{rows:?}");
}

/// `None` if the recording cannot be read.
pub fn export(directory: &Path, format: Format) -> Option<Exported> {
    let mut process = Process::open(directory).ok()?;
    let (room, mut symbolizer) = (Room::default(), Symbolizer::with_debug_directories(Vec::new()));
    let options = ExportOptions::quiet(format, &room, &mut symbolizer);
    export_process(&mut process, directory, options, &mut []).ok()
}

/// Reads a dump to its end, if it is one.
pub fn read_dump(path: &Path) {
    let Ok(sources) = memscope_dump::sources(path) else { return };
    for mut source in sources.found {
        while let Ok(Status::More) = source.trace.step(&mut []) {}
        source.trace.outcome();
    }
}
