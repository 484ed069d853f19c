//! The built command on a machine with a driver, whose management library is a small one with known numbers.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use memscope_session::libraries::{HOST, RECORDER};
use memscope_testkit::{Space, SpoolBuilder};
use memscope_usage::{DeviceMemory, LogWriter, ProcessMemory, UsageLog, UsageSample};
use tempfile::TempDir;

const COMMAND: &str = env!("CARGO_BIN_EXE_msmemscope");

const DRIVER: &str = "
struct hbm { unsigned long long size; unsigned freq; unsigned long long used; int temp; unsigned rate; };
struct process { int pid; unsigned long bytes; };
int dcmi_init(void) { return INIT; }
int dcmi_get_card_list(int *n, int *list, int room) { list[0] = 0; list[1] = 1; *n = 2; return 0; }
int dcmi_get_device_num_in_card(int card, int *n) { *n = 1; return 0; }
int dcmi_get_device_logic_id(int *id, int card, int device) { *id = card; return 0; }
int dcmi_get_device_hbm_info(int card, int device, struct hbm *h) { h->size = 64; h->used = 3 + card; return 0; }
int dcmi_get_npu_proc_mem_info(int card, int device, struct process *p, int *n) {
    p->pid = 77; p->bytes = 555 + card; *n = 1; return 0;
}
";

struct Installation {
    top: TempDir,
}

impl Installation {
    fn with_driver(init: i32) -> Installation {
        let installation = Installation { top: tempfile::tempdir().unwrap() };
        for directory in ["lib64", "driver"] {
            std::fs::create_dir(installation.path(directory)).unwrap();
        }
        for name in [RECORDER, HOST] {
            installation.compile("int memscope_test_marker;\n", &installation.path("lib64").join(name));
        }
        let source = DRIVER.replace("INIT", &init.to_string());
        installation.compile(&source, &installation.path("driver/libdcmi.so"));
        installation
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn compile(&self, source: &str, library: &Path) {
        let file = self.path("source.c");
        std::fs::write(&file, source).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(&file).status().unwrap();
        assert!(status.success());
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(COMMAND);
        command.arg(format!("--output={}", self.path("output").display())).args(words).arg("true");
        command.env("MSMEMSCOPE_LIB_DIR", self.path("lib64")).env("LD_LIBRARY_PATH", self.path("driver"));
        let output = command.env_remove("LD_PRELOAD").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// The run ids of the logs.
    fn logs(&self) -> Vec<u64> {
        let names = std::fs::read_dir(self.path("output")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.to_str()?.strip_prefix("run_")?.strip_suffix(".usage")?.parse().ok()).collect()
    }
}

#[test]
fn selected_devices_are_sampled_while_the_program_runs() {
    let installation = Installation::with_driver(0);
    installation.run(&["--device=npu:1"]);
    let logs = installation.logs();
    assert_eq!(logs.len(), 1);
    let log = UsageLog::open(&installation.path("output"), logs[0]).unwrap().unwrap();
    let at = log.at(1, 77, u64::MAX);
    assert_eq!((at.process_used, at.device_used, at.device_total), (Some(556), Some(4 << 20), Some(64 << 20)));
    assert_eq!(log.at(0, 77, u64::MAX).device_used, None);
}

#[test]
fn a_run_without_npus_asks_no_driver() {
    let installation = Installation::with_driver(0);
    installation.run(&["--device=cpu"]);
    assert_eq!(installation.logs(), Vec::<u64>::new());
}

#[test]
fn a_driver_that_refuses_is_mentioned_to_those_who_asked_for_details_only() {
    let installation = Installation::with_driver(-8012);
    let told = |words: &[&str]| String::from_utf8(installation.run(words).stderr).unwrap().contains("dcmi_init");
    assert!(!told(&["--device=npu"]));
    assert!(told(&["--device=npu", "--log-level=info"]));
    assert_eq!(installation.logs(), Vec::<u64>::new());
}

/// What the csv of device 2 says of the only allocation in it, after `export` of `directory`.
fn exported_attributes(directory: &Path, process: &Path) -> String {
    let output = Command::new(COMMAND).arg("export").arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dumps = std::fs::read_dir(process.join("device_2/dump")).unwrap();
    let dump = dumps.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|end| end == "csv"));
    let text = std::fs::read_to_string(dump.unwrap()).unwrap();
    let row = text.lines().find(|line| line.contains(",MALLOC,HAL,")).unwrap();
    row[row.find('{').unwrap()..=row.find('}').unwrap()].to_owned()
}

#[test]
fn rows_say_what_was_sampled_of_their_run_process_and_device_before_their_time() {
    const START_NS: u64 = 1_700_000_000_000_000_000;
    let root = tempfile::tempdir().unwrap();
    let process = root.path().join("msmemscope_31_20251203091122_ascend");
    let mut spool = SpoolBuilder::new();
    spool.process(31, 8).config("c=0;py=0;cpu=0;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(31);
    spool.device_alloc(lane, 1000, Space::Driver, 2, 0x1000, 4096, 7, 0);
    spool.write(&process).unwrap();
    assert!(!exported_attributes(root.path(), &process).contains("process_used"));

    let usage = |used_bytes, bytes| UsageSample {
        device: Some(DeviceMemory { used_bytes, total_bytes: 1 << 30 }),
        processes: Some(vec![ProcessMemory { pid: 30, bytes: 1 }, ProcessMemory { pid: 31, bytes }]),
    };
    let mut other_run = LogWriter::create(root.path(), 9).unwrap();
    other_run.append(START_NS, 2, &usage(1, 1)).unwrap();
    let mut log = LogWriter::create(root.path(), 8).unwrap();
    log.append(START_NS + 900, 1, &usage(2, 2)).unwrap();
    log.append(START_NS + 900, 2, &usage(70, 50)).unwrap();
    log.append(START_NS + 1100, 2, &usage(3, 3)).unwrap();
    // The directory of the run, and that of the process alone.
    for directory in [root.path(), &process] {
        let attributes = exported_attributes(directory, &process);
        assert!(attributes.contains(",used:4096,process_used:50,device_used:70,owner:"), "{attributes}");
    }
}

#[test]
fn a_log_that_cannot_be_read_is_mentioned_and_the_export_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.process(31, 8).config("c=0;py=0;cpu=0;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(31);
    spool.device_alloc(lane, 1000, Space::Driver, 2, 0x1000, 4096, 7, 0);
    spool.write(&root.path().join("msmemscope_31_20251203091122_ascend")).unwrap();
    std::fs::write(root.path().join("run_8.usage"), "nothing of ours").unwrap();
    let output = Command::new(COMMAND).arg("export").arg(root.path()).output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("run_8.usage is no usage log"), "{told}");
}
