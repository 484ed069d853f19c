//! What the golden spools of the present version hold: every type of record, and of each field its extremes and what is written
//! relative to the record before.
use memscope_testkit::{
    AccessMode, DevAddr, Extended, HostAddr, HostCall, LabelLevel, LaneNumber, LogicalDevice, Phase, PhysicalDevice,
    Protection, Space, SpoolBuilder, StackRef, StopReason, SystemKind, TaskLogLine, TensorOwner,
};

use memscope_format::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};

pub(crate) type Recipe = fn() -> SpoolBuilder;

/// By the name of the directory. Never changed and never taken away; what is new gets a new one.
pub(crate) const RECIPES: [(&str, Recipe); 14] = [
    ("malloc", malloc),
    ("device", device),
    ("kernels", kernels),
    ("atb", atb),
    ("damage", damage),
    ("forget", forget),
    ("aten", aten),
    ("refused", refused),
    ("labels", labels),
    ("storages", storages),
    ("phases", phases),
    ("calls", calls),
    ("watch", watch),
    ("streams", streams),
];

const SETTINGS: &str = "v=1;run=18446744073709551615;owner=1000;brand=msleaks;utc=-12600;hz=0;c=50;py=1000;cpu=1;npu=ffffffff;\
     level=3;events=15;dump=7;analysis=9;oomk=10;mode=1;steps=1+4294967295+3;max=2147483648;format=1;log=3;\
     watch=op%3B0%2525:1,op1,full-content;dir=/tmp/a b;c";

/// Numbers of each length a varint or a field can have, and their neighbours.
const SIZES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x3fff,
    0x4000,
    0xffff,
    0x1_0000,
    0xffff_ffff,
    0x1_0000_0000,
    u64::MAX - 1,
    u64::MAX,
];

fn spool() -> SpoolBuilder {
    let mut spool = SpoolBuilder::new();
    spool.small_windows().config(SETTINGS).command("/usr/bin/python3", "python3 train.py --steps 3");
    spool
}

fn malloc() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    spool.process(4711, u64::MAX).lose(lane, 3).lose_without_window(2);
    stacks(&mut spool, lane);
    let mut ticks = 1;
    let mut tick = |step: u64| {
        ticks += step;
        ticks
    };
    // Each length of time and size.
    for size in SIZES {
        spool.alloc(lane, tick(size >> 24), 0x5000, size, 0);
    }
    // Each length of an address, near, far, back and not a multiple of 16; with a stack and without.
    let addresses = [
        0x5010,
        0x4ff0,
        0x5000 + (0x7fff << 4),
        0x5000 + (0x8000 << 4),
        0x1000_0000,
        0x10,
        0xff_ffff_fff0,
        0x7f12_3456_7890,
        0x7f12_3456_7898,
        0,
        u64::MAX,
    ];
    for (number, address) in (0u32..).zip(addresses) {
        spool.alloc(lane, tick(40), address, 64, number % 5).free(lane, tick(300), address, 0);
        spool.alloc(lane, tick(40), address, 0x1234, 0).free(lane, tick(0), address, number % 3);
    }
    // Each way to name the Python part: none, another, the same, one without a C part.
    for name in [1, 100, 100, 2, 101, 3, 5, 5, 0, 100] {
        spool.alloc(lane, tick(7), 0x7000, 16, name).free(lane, tick(7), 0x7000, name);
    }
    let protection = |bits| Protection(bits);
    for (number, size) in (0u64..).zip(SIZES) {
        let address = 0x7f00_0000_0000 + (number << 12);
        let stack = StackRef { c: number as u32 % 4, python: 0 };
        spool.record(
            lane,
            tick(9),
            &Extended::HostMap { address: HostAddr(address), size, protection: protection(number as u8), stack },
        );
        let protected =
            Extended::HostProtect { address: HostAddr(address), size, protection: protection(number as u8 & 7), stack };
        spool.record(lane, tick(9), &protected);
        spool.remap(lane, tick(9), (address, size), (!address, size / 2), number as u32 % 3);
        spool.unmap(lane, tick(9), !address, size, 0);
    }
    // A mapping as it was written before protections were: type 5, 7 ticks later, 8 + 2 + 1 bytes, 4096 at 0x7000, no stack.
    spool.raw(lane, &[0, 5, 7, 11, 0, 0, 0x70, 0, 0, 0, 0, 0, 0, 0x80, 0x20, 3]);
    spool.end_generation(lane);
    // Another generation begins from nothing, and the definitions of the one before still hold.
    spool.alloc(lane, tick(1000), 0x9000, 48, 4);
    spool.c_node(lane, 20, 4, 1, 0x999).alloc(lane, tick(1), 0x9030, 48, 20);
    spool.thread(lane, 4712).free(lane, tick(1), 0x9000, 0).end_generation(lane);
    spool.free(lane, tick(1), 0x9030, 0);
    let other = spool.lane(u32::MAX);
    spool.alloc(other, 500, 0xa000, 8, 0).lose(other, 1);
    spool
}

