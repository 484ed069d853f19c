"""Kernel launches through all ten launch functions, by a C program; runs everywhere."""

import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
from collections import Counter, namedtuple

from environments import REPOSITORY
from recording import Failed, Launch, compare, expect_equal, record

SOURCE = REPOSITORY / "tests/frameworks/programs/kernels.c"
FUNCTIONS = 10
RUNS = 20
MANY = 200_000
LAUNCH, START, END = "KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END"
# Host and device are on two clocks, which are compared while the program runs.
CLOCK_TOLERANCE_NS = 20_000
LEVEL = ["--level=kernel"]


class Case(namedtuple("Case", "name check")):
    def run(self, site):
        return self.check(site)


def compile_program(site):
    program = site.scratch / "kernels"
    if not program.exists():
        subprocess.run(["cc", "-O1", "-g", "-o", program, SOURCE, "-ldl", "-lpthread"], check=True)
    return program


def recorded(site, *arguments, options=LEVEL, devices="npu", **variables):
    program = [compile_program(site), *arguments]
    run = record(site.stage, site.output(), program, site.toolkit.variables() | variables, devices, options)
    expect_equal("exit status and what was said", (0, ""), (run.status, run.messages if run.status else ""))
    return run


def kernel_rows(process, device):
    return [row for row in process.rows(device) if row.event == "KERNEL_LAUNCH"]


