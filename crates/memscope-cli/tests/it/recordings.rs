//! What the command tells of recordings made to order.
use memscope_testkit::{Protection, Space, SpoolBuilder, StopReason, SystemKind};
use memscope_usage::{HOST_PEAK, LogWriter, ProcessMemory, UsageSample};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

fn recorded(build: impl FnOnce(&mut SpoolBuilder)) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let mut spool = SpoolBuilder::new();
    spool.process(31, 1).command("/usr/bin/python3", "python3 train.py");
    build(&mut spool);
    spool.write(&root.path().join("msmemscope_31_20251203091122_ascend")).unwrap();
    root
}

fn run(command: &str, directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_msmemscope")).arg(command).arg(directory).output().unwrap()
}

fn info(directory: &Path) -> String {
    let output = run("info", directory);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn training(spool: &mut SpoolBuilder) {
    spool.config("c=20;py=20;cpu=1;npu=ffffffff;dir=/tmp");
    let lane = spool.lane(31);
    spool.code(lane, 0, "train.py", "Net.forward", 7).python_node(lane, 1, 0, 0, 0);
    spool.device_alloc(lane, 1_000_000_000, Space::Driver, 2, 0x1000, 20 << 20, 7, 1);
    spool.pool_total(lane, 1_500_000_000, Space::PtaCaching, 2, 20 << 20);
    spool.device_alloc(lane, 2_000_000_000, Space::PtaCaching, 2, 0x1000, 3 << 20, 0, 1);
    spool.pool_total(lane, 2_100_000_000, Space::PtaCaching, 2, 10 << 20);
    spool.alloc(lane, 2_200_000_000, 0x5000, 64, 1);
    for _ in 0..5 {
        spool.out_of_memory(lane, 2_500_000_000, Space::Driver, 2, 1 << 30, 0, 1);
    }
}

#[test]
fn each_pool_of_each_device_has_its_line_and_its_call_sites() {
    let root = recorded(training);
    let text = info(root.path());
    for line in [
        "    cpu HOST: peak 64 B after 2.200 s, alive at the end 64 B in 1 block",
        "    npu 2 HAL: peak 20.0 MiB after 1.000 s, alive at the end 20.0 MiB in 1 block",
        "    npu 2 PTA: peak 3.0 MiB after 2.000 s, alive at the end 3.0 MiB in 1 block, reserved 10.0 MiB (at most 20.0 MiB)",
        "  at the peak of process 31, npu 2 PTA:",
        "  alive at the end of process 31, npu 2 HAL:",
        "  never freed of process 31, cpu HOST:",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn a_call_site_in_a_library_names_the_users_line_too() {
    const TORCH: &str = "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py";
    let root = recorded(|spool| {
        spool.config("c=0;py=20;cpu=1;dir=/tmp");
        let lane = spool.lane(31);
        spool.code(lane, 0, "/home/me/train.py", "main", 1).code(lane, 1, "/home/me/train.py", "step", 7);
        spool.code(lane, 2, TORCH, "Module.__call__", 1700);
        // main < step < __call__ < __call__ < __call__ < __call__, and the same without the outer two of these.
        for (node, code) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)] {
            spool.python_node(lane, node, node - 1, code, 0);
        }
        spool.alloc(lane, 1, 0x5000, 3 << 20, 6).alloc(lane, 2, 0x9000_0000, 1 << 20, 4);
    });
    let text = info(root.path());
    let site = format!(
        "     4.0 MiB 100.0%      2 blocks  /home/me/train.py: step < /home/me/train.py: main [{TORCH}: Module.__call__]"
    );
    assert!(text.lines().any(|line| line.ends_with(&site)), "{site}\n{text}");
    for function in [
        "  4.0 MiB 100.0%        0 B   0.0%  /home/me/train.py: main",
        "  4.0 MiB 100.0%    4.0 MiB 100.0%  /opt/lib/python3.11/site-packages/torch/nn/modules/module.py: Module.__call__",
    ] {
        assert!(text.lines().any(|line| line.ends_with(function)), "{function}\n{text}");
    }
}

#[test]
fn refused_memory_is_told_with_its_call_site_and_not_more_often_than_needed() {
    let root = recorded(training);
    let text = info(root.path());
    let told: Vec<&str> = text.lines().map(str::trim).skip_while(|line| !line.contains("OUT OF MEMORY")).collect();
    let tables = told.iter().position(|line| line.starts_with("at the peak")).expect("tables behind it");
    let told = &told[..tables];
    assert_eq!(
        told,
        [
            "OUT OF MEMORY in process 31: npu 2 refused 1.0 GiB after 2.500 s (halMemAlloc, 5 tries)",
            "asked for by train.py: Net.forward",
            "the same thread was given no memory there any more",
            "npu 2 PTA: 3.0 MiB in use in 1 block, 10.0 MiB reserved, 7.0 MiB of it handed out to nobody",
            "npu 2 HAL: 20.0 MiB in use in 1 block",
            "3.0 MiB 100.0%       1 block  train.py: Net.forward",
        ],
        "{text}"
    );
}

#[test]
fn a_single_free_is_told_in_the_singular() {
    let of = |frees: u64| {
        let root = recorded(|spool| {
            spool.config("c=0;py=0;cpu=1;dir=/tmp");
            let lane = spool.lane(31);
            for number in 0..frees {
                spool.free(lane, 1 + number, 0x5000 + number * 64, 0);
            }
        });
        info(root.path())
    };
    let one = "    1 free of a block whose allocation was not seen (a forked child frees what its parent allocated)";
    assert!(of(1).lines().any(|line| line == one), "{}", of(1));
    let two = "    2 frees of blocks whose allocation was not seen (a forked child frees what its parent allocated)";
    assert!(of(2).lines().any(|line| line == two), "{}", of(2));
}

#[test]
fn what_was_chosen_and_never_came_is_told_after_an_export() {
    let root = recorded(|spool| {
        spool.config("c=0;py=0;mode=1;steps=;dir=/tmp");
        let lane = spool.lane(31);
        spool.alloc(lane, 1, 0x5000, 64, 0).system(lane, 2, SystemKind::AclInit, 0);
    });
    let output = run("export", root.path());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("never called start()"), "{told}");
}