/// Modules, code objects and nodes of every kind: 1 to 4 C, 5 Python, 6 to 9 what came before, 10 on others.
fn stacks(spool: &mut SpoolBuilder, lane: LaneNumber) {
    spool.module(lane, 0, 0x5555_5555_4000, b"/usr/bin/python3", b"\x01\x02\xff");
    spool.module(lane, 1, 0x7f00_0000_0000, "/opt/\u{6743}\u{91cd}/libtorch.so".as_bytes(), &[7; 80]);
    spool.module(lane, u32::MAX, u64::MAX, b"", b"");
    spool.code(lane, 0, "/home/user/train.py", "main", 12);
    spool.code_with_lines(lane, u32::MAX, 0x30e, "", "\u{51fd}\u{6570}", u32::MAX, &[0, 1, 0x80, 0xff]);
    spool.c_node(lane, 1, 0, 0, 0x7000).c_node(lane, 2, 1, 1, 0x12_3456).c_node(lane, 3, 1, 1, 0x12_3460);
    spool.unknown_node(lane, 4, 2, 0xffff_8000_0000_0000).python_node(lane, 5, 0, 0, 6);
    // Frames that came before, below the same ones, at the first and the second place of their row.
    spool.c_node(lane, 6, 0, 0, 0x7000).c_node(lane, 7, 6, 1, 0x12_3456);
    spool.c_node(lane, 8, 0, 0, 0x7000).c_node(lane, 9, 8, 1, 0x77);
    spool.c_node(lane, 10, 0, 0, 0x7000).c_node(lane, 11, 10, 1, 0x12_3456);
    // Given numbers, a parent far back, code that changes.
    spool.python_node(lane, 15, 5, u32::MAX, u32::MAX).python_node(lane, 16, 15, u32::MAX, 2);
    spool.c_node(lane, 17, 1, 1, u64::MAX).c_node(lane, 18, 17, u32::MAX, 0);
    spool.both(lane, 100, 3, 5).both(lane, 101, 2, 16);
}

fn device() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    spool.stopped(StopReason::SizeCap, 0);
    stacks(&mut spool, lane);
    spool.visible_devices(lane, "3,1,7");
    let kinds = [
        SystemKind::AclInit,
        SystemKind::AclFinalize,
        SystemKind::StartTrace,
        SystemKind::StopTrace,
        SystemKind::Step,
        SystemKind::SetDevice,
    ];
    for (number, kind) in (0u64..).zip(kinds) {
        spool.system(lane, 10 + number, kind, SIZES[number as usize * 2]);
    }
    let mut ticks = 100;
    for (number, size) in (0u32..).zip(SIZES) {
        // Those there were then.
        let space = Space::ALL[number as usize % 7];
        let device = [0, 7, 127, 128, 9_999, 10_000, u32::MAX][number as usize % 7];
        let address = 0x12c0_0000_0000 + (u64::from(number) << 21) * if number % 2 == 0 { 1 } else { 300 };
        let attributes = [0, 7 | 1 << 8, u32::MAX][number as usize % 3];
        ticks += size >> 28;
        spool.heap(lane, ticks, space, device, address, size);
        spool.device_alloc(lane, ticks, space, device, address, size, attributes, number % 6);
        spool.pool_total(lane, ticks + 1, space, device, size);
        spool.device_free(lane, ticks + 300, space, address, [0, 100, 5][number as usize % 3]);
        spool.out_of_memory(lane, ticks + 301, space, device, size, !size, number % 2);
        spool.heap_end(lane, ticks + 302, space, address);
        ticks += 400;
        if number == 6 {
            spool.end_generation(lane);
        }
    }
    for (number, text) in (0u64..).zip(["", "step start", "\u{6b65}\"\\\n;", &"x".repeat(5000)]) {
        spool.mark(lane, ticks, text).range_start(lane, ticks + 1, SIZES[10 + number as usize], text);
        spool.snapshot(lane, ticks + 2, [0, 9_999, 1, u32::MAX][number as usize], text);
        spool.range_end(lane, ticks + 3, SIZES[10 + number as usize]);
        ticks += 10;
    }
    spool
}