def check_rows(rows, launches):
    """Every launch once, with a name, a number and its two executions, in the order of time."""
    expect_equal("rows", {LAUNCH: launches, START: launches, END: launches}, dict(Counter(row.type for row in rows)))
    names = Counter(row.name for row in rows)
    expect_equal("names", {f"k_{number}": 3 * launches // FUNCTIONS for number in range(FUNCTIONS)}, dict(names))
    times = [int(row.cells["Timestamp(ns)"]) for row in rows]
    expect_equal("rows are in the order of time", sorted(times), times)
    following = {LAUNCH: START, START: END, END: LAUNCH}
    last = {}
    for row, time in zip(rows, times):
        stream, task = row.number("streamId"), row.number("taskId")
        if not (0 < stream < 2048 and 0 <= task < 65536):
            raise Failed(f"stream {stream}, task {task} in {row.cells}")
        before, name, thread, launched = last.get((stream, task), (END, None, None, 0))
        expect_equal(f"what follows {before} of stream {stream} task {task}", following[before], row.type)
        if row.type == LAUNCH:
            last[stream, task] = (LAUNCH, row.name, row.cells["Thread Id"], time)
            continue
        expect_equal("the name and thread of an execution", (name, thread), (row.name, row.cells["Thread Id"]))
        if time < launched - CLOCK_TOLERANCE_NS:
            raise Failed(f"{row.type} at {time}, before its launch at {launched}")
        last[stream, task] = (row.type, name, thread, launched)
    expect_equal("kernels that did not end", 0, sum(state[0] != END for state in last.values()))


def no_complaint(run):
    wrong = [line for line in run.messages.splitlines() if any(word in line for word in ("no name", "of which no", "LOST"))]
    expect_equal("complaints in the summary", [], wrong)


def many(site):
    """Twenty runs, from one thread and from four in turn: the one that fails is the one that matters."""
    for number in range(RUNS):
        threads = 4 if number % 2 else 1
        ending = ["finalize"] if number % 4 < 2 else []
        run = recorded(site, "run", "local", threads, MANY // threads, *ending)
        (report,) = run.reports
        no_complaint(run)
        counts = f"{report['launches']:,} launches, {report['launches']:,} executions on a device"
        if counts not in run.messages:
            raise Failed(f"run {number} does not say {counts!r}: {run.messages}")
        # To read them takes longer than all the rest.
        if number < 2:
            check_rows(kernel_rows(run.processes[0], 0), report["launches"])
    return f"{RUNS} runs of {MANY:,} launches"


def few(site, *words, launches=2000, device=0, **variables):
    run = recorded(site, "run", "local", 2, launches // 2, *words, **variables)
    no_complaint(run)
    check_rows(kernel_rows(run.processes[0], device), run.reports[0]["launches"])
    return f"{run.reports[0]['launches']} kernels"


def seen_by_all(site):
    run = recorded(site, "run", "global", 2, 1000, "copies")
    no_complaint(run)
    check_rows(kernel_rows(run.processes[0], 0), 2000)
    return "2000 kernels, no row of a copy"


def other_device_numbers(site):
    return few(site, "device1", device=3, ASCEND_RT_VISIBLE_DEVICES="5,3")


def begun_again(site):
    return few(site, "twice")


def forked(site):
    return few(site, "fork")


def left_by_jumps(site):
    run = recorded(site, "run", "local", 1, 1000, "jump")
    rows = kernel_rows(run.processes[0], 0)
    left = Counter(row.type for row in rows if row.name == "k_left")
    expect_equal("rows of kernels that were left", {LAUNCH: 10}, dict(left))
    check_rows([row for row in rows if row.name != "k_left"], 1000)
    return "10 launches left, 1000 after them"


def exit_while_busy(site):
    for _ in range(RUNS):
        run = recorded(site, "run", "local", 3, 100_000_000, "busy")
    counts = Counter(row.type for row in kernel_rows(run.processes[0], 0))
    if counts[LAUNCH] < 1000 or counts[END] > counts[LAUNCH]:
        raise Failed(f"rows: {dict(counts)}")
    return f"{RUNS} exits, {counts[LAUNCH]} launches before the last"


def user_set(site):
    """The C library asks every thread, the reader of the task log too."""
    return few(site, "user")


def expanded_streams_on_command(site):
    return few(site, SIM_STREAM_EXPAND="1", SIM_PROFILING_NEEDS_COMMAND="1")


def long_kernels(site):
    """Ends are told long before they come, and overtake each other."""
    return few(site, SIM_KERNEL_NS="300000")


def without_streams(site):
    run = recorded(site, "run", "local", 1, 2000, SIM_SOC_NAME="Ascend950PR_9589")
    no_complaint(run)
    check_rows(kernel_rows(run.processes[0], 0), 2000)
    return "2000 kernels"


def with_host_memory_and_stacks(site):
    run = recorded(site, "run", "local", 2, 1000, options=[*LEVEL, "--call-stack=c"], devices="npu,cpu")
    check_rows(kernel_rows(run.processes[0], 0), 2000)
    if "allocation was not seen" in run.messages:
        raise Failed(f"the thread that reads the log is in the recording: {run.messages}")
    return f"{len(run.processes[0].rows('cpu'))} rows of host memory"


def without_level_or_event(site):
    for options in ([], ["--level=op"], [*LEVEL, "--events=alloc,free"]):
        run = recorded(site, "run", "global", 2, 1000, options=options, SIM_TRACE="0")
        rows = [row for process in run.processes for device in process.files for row in kernel_rows(process, device)]
        expect_equal(f"rows of kernels with {options}", 0, len(rows))
    return "no row"


def callbacks_taken(site):
    said = "another profiler holds the profiling callbacks"
    for variables in ({"SIM_PROFILING_TAKEN": "1"}, {"PROFILER_SAMPLECONFIG": "{}"}):
        run = recorded(site, "run", "local", 2, 1000, **variables)
        if said not in run.messages:
            raise Failed(f"nothing of {said!r} in {run.messages}")
        rows = kernel_rows(run.processes[0], 0)
        expect_equal("launches, and what they are called", {(LAUNCH, "N/A", ""): 2000},
                     dict(Counter((row.type, row.name, row.cells["Attr"]) for row in rows)))
        output = run.processes[0].files["0"].parents[3]
        told = subprocess.run([site.stage / "bin/msmemscope", "info", output], capture_output=True, text=True, check=True)
        if said not in told.stdout:
            raise Failed(f"info does not say it: {told.stdout}")
    return "2000 launches without names, and a word why"


def task_log_taken(site):
    run = recorded(site, "run", "local", 2, 1000, "log")
    said = "the driver's task log could not be started"
    if said not in run.messages:
        raise Failed(f"nothing of {said!r} in {run.messages}")
    rows = kernel_rows(run.processes[0], 0)
    expect_equal("rows", {LAUNCH: 2000}, dict(Counter(row.type for row in rows)))
    expect_equal("rows without a name", 0, sum(row.name == "N/A" for row in rows))
    return "2000 launches with names, and a word why there are no executions"


def no_cann(site):
    run = record(site.stage, site.output(), [compile_program(site), "absent"], options=LEVEL)
    (report,) = run.reports
    expected = {name: 0x99 if name.startswith("rt") else 500003 for name in report}
    expect_equal("answers of functions that are not there", expected, report)
    expect_equal("functions", FUNCTIONS, len(report))
    return "ten functions fail as they should"


def killed(site):
    """What the log's reader had not read is lost, and nothing else."""
    run = record(site.stage, site.output(), [compile_program(site), "run", "local", 1, 2000, "killed"],
                 site.toolkit.variables(), options=LEVEL)
    expect_equal("exit status", -signal.SIGKILL, run.status)
    counts = Counter(row.type for row in kernel_rows(run.processes[0], 0))
    expect_equal("launches", 2000, counts[LAUNCH])
    if counts[START] > 2000 or counts[END] > 2000:
        raise Failed(f"{counts}")
    return f"2000 launches, {counts[END]} executions"


def database(site):
    run = recorded(site, "run", "local", 2, 1000, options=[*LEVEL, "--data-format=db"])
    (file,) = pathlib.Path(run.output).glob("msmemscope_*/device_0/dump/*.db")
    checker = os.environ.get("INSIGHT_CHECK")
    if checker:
        done = subprocess.run([sys.executable, checker, "--strict", file], capture_output=True, text=True)
        expect_equal("the viewer's check", (0, ""), (done.returncode, done.stdout if done.returncode else ""))
    connection = sqlite3.connect(file)
    counts = dict(connection.execute('select "Event Type", count(*) from memscope_dump group by 1'))
    expect_equal("rows", {"HAL": 1, LAUNCH: 2000, START: 2000, END: 2000}, counts)
    return "6000 rows" + (", accepted by the check of the viewer" if checker else "")


def compared(site):
    """The longer of two runs launches more, and nothing else is another."""
    runs = [recorded(site, "run", "local", 1, launches).output for launches in (40, 50)]
    rows = compare(site.stage, *runs, site.output(), *LEVEL)
    # The block that the program takes first is the first kernel's.
    changes = ["4096"] + 49 * ["0"]
    expected = [Launch(LAUNCH, f"k_{number % FUNCTIONS}", "0", change if number < 40 else "N/A", change, "0")
                for number, change in enumerate(changes)]
    for number, (one, other) in enumerate(zip(expected, rows)):
        expect_equal(f"row {number} of the comparison", one, other)
    expect_equal("rows of the comparison", len(expected), len(rows))
    return "40 kernels belong together, 10 are new"


CASES = [
    Case("kernels, seen by all", seen_by_all),
    Case("kernels of two runs, compared", compared),
    Case("kernels, 200,000 of them, 20 times", many),
    Case("kernels on another device", other_device_numbers),
    Case("kernels, ACL begun again", begun_again),
    Case("kernels, then a fork", forked),
    Case("kernels, exit while threads launch", exit_while_busy),
    Case("kernels, then a change of user", user_set),
    Case("kernels, after launches left by a jump", left_by_jumps),
    Case("kernels with expanded streams, reported on command", expanded_streams_on_command),
    Case("kernels that take long", long_kernels),
    Case("kernels of a chip that logs no streams", without_streams),
    Case("kernels with host memory and stacks", with_host_memory_and_stacks),
    Case("kernels that were not asked for", without_level_or_event),
    Case("kernels while another profiler has the callbacks", callbacks_taken),
    Case("kernels while another profiler has the task log", task_log_taken),
    Case("kernels in a database", database),
    Case("kernels, killed", killed),
    Case("kernels without CANN", no_cann),
]
