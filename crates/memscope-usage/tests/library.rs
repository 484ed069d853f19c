//! The real loader and a C library with known numbers in the driver's place.
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memscope_testkit::compiled::compile;
use memscope_usage::{
    Dcmi, DeviceMemory, ProcessMemory, Sampler, SamplerEnd, UsageError, UsageLog, UsageSample, UsageSource,
};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// For the part of a test that must be a process of its own, because the loader reads its path only at the start.
const IN_CHILD: &str = "MEMSCOPE_USAGE_TEST_CHILD";

/// A directory with a `libdcmi.so` compiled with these definitions.
fn stub(definitions: &[&str]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libdcmi.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dcmi_stub.c");
    let arguments = [&["-shared", "-fPIC"], definitions, &[source.to_str().unwrap()]].concat();
    compile("cc", &arguments, &library);
    (directory, library)
}

fn open(library: &Path) -> Result<Dcmi, UsageError> {
    let name = CString::new(library.as_os_str().as_bytes()).unwrap();
    Dcmi::open_first(&[&name])
}

fn expected(card: u64) -> UsageSample {
    UsageSample {
        device: Some(DeviceMemory { used_bytes: (100 + card) * MIB, total_bytes: 65536 * MIB }),
        processes: Some(vec![
            ProcessMemory { pid: 1234, bytes: 5 },
            ProcessMemory { pid: 4321, bytes: 7_000_000_000 + card },
        ]),
    }
}

#[test]
fn numbers_come_through_in_bytes_and_by_device_number() {
    let (_directory, library) = stub(&[]);
    let mut dcmi = open(&library).unwrap();
    assert_eq!(dcmi.devices(), [0, 1]);
    assert_eq!(dcmi.sample(0).unwrap(), expected(0));
    assert_eq!(dcmi.sample(1).unwrap(), expected(1));
    assert!(matches!(dcmi.sample(2), Err(UsageError::UnknownDevice { device: 2 })));
}

#[test]
fn thirty_two_cards_are_found_and_more_do_no_harm() {
    let (_directory, library) = stub(&["-DSTUB_CARDS=32"]);
    let mut dcmi = open(&library).unwrap();
    assert_eq!(dcmi.devices(), (0..32).collect::<Vec<u32>>());
    assert_eq!(dcmi.sample(31).unwrap(), expected(31));
    let (_directory, library) = stub(&["-DSTUB_CARDS=40"]);
    assert_eq!(open(&library).unwrap().devices(), (8..40).collect::<Vec<u32>>());
}

#[test]
fn half_an_answer_is_better_than_none_and_none_is_an_error() {
    let (_directory, library) = stub(&["-DSTUB_NO_HBM"]);
    assert_eq!(open(&library).unwrap().sample(0).unwrap(), UsageSample { device: None, ..expected(0) });
    let (_directory, library) = stub(&["-DSTUB_NO_PROCESSES"]);
    assert_eq!(open(&library).unwrap().sample(0).unwrap(), UsageSample { processes: None, ..expected(0) });
    let (_directory, library) = stub(&["-DSTUB_NO_HBM", "-DSTUB_NO_PROCESSES"]);
    let answer = open(&library).unwrap().sample(0);
    assert!(matches!(answer, Err(UsageError::Refused { function: "dcmi_get_device_hbm_info", code: -8255 })));
}

#[test]
fn a_library_that_refuses_or_is_incomplete_or_absent_is_named() {
    let (_directory, refusing) = stub(&["-DSTUB_INIT_CODE=-8012"]);
    assert!(matches!(open(&refusing), Err(UsageError::Refused { function: "dcmi_init", code: -8012 })));
    let (directory, incomplete) = stub(&["-DSTUB_WITHOUT_INIT"]);
    assert!(matches!(open(&incomplete), Err(UsageError::MissingFunction { name: "dcmi_init" })));
    let absent = directory.path().join("absent.so");
    let error = open(&absent).err().unwrap().to_string();
    assert!(error.contains("absent.so") && error.contains("cannot be loaded"), "{error}");
    let text = directory.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    assert!(matches!(open(&text), Err(UsageError::NoLibrary { .. })));
}

#[test]
fn the_first_that_can_be_loaded_is_taken() {
    let (directory, library) = stub(&["-DSTUB_CARDS=3"]);
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let names = [name(&directory.path().join("absent.so")), name(&library)];
    let names: Vec<&CStr> = names.iter().map(CString::as_c_str).collect();
    assert_eq!(Dcmi::open_first(&names).unwrap().devices(), [0, 1, 2]);
}

/// This test again, alone, in a process whose loader looks into `libraries` first.
fn again_with(libraries: &Path, test: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env("LD_LIBRARY_PATH", libraries).env(IN_CHILD, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_library_on_the_loaders_path_is_sampled_into_a_log() {
    if std::env::var_os(IN_CHILD).is_none() {
        let (directory, _) = stub(&[]);
        return again_with(directory.path(), "the_library_on_the_loaders_path_is_sampled_into_a_log");
    }
    let directory = tempfile::tempdir().unwrap();
    let sampler = Sampler::start(directory.path().to_owned(), 3, |device| device == 1).unwrap();
    assert!(matches!(sampler.finish(Duration::from_secs(600)), SamplerEnd::Sampled));
    let log = UsageLog::open(directory.path(), 3).unwrap().unwrap();
    let at = log.at(1, 4321, u64::MAX);
    assert_eq!((at.process_used, at.device_used), (Some(7_000_000_001), Some(101 * MIB)));
    assert_eq!(at.device_total, Some(65536 * MIB));
    assert_eq!(log.at(0, 4321, u64::MAX).device_used, None);
}

/// Where `make sim` puts the simulator's libraries, unless `SIM_LIB64` says another place.
fn simulated_libraries() -> PathBuf {
    let built = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("../sim/ascend-toolkit/latest/lib64");
    let libraries = std::env::var_os("SIM_LIB64").map_or_else(built, PathBuf::from);
    assert!(libraries.join("libdcmi.so").exists(), "no libdcmi.so in {}: make sim", libraries.display());
    libraries
}

#[test]
fn the_simulated_driver_answers_for_this_process() {
    if std::env::var_os(IN_CHILD).is_none() {
        return again_with(&simulated_libraries(), "the_simulated_driver_answers_for_this_process");
    }
    let mut dcmi = Dcmi::open().unwrap();
    let devices = dcmi.devices();
    assert_eq!(devices.first(), Some(&0));
    let usage = dcmi.sample(0).unwrap();
    assert!(usage.device.unwrap().total_bytes >= usage.device.unwrap().used_bytes);
    assert_eq!(usage.processes.unwrap().iter().map(|process| process.pid).collect::<Vec<_>>(), [std::process::id()]);
}