fn kernels() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, log) = (spool.lane(4711), spool.lane(4712));
    spool.profiling_taken();
    for (number, hash) in (0u32..).zip(SIZES) {
        let ticks = 100 * u64::from(number + 1);
        spool.launch(lane, ticks);
        spool.kernel_name(lane, hash, ["MatMul", "", "\u{5377}\u{79ef}_0"][number as usize % 3]);
        spool.task(lane, ticks + 1, number % 3, number * 3000, [number, u32::MAX - number][number as usize % 2], hash);
    }
    spool.stream_expansion(lane, 5000, 1).stream_expansion(lane, 5001, u8::MAX);
    for (number, counter) in (0u32..).zip(SIZES) {
        let record =
            Extended::DeviceClock { device: PhysicalDevice(number), frequency_khz: counter, counter, width: counter };
        spool.record(log, 90 * u64::from(number + 1), &record);
    }
    let mut lines = Vec::new();
    for (number, counter) in (0u32..).zip(SIZES) {
        let begin = TaskLogLine {
            stream: (number as u16).wrapping_mul(5000),
            task: number.wrapping_mul(400_000_000),
            unit: 0,
            end: false,
            counter,
        };
        lines.push(begin);
        lines.push(TaskLogLine { unit: number as u8 * 4, end: true, counter: counter.wrapping_add(50), ..begin });
    }
    spool.executions(log, 6000, 0, true, &lines).executions(log, 6001, u32::MAX, false, &lines);
    spool.executions(log, 6002, 1, true, &[]);
    spool
}

fn atb() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    stacks(&mut spool, lane);
    let long = "d/".repeat(600);
    let launches = [
        ("0_7/1_Linear", "Linear"),
        ("0_7/1_Linear", ""),
        ("0_7/2_Add", "Else"),
        ("", "Linear"),
        ("", ""),
        (long.as_str(), "d/"),
        ("0_7/1_Linear", "1_Linear"),
    ];
    let mut ticks = 10;
    for (number, (path, name)) in (0u32..).zip(launches) {
        let (launch, workspace) = (SIZES[number as usize * 2], 0x12c0_0000_0000 + (u64::from(number) << 33));
        let device = [0, 9_999, 10_000, u32::MAX][number as usize % 4];
        let size = SIZES[number as usize * 2 + 1];
        spool.operator_start(
            lane,
            ticks,
            launch,
            device,
            (workspace, size),
            path,
            name,
            [0, 1, 100][number as usize % 3],
        );
        for (rank, (mode, owner)) in [
            (AccessMode::Unknown, TensorOwner::AtbOperator),
            (AccessMode::Read, TensorOwner::AtbKernel),
            (AccessMode::Write, TensorOwner::AtbOperator),
        ]
        .into_iter()
        .enumerate()
        {
            let dimensions = [0, 1, -1, 64, i64::MAX, i64::MIN, 7, 8, 9, 10];
            let (dtype, format) = [(0, 1), (i32::MAX, i32::MIN), (-1, 64)][rank];
            let dimensions = &dimensions[..(number as usize * 3 + rank).min(10)];
            let address = workspace + rank as u64 * 512;
            let device = LogicalDevice(device);
            let record =
                Extended::Access { mode, owner, device, address: DevAddr(address), size, dtype, format, dimensions };
            spool.record(lane, ticks + 1 + rank as u64, &record);
        }
        let kernel = format!("{path}/0_Kernel");
        spool.kernel(lane, ticks + 10, Phase::Start, device, &format!("{kernel}/before"));
        spool.kernel(lane, ticks + 20, Phase::End, device, &format!("{kernel}/after"));
        spool.operator_end(lane, ticks + 30, launch);
        ticks += 1000;
        if number == 2 {
            spool.end_generation(lane);
        }
    }
    spool
}

