//! Encodes one kind of record again and again, for a count of its instructions:
//!
//! `valgrind --tool=callgrind encode_cost KIND COUNT`, with two counts; what a record takes is the difference.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use memscope_format::encode::{self, Deltas, Extended, MAX_EVENT, Path};
use memscope_format::record::{
    AccessMode, DevAddr, HostAddr, LogicalDevice, Phase, PhysicalDevice, Protection, Space, SpaceAddr, SpaceDevice,
    StackRef, SystemKind, TaskLogLine, TensorOwner,
};
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind: usize = arguments.next().ok_or("usage: encode_cost KIND COUNT")?.parse()?;
    let count: u64 = arguments.next().ok_or("usage: encode_cost KIND COUNT")?.parse()?;
    let (space, device, size, address) = (Space::PtaCaching, 1u32, 4096, 0x12c0_0000_0000);
    let stack = StackRef { c: 77, python: 5 };
    let path = Path::after(b"0_7/1_Linear/0_", b"0_7/1_Linear/1_MatMul");
    let lines = [TaskLogLine { stream: 1, task: 7, unit: 0, end: false, counter: 1000 }; 8];
    let protection = Protection::READ_WRITE;
    let records = [
        (
            "device_alloc",
            Extended::DeviceAlloc {
                space,
                device: SpaceDevice(device),
                address: SpaceAddr(address),
                size,
                attributes: 7,
                stack,
            },
        ),
        ("device_free", Extended::DeviceFree { space, address: SpaceAddr(address), stack }),
        ("host_map", Extended::HostMap { address: HostAddr(address), size, protection, stack }),
        ("launch", Extended::KernelLaunch),
        ("task", Extended::Task { device: PhysicalDevice(device), stream: 3, task: 70, name: 0x1234_5678_9abc }),
        ("mark", Extended::Mark { text: b"step start" }),
        ("system", Extended::System { kind: SystemKind::Step, value: 7 }),
        ("executions", Extended::Executions { device: PhysicalDevice(device), streams: true, lines: &lines }),
        (
            "atb_operator_start",
            Extended::AtbOperatorStart {
                launch: 900,
                device: LogicalDevice(device),
                workspace: DevAddr(address),
                workspace_size: size,
                stack,
                path,
                name: b"MatMul",
            },
        ),
        ("atb_kernel", Extended::AtbKernel { phase: Phase::Start, device: LogicalDevice(device), path }),
        (
            "access",
            Extended::Access {
                mode: AccessMode::Read,
                owner: TensorOwner::AtbKernel,
                device: LogicalDevice(device),
                address: DevAddr(address),
                size,
                dtype: 1,
                format: 2,
                dimensions: &[2, 3, 64],
            },
        ),
        (
            "module",
            Extended::Module { id: 3, start: 1, end: 2, bias: 3, build_id: &[7; 20], path: b"/usr/lib/libc.so" },
        ),
    ];
    let mut window = vec![0u8; 65536];
    let mut last = Deltas::at(0);
    let mut end = window.as_mut_ptr();
    for number in 0..count {
        let out = window.as_mut_ptr();
        let ticks = number * 20;
        // SAFETY: the window has room for each of them.
        end = unsafe {
            match records.get(kind) {
                Some((_, record)) => {
                    let record = black_box(record);
                    assert!(record.room() < window.len());
                    encode::extended(out, &mut last, ticks, record)
                }
                None if window.len() < MAX_EVENT => out,
                None => encode::host_alloc(
                    out,
                    &mut last,
                    ticks,
                    black_box(HostAddr(0x5000)),
                    black_box(64),
                    black_box(stack),
                ),
            }
        };
    }
    let name = records.get(kind).map_or("host_alloc", |(name, _)| name);
    println!("{name}: {} bytes", end as usize - window.as_ptr() as usize);
    Ok(())
}