#[test]
fn the_peak_is_of_usable_memory_and_beside_it_stand_resident_size_and_reserved_space() {
    const START_NS: u64 = 1_700_000_000_000_000_000;
    let root = recorded(|spool| {
        let lane = spool.lane(31);
        spool.reserve(lane, 1, 1 << 40, 1 << 40, 0);
        spool.protect(lane, 1_000_000_000, (1 << 40, 5 << 20), Protection::READ_WRITE, 0);
    });
    // The process runs another program two seconds later.
    let mut next = SpoolBuilder::new();
    next.process(31, 1).started_at(START_NS + 2_000_000_000).command("/usr/bin/true", "true");
    let lane = next.lane(31);
    next.alloc(lane, 5, 0x5000, 64, 0);
    next.write(&root.path().join("msmemscope_31_20251203091124_ascend")).unwrap();
    let mut log = LogWriter::create_host(root.path(), 1).unwrap();
    for (time_ns, bytes) in [(500_000_000, 2 << 20), (1_500_000_000, 3 << 20), (2_500_000_000, 9 << 20)] {
        let usage = UsageSample { device: None, processes: Some(vec![ProcessMemory { pid: 31, bytes }]) };
        log.append(START_NS + time_ns, HOST_PEAK, &usage).unwrap();
    }
    let text = info(root.path());
    for line in [
        "    cpu HOST: peak 5.0 MiB after 1.000 s, alive at the end 5.0 MiB in 1 block; resident at most 3.0 MiB; \
         at most 1.0 TiB of address space reserved and not usable",
        "    cpu HOST: peak 64 B after 0.000 s, alive at the end 64 B in 1 block; resident at most 9.0 MiB",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn lost_events_have_the_reason_that_was_recorded() {
    let lost = |build: fn(&mut SpoolBuilder)| {
        let root = recorded(|spool| {
            let lane = spool.lane(31);
            spool.alloc(lane, 1, 0x5000, 64, 0).lose(lane, 7);
            build(spool);
        });
        let text = info(root.path());
        let told: Vec<String> =
            text.lines().filter(|line| line.contains("not recorded")).map(|line| line.trim().to_owned()).collect();
        told.join("\n")
    };
    assert_eq!(
        lost(|spool| _ = spool.lose_without_window(3)),
        "3 events were not recorded: there was no memory, descriptor or disk space for their threads, or they came between vfork and exec\n\
         7 events were not recorded: they came from signal handlers, or jumps, while the recorder was at work"
    );
    assert_eq!(
        lost(|spool| _ = spool.stopped(StopReason::SizeCap, 0)),
        "7 events were not recorded: the size limit of the recording was reached"
    );
}

#[test]
fn what_was_alive_when_recording_stopped_is_not_said_never_to_have_been_freed() {
    let told = |lost: u64| {
        let root = recorded(|spool| {
            spool.config("c=0;py=20;cpu=1;dir=/tmp");
            let lane = spool.lane(31);
            spool.code(lane, 0, "train.py", "step", 7).python_node(lane, 1, 0, 0, 0);
            for number in 0..400 {
                spool.alloc(lane, 1_000_000 * (1 + number), 0x5000 + number * 64, 64, 1);
            }
            spool.lose(lane, lost).stopped(StopReason::SizeCap, 0);
        });
        info(root.path())
    };
    let text = told(7);
    for words in [
        "    cpu HOST: peak 25.0 KiB after 0.400 s, alive when recording stopped 25.0 KiB in 400 blocks",
        "alive when recording stopped of process 31, cpu HOST:",
        "leaks: 1 call site grows, over the time that was recorded, alive when recording stopped (it may only",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("never freed") && !text.contains("the end"), "{text}");
    // Where nothing came after it, nothing is missing.
    let text = told(0);
    assert!(
        text.contains("never freed of process 31, cpu HOST:") && !text.contains("when recording stopped"),
        "{text}"
    );
}

#[test]
fn of_a_line_that_grows_by_little_and_took_much_at_once_the_little_is_told() {
    let told = |at_once: u64| {
        let root = recorded(|spool| {
            spool.config("c=0;py=20;cpu=1;dir=/tmp");
            let lane = spool.lane(31);
            spool.code(lane, 0, "train.py", "step", 7).python_node(lane, 1, 0, 0, 0);
            spool.alloc(lane, 1, 0x9000_0000, at_once, 1);
            for number in 0..400 {
                spool.alloc(lane, 1_000_000 * (1 + number), 0x100_0000 + number * 4096, 4096, 1);
            }
        });
        info(root.path())
    };
    let text = told(100 << 20);
    assert!(text.contains("  grows   cpu HOST: 101.6 MiB in 401 blocks, of which only "), "{text}");
    let text = told(4096);
    assert!(text.contains("  grows   cpu HOST: 1.6 MiB in 401 blocks  "), "{text}");
}

#[test]
fn a_deferred_run_shows_nothing_of_the_time_before_start() {
    let deferred = |spool: &mut SpoolBuilder| {
        spool.config("c=0;py=0;cpu=1;mode=1;steps=;dir=/tmp");
        let lane = spool.lane(31);
        // 90 MiB that are gone when tracing begins.
        spool.alloc(lane, 1, 0x5000, 90 << 20, 0).free(lane, 2, 0x5000, 0).alloc(lane, 3, 0x5000, 1 << 20, 0);
        lane
    };
    let never = info(recorded(|spool| _ = deferred(spool)).path());
    assert!(!never.contains("peak") && !never.contains("90.0 MiB"), "{never}");
    assert_eq!(never.matches("never called start()").count(), 1, "{never}");
    assert!(never.contains("1 process recorded: 3 events, none of them in the time asked for, none lost"), "{never}");
    assert!(!never.contains("nothing grows"), "{never}");
    let started = info(
        recorded(|spool| {
            let lane = deferred(spool);
            spool.system(lane, 1_000_000_000, SystemKind::StartTrace, 0).alloc(lane, 2_000_000_000, 0x9000, 2 << 20, 0);
        })
        .path(),
    );
    assert!(started.contains("cpu HOST: peak 3.0 MiB after 2.000 s"), "{started}");
    assert!(started.contains("4 events, 1 of them in the time asked for"), "{started}");
}

#[test]
fn steps_that_were_asked_for_and_never_seen_are_told_in_one_line() {
    let root = recorded(|spool| {
        spool.config("c=0;py=0;cpu=1;mode=0;steps=1+3;dir=/tmp");
        let lane = spool.lane(31);
        spool.alloc(lane, 1, 0x5000, 64, 0);
    });
    let mut second = SpoolBuilder::new();
    second.process(32, 1).config("c=0;py=0;cpu=1;mode=0;steps=1+3;dir=/tmp");
    let lane = second.lane(32);
    second.alloc(lane, 1, 0x5000, 64, 0);
    second.write(&root.path().join("msmemscope_32_20251203091122_ascend")).unwrap();
    let text = info(root.path());
    let told: Vec<&str> = text.lines().filter(|line| line.contains("no step was seen")).collect();
    let expected = "no step was seen, and --steps=1,3 shows nothing else: a step is an mstx range \"step start\", or ends \
                    with a call of step()";
    assert_eq!(told, [expected], "{text}");
}

#[test]
fn a_process_that_could_not_be_exported_is_in_the_summary_with_the_reason() {
    let root = recorded(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 1, 0x5000, 64, 0);
    });
    // Where the directory of the rows should be.
    std::fs::write(root.path().join("msmemscope_31_20251203091122_ascend/device_cpu"), "").unwrap();
    let output = run("export", root.path());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("1 process recorded: 1 event, none lost; files of 1 process could NOT be written"), "{told}");
    assert!(
        told.contains("NOT EXPORTED: cannot create directory ") && told.contains("device_cpu: File exists"),
        "{told}"
    );
}