/// What a reader must live with: types of a later version, and a record that is none.
fn damage() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    // Type 200, 5 ticks later, with three bytes.
    spool.alloc(lane, 10, 0x5000, 64, 0).raw(lane, &[0, 200, 5, 3, 0, 1, 2, 3]).alloc(lane, 20, 0x6000, 64, 0);
    // A space that is none: the rest of the block cannot be read.
    spool.raw(lane, &[0, 17, 1, 3, 0, 99, 0, 3]).end_generation(lane);
    spool.alloc(lane, 40, 0x7000, 64, 0).end_generation(lane).alloc(lane, 50, 0x8000, 64, 0);
    spool.record(other, 15, &Extended::Mark { text: b"intact" });
    spool.unknown_node(other, 1, 0, 7);
    spool.alloc(other, 60, 0x9000, 64, 1);
    spool
}

/// Definitions that are given up, and others with further numbers.
fn forget() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    stacks(&mut spool, lane);
    spool.alloc(lane, 10, 0x5000, 64, 3).forget(lane);
    spool.module(lane, 2, 0x5555_5555_4000, b"/usr/bin/python3", b"\x01");
    spool.c_node(lane, 19, 0, 2, 0x7000).c_node(lane, 20, 19, 2, 0x7700).free(lane, 20, 0x5000, 20);
    spool.end_generation(lane).forget(lane).alloc(lane, 30, 0x6000, 64, 0).forget(lane).forget(lane);
    spool
}

/// Operators of Aten, nested and not ended, and the tensors they are given.
fn aten() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    stacks(&mut spool, lane);
    for (id, text) in [(0, "aten::add.Tensor"), (127, ""), (128, "\u{7b97}\u{5b50}"), (u32::MAX, "aten::linear")] {
        spool.aten_name(lane, id, text);
    }
    let mut ticks = 10;
    for (number, sequence) in (0u32..).zip(SIZES) {
        let device = [0, 9_999, 10_000, u32::MAX][number as usize % 4];
        let name = [0, 127, 128, u32::MAX][number as usize % 4];
        spool.aten_start(lane, ticks, sequence, device, name, [0, 1, 100][number as usize % 3]);
        for (rank, mode) in [AccessMode::Unknown, AccessMode::Read, AccessMode::Write].into_iter().enumerate() {
            let storage = 0x12c0_0000_0000 + (u64::from(number) << 33);
            let address = storage + rank as u64 * 512;
            let dimensions = [0, 1, -1, 64, i64::MAX, i64::MIN, 7, 8, 9, 10];
            let (dtype, format) = [(0, -1), (i32::MAX, i32::MIN), (-1, 29)][rank];
            let record = Extended::AtenAccess {
                mode,
                name,
                device: LogicalDevice(device),
                address: DevAddr(address),
                size: sequence,
                storage: DevAddr([storage, 0][rank % 2]),
                dtype,
                format,
                dimensions: &dimensions[..(number as usize + rank).min(10)],
            };
            spool.record(lane, ticks + 1 + rank as u64, &record);
        }
        // Some end in another lane, some never.
        match number % 3 {
            0 => spool.aten_end(lane, ticks + 20, sequence),
            1 => spool.aten_end(other, ticks + 30, sequence),
            _ => &mut spool,
        };
        ticks += 1000;
        if number == 6 {
            spool.end_generation(lane);
        }
    }
    spool
}

/// Calls of Python functions: found, made, of modules and in C, ended and not, with and without a definition.
fn calls() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    spool.calls_traced();
    spool.code(lane, 0, "/train.py", "<module>", 1).code(lane, 300, "/torch/nn/modules/module.py", "_call_impl", 7);
    for (id, text, owner) in [(0, "Linear", ""), (127, "append", "list"), (u32::MAX, "\u{51fd}", "")] {
        spool.call_name(lane, id, text, owner);
    }
    spool.record(lane, 10, &Extended::CallsBegin {});
    spool.record(lane, 10, &Extended::CallFound { code: 0 }).record(lane, 10, &Extended::CallFound { code: 300 });
    let mut ticks = 20;
    for (number, step) in (0u32..).zip(SIZES.into_iter().take(10)) {
        let code = [0, 300, 127, 128, u32::MAX][number as usize % 5];
        spool.record(lane, ticks, &Extended::Call { code });
        spool.record(lane, ticks + 1, &Extended::ModuleCall { code, class: [0, u32::MAX][number as usize % 2] });
        spool.record(lane, ticks + 2, &Extended::NativeCall { function: [127, u32::MAX, 5][number as usize % 3] });
        for end in 0..number % 4 {
            spool.record(lane, ticks + 3 + u64::from(end), &Extended::CallEnd {});
        }
        ticks += 10 + step;
        if number == 5 {
            spool.end_generation(lane);
        }
    }
    spool.record(other, 15, &Extended::CallEnd {}).record(other, 16, &Extended::CallsBegin {});
    spool
}

