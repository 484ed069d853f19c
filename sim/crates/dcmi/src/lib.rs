//! `libdcmi.so`: what a machine's administrator asks about devices. One device per card.

use sim_boundary::{Out, board, settings};

const NOT_FOUND: i32 = -8255;
const NOT_READY: i32 = -8012;

unsafe extern "C" {
    safe fn drvGetDevNum(count: *mut u32) -> i32;
    safe fn simHalMemoryInfo(device: u32, used: *mut u64, capacity: *mut u64) -> i32;
}

/// Memory of a device, in MiB.
#[repr(C)]
pub struct HbmInformation {
    size: u64,
    frequency: u32,
    used: u64,
    temperature: i32,
    utilisation: u32,
}

/// Memory a process holds on a device, in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcessMemory {
    process: i32,
    bytes: u64,
}

fn device_count() -> i32 {
    let mut count = 0;
    drvGetDevNum(&mut count);
    count as i32
}

/// What each process uses, and the bytes there are; `None` if there is no such device. Without a common place for the
/// processes of the machine only this one is known.
fn memory(card: i32, device: i32) -> Option<(Vec<(i32, u64)>, u64)> {
    let (mut used, mut capacity) = (0, 0);
    let card = u32::try_from(card).ok()?;
    if device != 0 || simHalMemoryInfo(card, &mut used, &mut capacity) != 0 {
        return None;
    }
    let processes = board::read(card).unwrap_or_else(|| vec![(std::process::id() as i32, used)]);
    Some((processes, capacity))
}

/// Must be called first.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_init() -> i32 {
    if settings::number("SIM_FAIL_DCMI").unwrap_or(0) == 0 { 0 } else { NOT_READY }
}

/// The numbers of the cards.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_get_card_list(count: Out<i32>, cards: Out<i32>, most: i32) -> i32 {
    let known = device_count().min(most);
    (0..known).for_each(|card| {
        cards.element(card as usize).set(card);
    });
    if count.set(known) { 0 } else { NOT_FOUND }
}

/// Devices on a card: one.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_get_device_num_in_card(card: i32, count: Out<i32>) -> i32 {
    if (0..device_count()).contains(&card) && count.set(1) { 0 } else { NOT_FOUND }
}

/// The number under which programs know a device.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_get_device_logic_id(logic: Out<i32>, card: i32, device: i32) -> i32 {
    if (0..device_count()).contains(&card) && device == 0 && logic.set(card) { 0 } else { NOT_FOUND }
}

/// Memory of a device.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_get_device_hbm_info(card: i32, device: i32, information: Out<HbmInformation>) -> i32 {
    let Some((processes, capacity)) = memory(card, device) else { return NOT_FOUND };
    let used = processes.iter().map(|(_, bytes)| bytes).sum::<u64>() + settings::HBM_OTHER_BYTES.get();
    let percent = (used * 100).checked_div(capacity).unwrap_or(0);
    let answer = HbmInformation {
        size: capacity >> 20,
        frequency: 1600,
        used: used >> 20,
        temperature: 40,
        utilisation: percent as u32,
    };
    if information.set(answer) { 0 } else { NOT_FOUND }
}

/// Memory of each process on a device.
#[unsafe(no_mangle)]
pub extern "C" fn dcmi_get_npu_proc_mem_info(card: i32, device: i32, list: Out<ProcessMemory>, count: Out<i32>) -> i32 {
    const MOST: usize = 64;
    let Some((processes, _)) = memory(card, device) else { return NOT_FOUND };
    let listed = processes.iter().take(MOST);
    let written = listed
        .clone()
        .enumerate()
        .all(|(index, &(process, bytes))| list.element(index).set(ProcessMemory { process, bytes }));
    if written && count.set(listed.len() as i32) { 0 } else { NOT_FOUND }
}