#[test]
fn a_recording_that_cannot_be_read_is_counted() {
    let root = recorded(|spool| {
        let lane = spool.lane(31);
        spool.alloc(lane, 1, 0x5000, 64, 0);
    });
    let broken = root.path().join("msmemscope_32_20251203091122_ascend/spool");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("windows.spool"), "nothing of the kind").unwrap();
    for command in ["info", "export"] {
        let output = run(command, root.path());
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("1 process recorded: 1 event; 1 more recording could NOT be read"), "{told}");
    }
}

/// So many processes of two programs, the first with the least memory.
fn family(size: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for number in 0..size {
        let mut spool = SpoolBuilder::new();
        let program = if number % 3 == 0 { "/usr/bin/ld" } else { "/usr/bin/cc1" };
        spool.process(100 + number, 1).command(program, program).config("cpu=1;dir=/tmp");
        let lane = spool.lane(100 + number);
        spool.alloc(lane, 1, 0x5000, (u64::from(number) + 1) << 20, 0);
        spool.write(&root.path().join(format!("msmemscope_{}_20251203091122_ascend", 100 + number))).unwrap();
    }
    root
}

#[test]
fn of_many_processes_the_ten_largest_are_told_and_the_others_summed_up() {
    let root = family(30);
    let told_by_export = String::from_utf8(run("export", root.path()).stderr).unwrap().replace("[msmemscope] ", "");
    for text in [info(root.path()), told_by_export] {
        assert!(text.starts_with("30 processes recorded: 30 events, none lost\n"), "{text}");
        let processes: Vec<&str> = text.lines().filter(|line| line.starts_with("  process ")).collect();
        let pids: Vec<u32> = processes.iter().map(|line| line[10..13].parse().unwrap()).collect();
        assert_eq!(pids, (120..130).rev().collect::<Vec<u32>>(), "{text}");
        for line in [
            "  20 of cc1: 20 events, peak at most 30.0 MiB".to_owned(),
            "  10 of ld: 10 events, peak at most 28.0 MiB".to_owned(),
            format!(
                "  and 20 smaller processes: 20 events, peak at most 20.0 MiB; all are listed by: info --all {}",
                root.path().display()
            ),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
    let all = Command::new(env!("CARGO_BIN_EXE_msmemscope")).args(["info", "--all"]).arg(root.path()).output().unwrap();
    let all = String::from_utf8(all.stdout).unwrap();
    assert_eq!(all.lines().filter(|line| line.starts_with("  process ")).count(), 30, "{all}");
}

#[test]
fn of_ten_processes_each_is_told() {
    let root = family(10);
    let text = info(root.path());
    assert_eq!(text.lines().filter(|line| line.starts_with("  process ")).count(), 10, "{text}");
    assert!(!text.contains("smaller") && !text.contains(" of cc1"), "{text}");
}

#[test]
fn the_end_of_the_program_is_that_of_its_last_image_and_of_nobody_else() {
    const START_NS: u64 = 1_700_000_000_000_000_000;
    let root = tempfile::tempdir().unwrap();
    for (name, pid, start) in [("first", 31, 0), ("last", 31, 9), ("other", 32, 20)] {
        let mut spool = SpoolBuilder::new();
        spool.process(pid, 7).started_at(START_NS + start).command("/bin/x", name);
        let lane = spool.lane(pid);
        spool.alloc(lane, 1, 0x5000, 64, 0);
        spool.write(&root.path().join(name)).unwrap();
    }
    std::fs::write(root.path().join("run_7.end_31_9"), "").unwrap();
    let text = info(root.path());
    let ends: Vec<(&str, bool)> = ["first", "last", "other"]
        .map(|name| (name, text.contains(&format!(" {name}: 1 event, killed by SIGKILL"))))
        .to_vec();
    assert_eq!(ends, [("first", false), ("last", true), ("other", false)], "{text}");
}

/// What `info` says of the pools and call sites.
fn pool_and_site_lines(text: &str) -> Vec<String> {
    let (pools, rest) = text.split_once("OUT OF MEMORY").unwrap_or((text, ""));
    let tables = rest.find("at the peak").map_or("", |start| &rest[start..]);
    let lines = pools.lines().chain(tables.lines()).filter(|line| line.contains(" after ") || line.contains('%'));
    // Of dump files, times are since their first row, and what is reserved after the last row is not told.
    let timeless = |line: &str| match (line.find(" after "), line.find(" s, ")) {
        (Some(start), Some(end)) => {
            let behind = &line[end..];
            format!("{}{}", &line[..start], &behind[..behind.find(", reserved ").unwrap_or(behind.len())])
        }
        _ => line.to_owned(),
    };
    lines.map(timeless).collect()
}

#[test]
fn info_says_the_same_of_dump_files_as_of_the_recording_they_are_from() {
    let root = recorded(training);
    let of_recording = pool_and_site_lines(&info(root.path()));
    assert!(of_recording.len() > 6, "{of_recording:?}");
    let process = root.path().join("msmemscope_31_20251203091122_ascend");
    let elsewhere = tempfile::tempdir().unwrap();
    for format in ["csv", "db"] {
        let export = Command::new(env!("CARGO_BIN_EXE_msmemscope"))
            .args(["export", "--format", format])
            .arg(&process)
            .output()
            .unwrap();
        assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
        let aside = elsewhere.path().join("spool");
        std::fs::rename(process.join("spool"), &aside).unwrap();
        let text = info(root.path());
        assert!(
            text.contains("process 31 msmemscope_31_20251203091122_ascend: 3 events, read from its dump files"),
            "{text}"
        );
        assert_eq!(pool_and_site_lines(&text), of_recording);
        let file = process.join(format!("device_cpu/dump/memscope_dump_20251203091122.{format}"));
        let text = info(&file);
        assert!(text.contains("cpu HOST: peak 64 B") && text.contains("train.py: Net.forward"), "{text}");
        std::fs::rename(aside, process.join("spool")).unwrap();
        for device in ["cpu", "2"] {
            std::fs::remove_dir_all(process.join(format!("device_{device}"))).unwrap();
        }
    }
}

#[test]
fn bad_rows_of_a_dump_are_named_and_what_is_no_dump_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("memscope_dump_1.csv");
    let header = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr";
    let good = "1,MALLOC,HAL,N/A,5,7,7,0,0x10,\"{allocation_id:1,size:2048}\"";
    std::fs::write(&path, format!("{header}\n{good}\nrubbish\n")).unwrap();
    let text = info(&path);
    assert!(text.contains("npu 0 HAL: peak 2.0 KiB"), "{text}");
    assert!(text.contains("memscope_dump_1.csv, line 3: cells: 1 instead of 10"), "{text}");
    std::fs::write(&path, "a,b\n").unwrap();
    for path in [root.path(), &path] {
        let output = run("info", path);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("is no dump of memory events"), "{error}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.starts_with("1 recording could NOT be read") && !told.contains("none lost"), "{told}");
    }
}

/// Files below a directory, without that part of their paths.
fn files_in(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                files.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

const PROCESS: &str = "msmemscope_31_20251203091122_ascend";

fn host_blocks(settings: &'static str) -> impl FnOnce(&mut SpoolBuilder) {
    move |spool| {
        spool.config(settings);
        let lane = spool.lane(31);
        spool.unknown_node(lane, 1, 0, 0x7f01);
        for number in 0..2000 {
            spool.alloc(lane, number, 0x5000 + number * 64, 64, 1);
        }
    }
}

#[test]
fn an_export_elsewhere_leaves_the_recording_as_it_was() {
    let root = recorded(host_blocks("c=20;py=0;cpu=1;npu=0;dir=/tmp"));
    let before = files_in(root.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let output_dir = elsewhere.path().join("new/place");
    let process = root.path().join(PROCESS);
    // Whatever the recording is named by.
    for directory in [root.path(), &process, &process.join("spool")] {
        let output = Command::new(env!("CARGO_BIN_EXE_msmemscope"))
            .args(["export".as_ref(), directory.as_os_str(), "-o".as_ref(), output_dir.as_os_str()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made = [
            format!("{PROCESS}/config.json"),
            format!("{PROCESS}/device_cpu/dump/memscope_dump_20251203091122.csv"),
            format!("{PROCESS}/device_cpu/dump/memscope_stacks_20251203091122.csv"),
        ];
        assert_eq!(files_in(&output_dir), made, "{directory:?}");
        std::fs::remove_dir_all(&output_dir).unwrap();
    }
    assert_eq!(files_in(root.path()), before);
}

#[test]
fn an_export_elsewhere_says_where_its_files_are() {
    let root = tempfile::tempdir().unwrap();
    for pid in 31..36 {
        let mut spool = SpoolBuilder::new();
        spool.process(pid, 1);
        host_blocks("c=20;py=0;cpu=1;npu=0;dir=/tmp")(&mut spool);
        spool.write(&root.path().join(format!("msmemscope_{pid}_20251203091122_ascend"))).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let told = |words: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_msmemscope"));
        String::from_utf8(command.arg("export").arg(root.path()).args(words).output().unwrap().stderr).unwrap()
    };
    let below = |directory: &Path| format!("10 files below {}\n", directory.display());
    let there = told(&["-o".as_ref(), elsewhere.path().as_os_str()]);
    assert!(there.contains(&below(elsewhere.path())), "{there}");
    let beside = told(&[]);
    assert!(beside.contains(&below(root.path())), "{beside}");
}

#[test]
fn an_export_is_as_the_run_was_asked_for_unless_it_is_asked_for_something_else() {
    let made = |settings: &'static str, words: &[&str]| {
        let root = recorded(host_blocks(settings));
        let output =
            Command::new(env!("CARGO_BIN_EXE_msmemscope")).arg("export").arg(root.path()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        files_in(&root.path().join(PROCESS).join("device_cpu"))
    };
    let (csv, stacks, db) = (
        "dump/memscope_dump_20251203091122.csv",
        "dump/memscope_stacks_20251203091122.csv",
        "dump/memscope_dump_20251203091122.db",
    );
    assert_eq!(made("c=20;cpu=1;npu=0;format=0;stacks=;dir=/tmp", &[]), [csv, stacks]);
    assert_eq!(made("c=20;cpu=1;npu=0;format=1;stacks=;dir=/tmp", &[]), [db]);
    assert_eq!(made("c=20;cpu=1;npu=0;format=0;stacks=inline;dir=/tmp", &[]), [csv]);
    assert_eq!(made("c=20;cpu=1;npu=0;format=0;stacks=inline;dir=/tmp", &["--stacks=table"]), [csv, stacks]);
    assert_eq!(made("c=20;cpu=1;npu=0;format=0;stacks=;dir=/tmp", &["--stacks=inline", "--format=csv"]), [csv]);
    // A run that was to write nothing can be exported all the same.
    assert_eq!(made("c=20;cpu=1;npu=0;format=2;stacks=;dir=/tmp", &[]), [csv, stacks]);
}

/// Needs a name space of its own for a small file system; says SKIPPED where there is none.
#[test]
fn files_that_do_not_fit_are_refused_before_they_are_begun() {
    let root = recorded(host_blocks("c=20;py=0;cpu=1;npu=0;dir=/tmp"));
    let small = tempfile::tempdir().unwrap();
    // What is left of a begun file would be seen: the names of all files there are told at the end.
    let script = "mount -t tmpfs -o size=64k tmpfs \"$1\" || exit 77; \"$2\" export \"$3\" -o \"$1/out\"; echo \"code $?\"; \
                  find \"$1\" -type f";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(small.path())
        .arg(env!("CARGO_BIN_EXE_msmemscope"))
        .arg(root.path())
        .output();
    let Ok(output) = output else {
        return eprintln!("SKIPPED: no unshare");
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return eprintln!("SKIPPED: no mount name space: {told}");
    }
    let config = small.path().join("out").join(PROCESS).join("config.json");
    let expected = format!("code {}\n{}\n", memscope_session::EXIT_UNWRITTEN, config.display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{told}");
    assert!(told.contains("1 process recorded: 2,000 events, none lost"), "{told}");
    let refusal = told.lines().find(|line| line.contains("no room for")).unwrap_or_else(|| panic!("{told}"));
    for word in ["memscope_dump_20251203091122.csv", "65.5 kB are free", "the recording is kept", "export -o DIR"] {
        assert!(refusal.contains(word), "{word}: {refusal}");
    }
}

#[test]
fn the_first_line_never_says_that_none_are_lost_beside_a_line_that_says_otherwise() {
    for facts in 0..64_u32 {
        let [lost, stopped, damaged, unknown, unreadable, unrecorded] =
            std::array::from_fn(|number| facts & (1 << number) != 0);
        let root = tempfile::tempdir().unwrap();
        let mut spool = SpoolBuilder::new();
        spool.process(31, 1).command("/bin/x", "x");
        let lane = spool.lane(31);
        spool.alloc(lane, 10, 0x1000, 64, 0);
        spool.end_generation(lane).alloc(lane, 20, 0x2000, 64, 0).end_generation(lane);
        if lost {
            spool.lose(lane, 7);
        }
        if stopped {
            spool.stopped(StopReason::SizeCap, 0);
        }
        if unknown {
            spool.sandboxed();
        }
        let process = root.path().join("msmemscope_31_20251203091122_ascend");
        spool.write(&process).unwrap();
        let events = process.join("spool/events.spool");
        if damaged {
            let mut bytes = std::fs::read(&events).unwrap();
            let end = bytes.len() - 8;
            bytes[end..].fill(0xff);
            std::fs::write(&events, bytes).unwrap();
        }
        if unreadable {
            let other = root.path().join("msmemscope_32_20251203091122_ascend/spool");
            std::fs::create_dir_all(&other).unwrap();
            std::fs::write(other.join("windows.spool"), "nothing of ours").unwrap();
        }
        if unrecorded {
            std::fs::write(root.path().join("run_1.unrecorded"), "77\t0\t/bin/y\ty\tit is static\n").unwrap();
        }
        let text = String::from_utf8(run("info", root.path()).stdout).unwrap();
        let (first, below) = text.split_once('\n').unwrap();
        assert_eq!(first.contains("none lost"), facts == 0, "{facts:b}: {text}");
        for (is_so, word, reason) in [
            (lost, "7 LOST", "7 events were not recorded"),
            (stopped, "STOPPED EARLY", "the size limit of the recording was reached"),
            (damaged, "DAMAGED", "damaged: lane 0: block 2 fails its checksum"),
            (unknown, "INCOMPLETE", "the program installed a seccomp filter"),
            (unreadable, "1 more recording could NOT be read", ""),
            (unrecorded, "1 process NOT RECORDED", "y: NOT RECORDED: it is static"),
        ] {
            assert_eq!(first.contains(word), is_so, "{facts:b}: {word}: {text}");
            assert!(!is_so || below.contains(reason), "{facts:b}: {reason}: {text}");
        }
    }
}
