//! The driver's management library, `libdcmi.so`, loaded at run time.
use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::{DeviceMemory, ProcessMemory, UsageError, UsageSample, UsageSource};

/// Where it may be: on the loader's path, else where drivers install it.
const LIBRARIES: [&CStr; 3] =
    [c"libdcmi.so", c"/usr/local/dcmi/libdcmi.so", c"/usr/local/Ascend/driver/lib64/libdcmi.so"];

/// As many as the library is told there is room for.
const MOST_CARDS: usize = 32;
/// The library is told nothing about the room for processes. It is documented to fill at most 64 entries; the room
/// beyond is for one that does not keep to it.
const DOCUMENTED_PROCESSES: c_int = 64;
const ROOM_FOR_PROCESSES: usize = 256;

const MIB_SHIFT: u32 = 20;

/// Memory of a device, in MiB.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct HbmInfo {
    memory_size: u64,
    frequency: u32,
    memory_usage: u64,
    temperature: i32,
    bandwidth_utilisation: u32,
}

/// Memory of a process on a device, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcMemInfo {
    process: i32,
    bytes: c_ulong,
}

type Initialise = unsafe extern "C" fn() -> c_int;
type GetCardList = unsafe extern "C" fn(*mut c_int, *mut c_int, c_int) -> c_int;
type GetDeviceCount = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type GetLogicId = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
type GetHbmInfo = unsafe extern "C" fn(c_int, c_int, *mut HbmInfo) -> c_int;
type GetProcMemInfo = unsafe extern "C" fn(c_int, c_int, *mut ProcMemInfo, *mut c_int) -> c_int;

const INITIALISE: &CStr = c"dcmi_init";
const CARD_LIST: &CStr = c"dcmi_get_card_list";
const DEVICE_COUNT: &CStr = c"dcmi_get_device_num_in_card";
const LOGIC_ID: &CStr = c"dcmi_get_device_logic_id";
const HBM_INFO: &CStr = c"dcmi_get_device_hbm_info";
const PROC_MEM_INFO: &CStr = c"dcmi_get_npu_proc_mem_info";

/// A device, by the number programs use and by the two the library uses.
#[derive(Clone, Copy, Debug)]
struct DcmiDevice {
    device: u32,
    card: c_int,
    in_card: c_int,
}