/// Host memory that was not to be had.
fn refused() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    stacks(&mut spool, lane);
    spool.alloc(lane, 10, 0x5000, 64, 3);
    for (number, size) in (0u64..).zip(SIZES) {
        let call = HostCall::ALL[number as usize % HostCall::ALL.len()];
        let flag = SIZES[SIZES.len() - 1 - number as usize];
        spool.host_refused(lane, 100 * (number + 1), call, (size, flag), [0, 1, 3][number as usize % 3]);
    }
    spool.end_generation(lane).host_refused(lane, 5000, HostCall::Mmap, (1 << 40, 3), 1);
    spool
}

/// Labels of threads and blocks, nested and not ended, functions, and snapshots with numbers of their own.
fn labels() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    let names = [(1, "model"), (127, ""), (128, "\u{6743}\u{91cd}@\n"), (u32::MAX, "forward")];
    for (id, text) in names {
        spool.label_name(lane, id, text);
    }
    // The same number is another text in another lane.
    spool.label_name(other, 1, "worker");
    let mut ticks = 10;
    // The levels there were.
    let levels = &LabelLevel::ALL[..=LabelLevel::User as usize];
    for (number, size) in (0u32..).zip(SIZES) {
        let (level, label) = (levels[number as usize % levels.len()], names[number as usize % 4].0);
        spool.label_start(lane, ticks, level, label).label_start(other, ticks + 1, LabelLevel::User, 1);
        spool.record(lane, ticks + 2, &Extended::FunctionStart { name: label });
        let address = 0x5000 + (u64::from(number) << 33);
        spool.alloc(lane, ticks + 3, address, 64, 0).label_block(lane, ticks + 4, level, label, address + 32);
        let snapshot = Extended::ToldSnapshot {
            device: LogicalDevice([0, 9_999, 10_000, u32::MAX][number as usize % 4]),
            reserved: size,
            max_reserved: !size,
            allocated: size / 2,
            max_allocated: size / 3,
            free: size.rotate_left(7),
            total: u64::MAX,
            name: ["", "Memory Snapshot", "\u{5feb}\u{7167} Start"][number as usize % 3].as_bytes(),
        };
        spool.record(lane, ticks + 5, &snapshot).record(lane, ticks + 6, &Extended::FunctionEnd { name: label });
        if number % 3 > 0 {
            spool.label_end(lane, ticks + 7, level, label).label_end(other, ticks + 8, LabelLevel::User, 1);
        }
        ticks += 1000;
        if number == 6 {
            spool.end_generation(lane);
        }
    }
    spool
}

/// Phases of a training, in the thread that trains and in one that works for it.
fn phases() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    let names = [(1, "forward"), (2, "backward"), (3, "optimizer"), (4, "something else")];
    for (id, text) in names {
        spool.label_name(lane, id, text);
    }
    let mut ticks = 10;
    for (label, _) in names {
        spool.label_start(lane, ticks, LabelLevel::Phase, label);
        spool.region(lane, ticks + 1, Space::PtaCaching, 0, 0x1_0000 * u64::from(label), 512);
        spool.region(other, ticks + 2, Space::PtaCaching, 0, 0x1_0000 * u64::from(label) + 0x8000, 512);
        spool.label_end(lane, ticks + 3, LabelLevel::Phase, label);
        ticks += 1000;
    }
    spool
}

