//! The built libraries as C programs see them.

use std::path::Path;
use std::process::Command;

use sim_acceptance::{Scenario, toolkit};

const MIB: u64 = 1 << 20;

fn scenario(name: &'static str, test: &str) -> Scenario {
    Scenario::new(name, &Path::new(env!("CARGO_TARGET_TMPDIR")).join(test))
}

fn dynamic_entries(tree: &str, library: &str, tag: &str) -> Vec<String> {
    let file = toolkit(tree).join("lib64").join(library);
    let output = Command::new("readelf").arg("-dW").arg(file).output().expect("readelf is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let entries = text.lines().filter(|line| line.contains(tag));
    entries.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

#[test]
fn libraries_carry_the_real_sonames_and_need_each_other_as_the_real_ones_do() {
    for (library, needed) in [
        ("libascend_hal.so", &[][..]),
        ("libprofapi.so", &[]),
        ("libms_tools_ext.so", &[]),
        ("libruntime.so", &["libprofapi.so", "libascend_hal.so"]),
        ("libacl_rt_impl.so", &["libruntime.so"]),
        ("libascendcl.so", &["libacl_rt_impl.so", "libruntime.so"]),
        ("libascendcl_impl.so", &["libacl_rt_impl.so"]),
        ("libopapi.so", &["libruntime.so"]),
        ("libhccl.so", &["libruntime.so"]),
        ("libdcmi.so", &["libascend_hal.so"]),
    ] {
        assert_eq!(dynamic_entries("ascend-toolkit", library, "SONAME"), [library]);
        let found = dynamic_entries("ascend-toolkit", library, "NEEDED");
        for name in needed {
            assert!(found.iter().any(|entry| entry == name), "{library} does not need {name}: {found:?}");
        }
    }
}

#[test]
fn device_memory_has_pages_a_margin_and_a_fixed_place() {
    let facts = scenario("memory", "fixed").run();
    assert_eq!(facts.number("small"), 0x1240_0000_0000);
    assert_eq!(facts.number("big"), 0x1240_0020_0000);
    assert_eq!(facts.number("taken"), 4096 + 4 * MIB);
    // 32 bytes of margin beyond 2 MiB need a second huge page.
    assert_eq!(facts.number("padded_taken"), 4096 + 8 * MIB);
    assert_eq!(facts.get("double_free"), "107000");
    assert_eq!(facts.get("copy_to_freed"), "107000");
    assert_eq!(facts.get("reused"), "1");
    assert_eq!(facts.get("returned"), "1");
}

#[test]
fn the_lowest_gap_that_is_large_enough_is_taken() {
    let facts = scenario("gaps", "gaps").run();
    assert_eq!((facts.get("gap"), facts.get("behind"), facts.get("rest")), ("1", "1", "1"));
}

#[test]
fn two_runs_give_the_same_addresses() {
    assert_eq!(scenario("memory", "first").run(), scenario("memory", "second").run());
}

#[test]
fn a_full_device_refuses_and_the_others_do_not() {
    let facts = scenario("fill_up", "full").with("SIM_HBM_BYTES", "100M").run();
    assert_eq!(facts.number("blocks"), 6);
    assert_eq!(facts.get("result"), "207001");
    assert_eq!(facts.number("free"), 4 * MIB);
    assert_eq!(facts.number("other_device"), 0x1240_0000_0000 + (1 << 40));
}

#[test]
fn memory_of_others_counts_against_the_capacity() {
    let facts = scenario("fill_up", "others").with("SIM_HBM_BYTES", "100M").with("SIM_HBM_OTHER_BYTES", "50M").run();
    assert_eq!(facts.number("blocks"), 3);
}

#[test]
fn an_allocation_can_be_made_to_fail_once_or_from_then_on() {
    let once = scenario("faults", "once").with("SIM_FAIL_ALLOC_AT", "2").run();
    assert_eq!(once.all("alloc"), ["0", "207001", "0"]);
    let after = scenario("faults", "after").with("SIM_FAIL_ALLOC_AFTER", "1").run();
    assert_eq!(after.all("alloc"), ["0", "207001", "207001"]);
}

#[test]
fn a_launch_can_be_made_to_fail() {
    let facts = scenario("launch_fault", "launch").with("SIM_FAIL_LAUNCH_AT", "2").run();
    assert_eq!(facts.all("launch"), ["0", "507015", "0"]);
}

#[test]
fn pinned_host_memory_is_not_device_memory() {
    let facts = scenario("pinned", "pinned").run();
    assert_eq!(facts.number("host"), 0x1100_0000_0000);
    assert_eq!(facts.number("device_memory_taken"), 0);
    assert_eq!(facts.get("round_trip"), "1");
    assert_eq!(facts.get("too_large"), "107000");
}

#[test]
fn virtual_memory_counts_only_what_is_physical() {
    let facts = scenario("virtual_memory", "virtual").run();
    assert_eq!(facts.number("reserve_taken"), 0);
    assert_eq!(facts.number("physical_taken"), 4 * MIB);
    assert_eq!(facts.get("across"), "0123456789abcde");
    assert_eq!(facts.get("unmapped_part"), "107000");
    assert_eq!(facts.get("outside"), "107000");
    assert_eq!(facts.get("returned"), "1");
}

#[test]
fn streams_have_ids_and_events_happen_when_recorded() {
    let facts = scenario("streams", "streams").run();
    assert_eq!(facts.get("ids"), "1,2");
    assert_eq!(facts.get("reused_id"), "1");
    assert_eq!(facts.get("unrecorded"), "0");
    assert_eq!(facts.get("elapsed_too_early"), "107000");
    assert_eq!(facts.get("recorded"), "1");
    assert_eq!(facts.get("elapsed_sane"), "1");
}

#[test]
fn deferred_tasks_run_when_their_own_stream_is_waited_for() {
    let facts = scenario("deferred", "deferred").with("SIM_DEFERRED", "1").run();
    let seen = |when| facts.get(when).to_owned();
    assert_eq!([seen("launched"), seen("copied_at_once")], ["---", "---"]);
    assert_eq!(seen("no_device_address"), "107000");
    assert_eq!([seen("waited_for_one"), seen("waited_for_event"), seen("waited_for_device")], ["-1-", "-1h", "01h"]);
    assert_eq!([seen("before_operator"), seen("after_operator")], ["01h", "0"]);
    assert_eq!(scenario("deferred", "at-once").run().get("launched"), "01h", "without the setting nothing waits");
}

#[test]
fn a_captured_stream_runs_nothing_until_it_is_replayed_and_cannot_be_waited_for() {
    for deferred in ["0", "1"] {
        let facts = scenario("capture", "capture").with("SIM_DEFERRED", deferred).run();
        assert_eq!(facts.get("default_stream"), "107000");
        assert_eq!(facts.all("status"), ["0", "1", "0", "2", "2", "2"]);
        assert!(facts.get("captured").starts_with("--"), "the captured stream's task does not run");
        assert!(facts.get("ended").starts_with("--"));
        assert_eq!(facts.all("replayed"), ["-12", "-12"]);
        assert_eq!(facts.get("not_captured"), "107029");
        assert_eq!(facts.all("refused"), ["107027", "107030", "107030"]);
        assert_eq!(facts.all("void"), ["507903"; 3]);
    }
}

#[test]
fn devices_have_their_own_memory_and_threads_their_own_device() {
    let facts = scenario("devices", "two").with("SIM_DEVICES", "2").run();
    assert_eq!(facts.get("count"), "2");
    assert_eq!(facts.all("block"), ["0x124000000000", "0x134000000000"]);
    assert_eq!(facts.get("no_such_device"), "107001");
    assert_eq!(facts.get("thread_without_device"), "107002");
}

#[test]
fn a_program_sees_only_the_devices_made_visible() {
    let facts = scenario("devices", "visible").with("ASCEND_RT_VISIBLE_DEVICES", "3,1").run();
    assert_eq!(facts.all("block"), ["0x154000000000", "0x134000000000"]);
}

#[test]
fn copy_zero_and_add_compute_and_known_operators_ask_for_workspace() {
    let facts = scenario("computing", "computing").with("SIM_WORKSPACE_BYTES", "4096").run();
    assert_eq!(facts.get("add"), "3,6,9,12");
    assert_eq!(facts.get("half"), "3c00,4000,4200,4400");
    assert_eq!(facts.get("zero"), "0,0,0,0");
    assert_eq!(facts.number("mul_workspace"), 4096);
    assert_eq!(facts.number("abs_workspace"), 0);
}

/// What `launch_everything` of the driver launches, in order; the copy has no name.
const TRACKS: [&str; 7] = [
    "1/1/0 Mul",
    "1/1/1 -",
    "1/1/2 custom_kernel",
    "1/1/3 custom_kernel",
    "1/1/4 custom_kernel",
    "1/1/5 stub_kernel",
    "1/1/6 cpu_kernel",
];

#[test]
fn launches_are_reported_to_callbacks_and_logged_by_the_device() {
    let facts = scenario("kernels", "kernels").run();
    assert_eq!(facts.all("track"), TRACKS);
    let logged: Vec<String> = (0..7).flat_map(|task| [format!("begin 1/{task}"), format!("end 1/{task}")]).collect();
    assert_eq!(facts.all("logged"), logged);
    assert_eq!(facts.number("log_bytes"), 14 * 64);
    assert_eq!(facts.all("time_runs_backwards"), [""; 0]);
    assert_eq!(facts.get("frequency"), "50000");
    assert_eq!(facts.get("read_after_stop"), "0");
}

#[test]
fn a_reader_loses_nothing_while_threads_launch() {
    let facts = scenario("live_log", "live").run();
    assert_eq!(facts.number("records"), 2 * 2 * 5000);
    assert_eq!(facts.all("torn_read"), [""; 0]);
    assert_eq!(facts.get("second_start"), "-1");
}

#[test]
fn newer_chips_log_short_records_without_streams() {
    let facts = scenario("kernels", "short").with("SIM_SOC_NAME", "Ascend950PR_9599").with("SHORT_RECORDS", "1").run();
    assert_eq!(facts.number("log_bytes"), 14 * 32);
    assert_eq!(facts.all("logged")[2], "begin 0/1");
}

#[test]
fn expanded_stream_ids_are_announced() {
    let facts = scenario("kernels", "expanded").with("SIM_STREAM_EXPAND", "1").run();
    assert_eq!(facts.all("report"), ["804 1"]);
}

#[test]
fn tracks_can_be_held_back_until_profiling_is_started() {
    let facts = scenario("kernels", "command").with("SIM_PROFILING_NEEDS_COMMAND", "1").with("NO_COMMAND", "1").run();
    assert_eq!(facts.all("track"), [""; 0]);
    let facts = scenario("kernels", "started").with("SIM_PROFILING_NEEDS_COMMAND", "1").run();
    assert_eq!(facts.all("track"), TRACKS);
}

#[test]
fn device_management_knows_what_is_used() {
    let facts =
        scenario("management", "management").with("SIM_HBM_BYTES", "1G").with("SIM_HBM_OTHER_BYTES", "100M").run();
    assert_eq!(facts.number("cards"), 8);
    assert_eq!(facts.number("devices_in_card"), 1);
    assert_eq!(facts.number("logic"), 1);
    assert_eq!(facts.number("hbm_mib"), 1024);
    assert_eq!(facts.number("used_mib"), 132);
    assert_eq!(facts.number("processes"), 1);
    assert_eq!(facts.number("process_bytes"), 32 * MIB);
    assert_eq!(facts.get("no_such_card"), "1");
}

#[test]
fn device_management_knows_the_other_processes_that_share_its_directory_and_are_alive() {
    const USED_ON_DEVICES: [u64; 2] = [7 * MIB, 3 * MIB];
    // Above every process number there can be.
    const NOBODY: u32 = 1 << 30;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared");
    std::fs::create_dir_all(&directory).unwrap();
    let bytes: Vec<u8> = USED_ON_DEVICES.iter().flat_map(|used| used.to_le_bytes()).collect();
    for process in [std::process::id(), NOBODY] {
        std::fs::write(directory.join(process.to_string()), &bytes).unwrap();
    }
    let facts = scenario("management", "sharing")
        .with("SIM_HBM_BYTES", "1G")
        .with("SIM_STATE_DIR", directory.display().to_string())
        .run();
    assert_eq!((facts.number("processes"), facts.number("used_mib")), (2, 35));
    assert_eq!((facts.number("process_bytes"), facts.number("bytes_of_others")), (32 * MIB, 3 * MIB));
}

#[test]
fn a_preloaded_tool_receives_mstx_calls() {
    let facts = scenario("marks", "tool").with_tool().run();
    assert_eq!(facts.all("slots"), ["5", "6", "6"]);
    assert_eq!(facts.get("unknown_module"), "1");
    assert_eq!(facts.get("mark"), "hello");
    assert_eq!(facts.get("range_start"), "step start");
    assert_eq!(facts.get("range"), "42");
    assert_eq!(facts.get("range_end"), "42");
    assert_eq!(facts.get("tool"), "0");
    assert_eq!(facts.get("heap"), "ptaCaching 1 0x1000 4608");
    assert_eq!(facts.get("region"), "ptaCaching 1 0x1000 4608");
    assert_eq!(facts.get("gone"), "ptaCaching 0x1000");
}

#[test]
fn a_tool_named_for_injection_receives_mstx_calls() {
    let facts = scenario("marks", "named").with_tool_in("MSTX_INJECTION_PATH").run();
    assert_eq!(facts.get("mark"), "hello");
    assert_eq!(facts.get("range_end"), "42");
}

#[test]
fn without_a_tool_or_with_one_that_refuses_mstx_calls_do_nothing() {
    let facts = scenario("marks", "none").run();
    assert_eq!((facts.get("domain"), facts.get("range")), ("none", "0"));
    let facts = scenario("marks", "refusing").with_tool().with("TOOL_REFUSES", "1").run();
    assert_eq!((facts.get("domain"), facts.get("range")), ("none", "0"));
    assert_eq!(facts.all("mark"), [""; 0]);
}

/// What the tool should see of the driver's `interposed` scenario.
const SEEN: [&str; 12] = [
    "halMemAlloc 2097152 0x2100000000024400",
    "halMemFree",
    "halMemAlloc 32 0x2100000000004400",
    "rtKernelLaunchWithHandleV2",
    "rtLaunchKernelByFuncHandleV2",
    "rtLaunchKernelByFuncHandleV2",
    "aclrtLaunchKernelWithHostArgsImpl",
    "rtLaunchKernelByFuncHandleV2",
    "halMemFree",
    "halMemCreate 2097152 side 1 device 0 module 33 page 1",
    "halMemRelease",
    "aclFinalize",
];

#[test]
fn a_preloaded_tool_stands_in_front_of_driver_and_runtime() {
    let facts = scenario("interposed", "tool").with_tool().run();
    assert_eq!(facts.all("seen"), SEEN);
    assert_eq!(facts.get("inner"), "there");
}

#[test]
fn the_other_tree_lacks_the_second_set_of_driver_functions() {
    let facts = scenario("interposed", "no-inner").on("ascend-toolkit-no-inner").with_tool().run();
    assert_eq!(facts.all("seen"), SEEN);
    assert_eq!(facts.get("inner"), "absent");
}