/// The initialised library and the devices it knows. Stays loaded until the process ends: drivers' libraries leave
/// threads and handlers behind that must not lose their code.
pub struct Dcmi {
    hbm_info: GetHbmInfo,
    proc_mem_info: GetProcMemInfo,
    devices: Vec<DcmiDevice>,
    /// Nobody promises that two threads may ask at once, so a `Dcmi` is not shared (`&mut self`, not `Sync`).
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Dcmi {
    pub fn open() -> Result<Dcmi, UsageError> {
        Self::open_first(&LIBRARIES)
    }

    /// The first of `names`, as `dlopen` takes them, that can be loaded. What is loaded runs its initialisers and is
    /// trusted to be a management library.
    pub fn open_first(names: &[&CStr]) -> Result<Dcmi, UsageError> {
        let mut reasons: Vec<String> = Vec::new();
        for name in names {
            match Library::load(name) {
                Ok(library) => return Self::of(&library),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(UsageError::NoLibrary { reason: reasons.join("; ") })
    }

    fn of(library: &Library) -> Result<Dcmi, UsageError> {
        // SAFETY: each type is that of the function of this name in every published version of the library; `Library`
        // never unloads it, so the pointers stay good.
        let (initialise, card_list, device_count, logic_id, hbm_info, proc_mem_info) = unsafe {
            (
                library.function::<Initialise>(INITIALISE)?,
                library.function::<GetCardList>(CARD_LIST)?,
                library.function::<GetDeviceCount>(DEVICE_COUNT)?,
                library.function::<GetLogicId>(LOGIC_ID)?,
                library.function::<GetHbmInfo>(HBM_INFO)?,
                library.function::<GetProcMemInfo>(PROC_MEM_INFO)?,
            )
        };
        // SAFETY: takes nothing; the library asks to be initialised before anything else, which is here.
        check(INITIALISE, unsafe { initialise() })?;
        let devices = find_devices(card_list, device_count, logic_id)?;
        Ok(Dcmi { hbm_info, proc_mem_info, devices, not_sync: PhantomData })
    }

    fn device_memory(&mut self, asked: DcmiDevice) -> Result<DeviceMemory, UsageError> {
        let mut info = HbmInfo::default();
        // SAFETY: `info` has the layout the library writes (asserted below) and outlives the call.
        check(HBM_INFO, unsafe { (self.hbm_info)(asked.card, asked.in_card, &mut info) })?;
        let bytes = |mib: u64| mib.saturating_mul(1 << MIB_SHIFT);
        Ok(DeviceMemory { used_bytes: bytes(info.memory_usage), total_bytes: bytes(info.memory_size) })
    }

    fn process_memory(&mut self, asked: DcmiDevice) -> Result<Vec<ProcessMemory>, UsageError> {
        let mut list = [ProcMemInfo::default(); ROOM_FOR_PROCESSES];
        // Said also on the way in, for a library that reads the room from here.
        let mut count = DOCUMENTED_PROCESSES;
        // SAFETY: `list` has the layout the library writes (asserted below) and four times the entries it is documented
        // to fill; both outlive the call.
        let code = unsafe { (self.proc_mem_info)(asked.card, asked.in_card, list.as_mut_ptr(), &mut count) };
        check(PROC_MEM_INFO, code)?;
        Ok(each_process_once(list.get(..length(count, ROOM_FOR_PROCESSES)).unwrap_or_default()))
    }
}

impl UsageSource for Dcmi {
    fn devices(&self) -> Vec<u32> {
        self.devices.iter().map(|known| known.device).collect()
    }

    fn sample(&mut self, device: u32) -> Result<UsageSample, UsageError> {
        let found = self.devices.iter().copied().find(|known| known.device == device);
        let found = found.ok_or(UsageError::UnknownDevice { device })?;
        match (self.device_memory(found), self.process_memory(found)) {
            (Err(error), Err(_)) => Err(error),
            (device, processes) => Ok(UsageSample { device: device.ok(), processes: processes.ok() }),
        }
    }
}

/// By ascending device number. A card that does not answer has no devices: the others may.
fn find_devices(
    card_list: GetCardList,
    device_count: GetDeviceCount,
    logic_id: GetLogicId,
) -> Result<Vec<DcmiDevice>, UsageError> {
    let (mut cards, mut count) = ([0 as c_int; MOST_CARDS], 0);
    // SAFETY: the library is told the room of `cards`; both outlive the call.
    check(CARD_LIST, unsafe { card_list(&mut count, cards.as_mut_ptr(), MOST_CARDS as c_int) })?;
    let mut found: Vec<DcmiDevice> = Vec::new();
    for card in cards.into_iter().take(length(count, MOST_CARDS)) {
        let mut devices = 0;
        // SAFETY: `devices` outlives the call.
        if unsafe { device_count(card, &mut devices) } != 0 {
            continue;
        }
        for in_card in (0..devices).take(MOST_CARDS) {
            let mut device = -1;
            // SAFETY: `device` outlives the call.
            let code = unsafe { logic_id(&mut device, card, in_card) };
            // The management processor of a card is counted as a device of it and has no number.
            if code == 0
                && let Ok(device) = u32::try_from(device)
                && found.iter().all(|known| known.device != device)
            {
                found.push(DcmiDevice { device, card, in_card });
            }
        }
    }
    found.sort_unstable_by_key(|known| known.device);
    Ok(found)
}

/// A count the library gave, in bounds.
fn length(count: c_int, most: usize) -> usize {
    usize::try_from(count).unwrap_or(0).min(most)
}

/// A process that is listed for each of its contexts holds their sum.
fn each_process_once(list: &[ProcMemInfo]) -> Vec<ProcessMemory> {
    let mut processes: Vec<ProcessMemory> = Vec::with_capacity(list.len());
    for entry in list {
        let Some(pid) = u32::try_from(entry.process).ok().filter(|pid| *pid != 0) else { continue };
        match processes.iter_mut().find(|process| process.pid == pid) {
            Some(process) => process.bytes = process.bytes.saturating_add(entry.bytes),
            None => processes.push(ProcessMemory { pid, bytes: entry.bytes }),
        }
    }
    processes.sort_unstable_by_key(|process| process.pid);
    processes
}

fn check(function: &'static CStr, code: c_int) -> Result<(), UsageError> {
    if code == 0 { Ok(()) } else { Err(UsageError::Refused { function: text(function), code }) }
}

fn text(name: &'static CStr) -> &'static str {
    name.to_str().unwrap_or_default()
}

/// A loaded library; never unloaded.
struct Library(NonNull<c_void>);

impl Library {
    /// Errors are the loader's words.
    fn load(name: &CStr) -> Result<Library, String> {
        // All symbols now: one that cannot be found must be an error here and not the end of the process later.
        // Not global: its symbols are nobody else's business.
        // SAFETY: `name` ends in a zero byte. Initialisers of the library run; they are those of the driver's own
        // library, which every program that uses a device runs too.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Library).ok_or_else(loader_error)
    }

    /// # Safety
    /// `F` is the function pointer type of the library's function `name`.
    unsafe fn function<F: Copy>(&self, name: &'static CStr) -> Result<F, UsageError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is of a library that is never unloaded; `name` ends in a zero byte.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if symbol.is_null() {
            return Err(UsageError::MissingFunction { name: text(name) });
        }
        // SAFETY: not null, of pointer size (asserted), and by the caller's promise a function of type `F`.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&symbol) })
    }
}

fn loader_error() -> String {
    // SAFETY: asks the loader for this thread's last error.
    let Some(text) = NonNull::new(unsafe { libc::dlerror() }) else { return String::from("no reason given") };
    // SAFETY: the loader's text ends in a zero byte and stays until this thread's next call into the loader; it is
    // copied before that.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<HbmInfo>() == 32);
    assert!(offset_of!(HbmInfo, memory_size) == 0 && offset_of!(HbmInfo, frequency) == 8);
    assert!(offset_of!(HbmInfo, memory_usage) == 16 && offset_of!(HbmInfo, temperature) == 24);
    assert!(offset_of!(HbmInfo, bandwidth_utilisation) == 28);
    assert!(size_of::<ProcMemInfo>() == 16);
    assert!(offset_of!(ProcMemInfo, process) == 0 && offset_of!(ProcMemInfo, bytes) == 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outside_the_room_are_brought_into_it() {
        assert_eq!([length(-1, 32), length(0, 32), length(32, 32), length(c_int::MAX, 32)], [0, 0, 32, 32]);
    }

    #[test]
    fn contexts_of_a_process_are_summed_and_numbers_that_are_no_process_left_out() {
        let entry = |process, bytes| ProcMemInfo { process, bytes };
        let list = [entry(9, 5), entry(0, 1), entry(-4, 1), entry(3, 7), entry(9, c_ulong::MAX)];
        let expected = [ProcessMemory { pid: 3, bytes: 7 }, ProcessMemory { pid: 9, bytes: u64::MAX }];
        assert_eq!(each_process_once(&list), expected);
    }
}