/// Storages of tensors, in blocks of the heap and in none, and one that was refused.
fn storages() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    stacks(&mut spool, lane);
    let space = Space::TensorStorage;
    for (number, size) in (0u64..).zip(SIZES) {
        let (ticks, address) = (100 * (number + 1), 0x7f00_0000_0040 + (number << 21));
        let stack = [0, 1, 100, 5][number as usize % 4];
        spool.alloc(lane, ticks, address, size, stack);
        spool.device_alloc(lane, ticks + 1, space, 10_000, address, size, 0, stack);
        spool.device_free(lane, ticks + 50, space, address, [0, 3][number as usize % 2]).free(
            lane,
            ticks + 51,
            address,
            0,
        );
    }
    spool.device_alloc(lane, 4000, space, 10_000, 0x5000_0000, 4096, 0, 2);
    spool.out_of_memory(lane, 4001, space, 10_000, 1 << 47, 0, 3).end_generation(lane);
    spool.out_of_memory(lane, 4002, space, 10_000, u64::MAX, 0, 0);
    spool
}

/// Watched blocks, what was seen of them, and what ended it.
fn watch() -> SpoolBuilder {
    let mut spool = spool();
    let lane = spool.lane(4711);
    stacks(&mut spool, lane);
    let pick = |number: u32, of: &[StackRef]| of[number as usize % of.len()];
    let stacks = [StackRef::NONE, StackRef { c: 1, python: 0 }, StackRef { c: 3, python: 100 }];
    let mut ticks = 10;
    for (number, size) in (0u32..).zip(SIZES) {
        let watch = [0, 1, 127, 128, u32::MAX][number as usize % 5];
        let name: &[u8] = [b"w".as_slice(), b"", "\u{7b97}\u{5b50}/7_Add".as_bytes()][number as usize % 3];
        spool.record(
            lane,
            ticks,
            &Extended::WatchBegin {
                watch,
                origin: WatchOrigin::ALL[number as usize % 2],
                flags: number as u8,
                device: LogicalDevice([0, 9_999, 10_000, u32::MAX][number as usize % 4]),
                address: DevAddr(0x12c0_0000_0000 + (u64::from(number) << 33)),
                size,
                output: watch,
                checksum: size.rotate_left(17),
                content: size,
                stack: pick(number, &stacks),
                name,
            },
        );
        for (step, phase) in [Phase::Start, Phase::End].into_iter().enumerate() {
            let source = WatchSource::ALL[number as usize % WatchSource::ALL.len()];
            let kernel = if source == WatchSource::Kernel { 0x5ab7_fa27_babd_ba77 } else { 0 };
            let stack = pick(number + step as u32, &stacks);
            let moment = Extended::WatchMoment { source, phase, operator: size, kernel, stack, name };
            spool.record(lane, ticks + 1 + step as u64, &moment);
            let given = GivenFor::ALL[(number as usize + step) % GivenFor::ALL.len()];
            let look = Extended::WatchLook { watch, given, checksum: !size, content: size };
            spool.record(lane, ticks + 2 + step as u64, &look);
        }
        let reason = WatchEnding::ALL[number as usize % WatchEnding::ALL.len()];
        spool.record(lane, ticks + 20, &Extended::WatchEnd { watch, reason });
        // Those there were when it was written.
        let problem = WatchTrouble::ALL[number as usize % 5];
        spool.record(lane, ticks + 21, &Extended::WatchProblem { problem, value: size });
        ticks += 1000;
        if number == 6 {
            spool.end_generation(lane);
        }
    }
    spool
}

/// Operators on streams that change, in two threads, from one that nobody knows and back.
fn streams() -> SpoolBuilder {
    let mut spool = spool();
    let (lane, other) = (spool.lane(4711), spool.lane(4712));
    for lane in [lane, other] {
        spool.aten_name(lane, 0, "aten::add.Tensor");
    }
    let mut ticks = 10;
    for (number, handle) in (0u64..).zip(SIZES) {
        let sequence = 2 * number + 1;
        spool.aten_start(lane, ticks, sequence, 0, 0, 0).aten_end(lane, ticks + 1, sequence);
        spool.stream(lane, handle).stream(other, !handle);
        spool.operator_start(other, ticks + 2, number, 0, (0x12c0_0000_0000, 512), "0_1/0/7_Add", "Add", 0);
        spool.operator_end(other, ticks + 3, number);
        spool.aten_start(lane, ticks + 4, sequence + 1, 0, 0, 0).aten_end(lane, ticks + 5, sequence + 1);
        ticks += 1000;
        if number == 6 {
            spool.end_generation(lane);
        }
    }
    spool
}
