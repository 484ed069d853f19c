"""Watched blocks: operators and kernels that write where they must not, and who is said to have done it."""

import csv
import os
import subprocess
from collections import namedtuple

from atb_cases import Model
from environments import REPOSITORY, Unavailable, torch_npu
from recording import Failed, analyze, expect_equal, observe, record
from torch_cases import CURRENT

# As in model.cpp: two hundred steps, of which one writes beyond its own tensor; before another the program itself writes.
STEPS, FAULT, HOST_WRITE = 200, 137, 90
TENSOR_BYTES, OVERRUN_BYTES = 24, 8
WATCH = "--watch=StartOperation,EndOperation"
STEPS_WORKLOAD = REPOSITORY / "tests/frameworks/workloads/watched_steps.py"
WORKLOAD = REPOSITORY / "tests/frameworks/workloads/watched_training.py"
ENDINGS_WORKLOAD = REPOSITORY / "tests/frameworks/workloads/watched_endings.py"


class Case(namedtuple("Case", "name check")):
    def run(self, site):
        return self.check(site)


def told(site, under):
    """What `analyze watch` says of the one process."""
    (process,) = [process for process in analyze(site.stage, [under.output], "watch") if "watch" in process]
    return process["watch"]


def alarms(watched):
    """By block: who is named, and the bytes."""
    return {(block["name"], block["output"]): [([call["name"] for call in change["during"]], change["first_byte"], change["last_byte"])
                                               for change in block["changes"]]
            for block in watched["blocks"] if block["alarms"]}


def dump_files(under):
    return sorted(under.output.glob("msmemscope_*/device_*/watch_dump/*"))


def sums(under):
    """The lines of the checksums, by what they are of."""
    (file,) = [file for file in dump_files(under) if file.suffix == ".csv"]
    with open(file, newline="") as text:
        rows = list(csv.reader(text))
    expect_equal("headings", ["Tensor info", "Check data sum"], rows[0])
    return [(info.partition("/")[2], checksum) for info, checksum in rows[1:]]


def step(number, kernel=""):
    """Executions are counted from 0 in the paths of ATB."""
    return f"{number - 1}/7_StepOperation{kernel}"


def operator_of_atb(site):
    """The one of two hundred operators is named, and only that; in both forms, from outside."""
    model = Model(site, 1)
    for content in ("", ",full-content"):
        under = model.watched(model.linked("watched"), WATCH + content)
        found = told(site, under)
        expect_equal("alarms without a fault", {}, alarms(found))
        first, second = found["blocks"]
        expect_equal("changes by an operator that owns the block", (1, 0), (first["legal_changes"], second["legal_changes"]))
        expect_equal("looks at each", {2 * (STEPS + 2) + 1}, {first["looks"], second["looks"]})
        under = model.watched(model.linked("watched-overrun"), WATCH + content, "--call-stack=c")
        found = told(site, under)
        bytes_changed = (None, None) if not content else (3, OVERRUN_BYTES - 1)
        expect_equal("alarms", {("StartOperation", 0): [([step(FAULT)], *bytes_changed)]}, alarms(found))
        (change,) = found["blocks"][0]["changes"]
        if "run_model" not in " ".join(change["during"][0]["stack"]):
            raise Failed(f"no stack of its caller: {change['during'][0]['stack']}")
        neighbour = change["neighbours"][0]
        expect_equal("the block before it", (under.reports[0]["steps"], 0, "before"),
                     (neighbour["address"], neighbour["distance"], neighbour["side"]))
        if f"changed during {step(FAULT)} (call 1, thread " not in under.messages:
            raise Failed(f"the report does not say so: {under.messages}")
    return f"operator {FAULT} of {STEPS}"


def kernel_of_atb(site):
    model = Model(site, 1)
    for content in ("", ",full-content"):
        options = ("--level=kernel", f"--watch=0_AddF32Kernel,2/7_EndOperation/0_AddF32Kernel{content}")
        expect_equal("alarms without a fault", {}, alarms(told(site, model.watched(model.linked("watched"), *options))))
        found = alarms(told(site, model.watched(model.linked("watched-overrun"), *options)))
        names = {block: [change[0] for change in changes] for block, changes in found.items()}
        expect_equal("alarms", {("0_AddF32Kernel", 0): [[step(FAULT, "/0_AddF32Kernel")]]}, names)
    return f"kernel of operator {FAULT}"


def between_operators(site):
    """What the program itself writes is between two operators."""
    model = Model(site, 0)
    found = told(site, model.watched(model.linked("watched-host"), WATCH))
    (change,) = found["blocks"][0]["changes"]
    expect_equal("operators around the change", (step(HOST_WRITE), [], step(HOST_WRITE + 1)),
                 (change["after"]["name"], change["during"], change["before"]["name"]))
    return f"between operators {HOST_WRITE} and {HOST_WRITE + 1}"


def streams_of_atb(site):
    """Kernels run when their own stream is waited for, and not before: an operator, the one inside it and the owner use two streams."""
    model = Model(site, 1)
    levels = {
        "op": ([WATCH], "StartOperation", step(FAULT)),
        "kernel": (["--level=kernel", "--watch=0_AddF32Kernel,2/7_EndOperation/0_AddF32Kernel"], "0_AddF32Kernel", step(FAULT, "/0_AddF32Kernel")),
    }
    for level, (options, block, named) in levels.items():
        for content in ("", ",full-content"):
            words = [*options[:-1], options[-1] + content]
            found = told(site, model.watched(model.linked("watched-streams"), *words, SIM_DEFERRED="1"))
            expect_equal(f"{level}: alarms without a fault", {}, alarms(found))
            expect_equal(f"{level}: changes by an owner, doubtful ones", (1, 0),
                         tuple(sum(block[key] for block in found["blocks"]) for key in ("legal_changes", "doubtful_changes")))
            found = told(site, model.watched(model.linked("watched-streams-overrun"), *words, SIM_DEFERRED="1"))
            bytes_changed = (3, OVERRUN_BYTES - 1) if content else (None, None)
            expect_equal(f"{level}: alarms", {(block, 0): [([named], *bytes_changed)]}, alarms(found))
    return f"operator and kernel {FAULT}, on two streams"


def captured_graph(site):
    """While a graph is captured nobody may wait for the device: the program's capture succeeds, and what was not looked at is told."""
    model = Model(site, 1)
    for deferred in ("0", "1"):
        variables = {"SIM_DEFERRED": deferred}
        under = model.compared(model.linked("watched-streams-capture"), WATCH, **variables)
        found = told(site, under)
        expect_equal("alarms without a fault", {}, alarms(found))
        # Two blocks, at both ends of three steps and of the operators inside them.
        expect_equal("looks that were left out", 2 * 2 * 2 * 3, found["not_looked"])
        if "were not looked at 24 times while a graph was captured" not in under.messages:
            raise Failed(f"the report does not say so: {under.messages}")
        found = told(site, model.compared(model.linked("watched-streams-capture-overrun"), WATCH, **variables))
        (change,) = found["blocks"][0]["changes"]
        expect_equal("operators around what the graph wrote", (step(FAULT - 2), [], step(FAULT + 2)),
                     (change["after"]["name"], change["during"], change["before"]["name"]))
    return "24 looks left out"


def inputs_of_atb(site):
    """An operator of ATB may write into its inputs: neither an alarm nor silence. Its kernels say what they write."""
    model = Model(site, 1)
    under = model.watched(model.linked("watched-input-overrun"), WATCH)
    found = told(site, under)
    expect_equal("alarms", {("StartOperation", 0): [([step(FAULT)], None, None)]}, alarms(found))
    block = found["blocks"][0]
    expect_equal("changes by operators that may own it", [("purpose", "0/7_CacheOperation", 1)],
                 [(doubt["doubt"], doubt["owner"]["name"], doubt["times"]) for doubt in block["doubts"]])
    said = "changed during 0/7_CacheOperation (call 1, thread "
    if said not in under.messages or "which was given it as an input and does not say whether to write into it" not in under.messages:
        raise Failed(f"the report does not say so: {under.messages}")
    kernels = ("--level=kernel", "--watch=0_AddF32Kernel,2/7_EndOperation/0_AddF32Kernel")
    (block, *_) = told(site, model.watched(model.linked("watched-input"), *kernels))["blocks"]
    expect_equal("changes by kernels", (2, 0, 0), (block["legal_changes"], block["doubtful_changes"], block["alarms"]))
    return "one, as an input"


#: $1 is the disk, $2 its size, $3 where to copy the results; the rest is the command. What is mounted goes with the name space.
ON_A_SMALL_DISK = """
mount -t tmpfs -o size="$2" tmpfs "$1" || exit 77
disk=$1; kept=$3; shift 3
"$@"; status=$?
rm -f "$disk/filled"
cp -r "$disk/output" "$kept" || exit 78
exit $status
"""


def full_disk(site):
    """The disk fills up while blocks are watched: the program goes on as ever. As long as events can be written, check sums are kept, and the
    operator is still found."""
    model = Model(site, 1)
    program = model.linked("watched-overrun")
    bare = model.bare(program)
    # Less is left than others are to have; nothing is left; there never was enough.
    for name, size, filled in (("nearly full", "300m", 60), ("full", "300m", 1000), ("small", "80m", 0)):
        disk, kept = site.scratch / f"disk{size}{filled}", site.output()
        disk.mkdir()
        variables = site.toolkit.variables() | {"FILL_DISK": str(disk / "filled"), "FILL_MB": str(filled)}
        command = [site.stage / "bin/msmemscope", f"--output={disk}/output", f"{WATCH},full-content", "--", *program]
        space = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", ON_A_SMALL_DISK, "sh", disk, size, kept]
        under = observe(list(map(str, space + command)), kept, variables)
        if under.status == 77:
            raise Unavailable("no tmpfs can be mounted, neither as root nor in a name space of the user's own")
        expect_equal(f"{name}: what the program printed", [bare], under.reports)
        if "--watch with full-content may keep 4.0 GiB of each process, and" not in under.messages:
            raise Failed(f"{name}: no warning before: {under.messages}")
        if name == "full":
            if " LOST; " not in under.messages or "the recording could not be written: No space left on device" not in under.messages:
                raise Failed(f"{name}: not said: {under.messages}")
            continue
        expect_equal(f"{name}: status", 0, under.status)
        if "the disk is nearly full: of watched blocks only check sums were kept from then on" not in under.messages:
            raise Failed(f"{name}: not said: {under.messages}")
        found = told(site, under)
        expect_equal(f"{name}: alarms", {("StartOperation", 0): [([step(FAULT)], None, None)]}, alarms(found))
    return "three disks"


def files_of_the_manual(site):
    model = Model(site, 1)
    under = model.watched(model.linked("watched-overrun"), f"{WATCH}")
    (process,) = under.processes
    lines = sums(under)
    expect_equal("lines", 2 * (2 * (STEPS + 2) + 1), len(lines))
    expect_equal("the first line", "0/7_StartOperation_1-StartOperation_0_after.bin", lines[0][0])
    by_name = dict(lines)
    before, after = (by_name[f"{step(FAULT)}_1-StartOperation_0_{phase}.bin"] for phase in ("before", "after"))
    if before == after or len(after) != 16:
        raise Failed(f"checksums before and after the fault: {before}, {after}")
    under = model.watched(model.linked("watched-overrun"), "--watch=StartOperation:0,EndOperation,full-content")
    files = dump_files(under)
    expect_equal("files", 2 * (STEPS + 2) + 1, len(files))
    expect_equal("sizes", {TENSOR_BYTES}, {file.stat().st_size for file in files})
    # One for each content: at the start, by its owner, by the fault.
    expect_equal("different files", 3, len({file.stat().st_ino for file in files}))
    (process,) = under.processes
    name = f"1_{process.number}_{step(FAULT).replace('/', '.')}_1-StartOperation_0_after.bin"
    kept = {file.name: file for file in files}[name].read_bytes()
    checksum = next(checksum for info, checksum in lines if info.endswith(f"{step(FAULT)}_1-StartOperation_0_after.bin"))
    expect_equal("the checksum of the file", checksum, f"{manual_checksum(kept):016x}")
    return f"{len(files)} files"


def manual_checksum(content):
    """As the existing tool computes it, bit by bit."""
    state = 2**64 - 1
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x42F0E1EBA9EA3693 if state & 1 else 0)
    return state ^ 2**64 - 1


def odd_wishes(site):
    """Each is told, and the program goes on unharmed."""
    model = Model(site, 1)
    bare = model.bare(model.linked("watched"))
    for watch, said in (("StartOperation:7,EndOperation", "StartOperation has no output of the number that was asked for"),
                        ("StartOperation,Never", "the end operator Never did not come"),
                        ("Nobody,EndOperation", "no operator Nobody ended"),
                        ("token0/layer0/module0/op0,token0/layer0/module0/op1,full-content", "no operator token0/layer0/module0/op0 ended")):
        under = model.watched(model.linked("watched"), f"--watch={watch}")
        expect_equal("what the program printed", [bare], under.reports)
        if said not in under.messages:
            raise Failed(f"--watch={watch} does not say {said!r}: {under.messages}")
    under = model.watched(model.linked("watched-overrun"), f"{WATCH},full-content", f"--watch-max-bytes={2 * TENSOR_BYTES}")
    if "kept up to --watch-max-bytes (48 B)" not in under.messages or step(FAULT) not in under.messages:
        raise Failed(f"the limit is not told, or ends the watch: {under.messages}")
    for watch in ("StartOperation", "StartOperation,", ",", "a:b,c", "a,b,c", "a:,b"):
        words = [site.stage / "bin/msmemscope", f"--watch={watch}", "true"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=site.scratch)
        expect_equal(f"status of --watch={watch}", 2, done.returncode)
        if "--watch" not in done.stderr or len(done.stderr.splitlines()) > 2:
            raise Failed(f"--watch={watch} is refused with: {done.stderr}")
    return "10 of them"


def torch_on_npu(site):
    """Operators of torch_npu, watched from Python: by tensor, by address; at the level of operators and of kernels. The kernels that overwrite
    go to a stream of their own."""
    for level in ("op", "kernel"):
        for deferred in ("0", "1"):
            for fault in (0, 71):
                under = train(site, (fault,), f"--level={level}", "--watch=,nothing,full-content", SIM_DEFERRED=deferred)
                found = told(site, under)
                names = {block: [change[0] for change in changes] for block, changes in alarms(found).items()}
                expect_equal("whether changes may be late, legal and doubtful ones", (False, 1, 0), of_block(found, "weight"))
                if not fault:
                    expect_equal(f"alarms at level {level} without a fault", {}, names)
                    continue
                expect_equal(f"blocks with alarms at level {level}", {("weight", 0)}, set(names))
                (named,) = names["weight", 0]
                expect_equal(f"who is named at level {level}", ["steps::faulty" if level == "op" else "FaultyKernel"], named)
    return "operator and kernel 71 of 200"


def train(site, words, *options, **variables):
    """`watched_training.py` under the command; launches wait for their end unless told otherwise."""
    variables = site.toolkit.variables() | {"ASCEND_LAUNCH_BLOCKING": "1"} | variables
    variables["PYTHONPATH"] = f"{site.package()}:{variables.get('PYTHONPATH', '')}"
    under = record(site.stage, site.output(), [torch_npu(*CURRENT), WORKLOAD, *words], variables,
                   options=("--call-stack=python", *options))
    expect_equal("exit status", (0, ""), (under.status, under.messages[-2000:] if under.status else ""))
    return under


def of_block(found, name):
    """Whether changes may have been seen late, how many were legal, how many doubtful."""
    (block,) = [block for block in found["blocks"] if block["name"] == name]
    return block["late"], block["legal_changes"], block["doubtful_changes"]


def torch_on_npu_by_command(site):
    """What an operator of torch_npu puts out, until another one; nothing of it in the program."""
    for level in ("op", "kernel"):
        for content in ("", ",full-content"):
            for fault in (0, 71):
                under = train(site, (fault, "command"), f"--level={level}", f"--watch=aten::add.Tensor:0,aten::mul{content}")
                found = told(site, under)
                expect_equal("problems", [], found["problems"])
                (block,) = found["blocks"]
                expect_equal("block", ("aten::add.Tensor", 64 * 64 * 4, 0, "end_operator"),
                             (block["name"], block["bytes"], block["output"], block["ended"]))
                expect_equal(f"{level}: alarms, legal and doubtful changes", (bool(fault), 1, 0),
                             (block["alarms"], block["legal_changes"], block["doubtful_changes"]))
                for change in block["changes"]:
                    (named,) = change["during"]
                    expect_equal(f"who is named at level {level}", ("steps::faulty" if level == "op" else "FaultyKernel", level),
                                 (named["name"], named["level"]))
                    if "watched_training.py" not in " ".join(named["stack"]):
                        raise Failed(f"no stack of its caller: {named['stack']}")
                    expect_equal("bytes", (4096, 8191) if content else (None, None), (change["first_byte"], change["last_byte"]))
    return "operator and kernel 71 of 200"


def late_kernels(site):
    """Kernels that run three operators after the one that launched them: an owner's is no alarm, a fault is one, and both are told with the operators
    that may have made them."""
    fault = 71
    under = train(site, (fault, "late"), "--watch=,nothing", ASCEND_LAUNCH_BLOCKING="0", SIM_DEFERRED="1")
    found = told(site, under)
    block = found["blocks"][0]
    (change,) = block["changes"]
    expect_equal("where the fault is seen", (False, []), (change["exact"], change["during"]))
    # The range begins with the last owner that was seen, or with the first operator of all.
    if not fault + 3 - 50 <= change["operators_since"] <= fault + 3 + 3:
        raise Failed(f"the range is {change['operators_since']} operators from {change['since']}")
    owner = [doubt["owner"]["name"] for doubt in block["doubts"] if doubt["owner"]["name"] != "aten::add_.Tensor"]
    expect_equal("owners that may have been late", ["steps::own"], owner)
    expect_equal("changes by owners, late or not", 2, block["legal_changes"] + block["doubtful_changes"])
    for said in ("launches were asynchronous: an earlier operator may have done it, from ", "ASCEND_LAUNCH_BLOCKING=1 narrows it to one",
                 "launches were asynchronous: it may be the change of steps::own (call 1, thread ", "ASCEND_LAUNCH_BLOCKING=1 tells"):
        if said not in under.messages:
            raise Failed(f"the report does not say {said!r}: {under.messages}")
    # Where launches wait for their end nobody can be late.
    block = told(site, train(site, (fault, "late"), "--watch=,nothing", SIM_DEFERRED="1"))["blocks"][0]
    expect_equal("with blocking launches: alarms, doubts", (2, 0, True),
                 (block["alarms"], block["doubtful_changes"], all(change["exact"] for change in block["changes"])))
    return "a fault and an owner"


def endings(site):
    """A watch ends with its block, on the host and on a device; blocks of one name stay two."""
    python = torch_npu(*CURRENT)
    for device, module in (("npu:0", "npu"), ("cpu", "cpu")):
        variables = site.toolkit.variables() | {"ASCEND_LAUNCH_BLOCKING": "1"} if module == "npu" else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        variables["PYTHONPATH"] = f"{site.package()}:{variables.get('PYTHONPATH', '')}"
        under = record(site.stage, site.output(), [python, ENDINGS_WORKLOAD, device], variables, module,
                       ["--watch=,nothing,full-content", "--events=alloc,free,launch"])
        expect_equal("exit status", (0, ""), (under.status, under.messages[-2000:] if under.status else ""))
        (report,) = under.reports
        if not report["unmapped"].startswith("ValueError: 8 bytes at 0x10 cannot be read"):
            raise Failed(f"{device}: an address that is not mapped: {report['unmapped']}")
        found = told(site, under)
        if module == "npu":
            expect_equal("the capture", (0, 0), (report["capture"]["began"], report["capture"]["ended"]))
            expect_equal("looks that were left out", 2, found["not_looked"])
            if not report["capture"]["refused"].startswith("MemScopeError: a graph is being captured"):
                raise Failed(f"a block during a capture: {report['capture']['refused']}")
        expect_equal(f"{device}: alarms", {}, alarms(found))
        ended = [(block["name"], block["ended"]) for block in found["blocks"]]
        # Of a tensor the memory is not resized, but another is taken.
        expected = [("same", "removed"), ("same", "removed"), ("freed", "freed"), ("resized", "freed"), ("grown", "resized")]
        expect_equal(f"{device}: how watches ended", expected[:len(ended)], ended)
        expect_equal(f"{device}: blocks", 5 if device == "cpu" else 4, len(ended))
        for word in ("freed", "resized") if device == "cpu" else ("freed",):
            if f"; its watch ended when it was {word}" not in told_in_full(site, under):
                raise Failed(f"{device}: the report does not say that a block was {word}")
        expect_equal(f"{device}: changes by owners", [0, 1], [block["legal_changes"] for block in found["blocks"][:2]])
        names = [file.name for file in dump_files(under)]
        expect_equal(f"{device}: a file for each look", sum(block["looks"] for block in found["blocks"]), len(names))
        if not any("-same~2_0_before.bin" in name for name in names):
            raise Failed(f"{device}: {names}")
    return "freed, resized, removed"


def told_in_full(site, under):
    words = [site.stage / "bin/msmemscope", "analyze", under.output, "watch"]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def examples_of_the_manual(site):
    """Both methods, under both names of the package: two looks each, and the program goes on."""
    python = torch_npu(*CURRENT)
    variables = site.toolkit.variables() | {"ASCEND_LAUNCH_BLOCKING": "1"}
    variables["PYTHONPATH"] = f"{site.package()}:{variables.get('PYTHONPATH', '')}"
    for package in ("msmemscope", "msleaks"):
        for block, length in (("test_tensor", ""), ("test_tensor.data_ptr()", ", length=1000")):
            script = MANUAL_EXAMPLE.format(package=package, block=block, length=length)
            under = record(site.stage, site.output(), [python, "-c", script], variables, options=("--watch=op0,op1",))
            expect_equal("exit status", (0, ""), (under.status, under.messages[-2000:] if under.status else ""))
            (watched,) = told(site, under)["blocks"]
            expect_equal("looks, and why they ended", ("test", 2, "dump_nums"), (watched["name"], watched["looks"], watched["ended"]))
            expect_equal("lines of checksums", ["before", "after"], [info.rpartition("_")[2][:-4] for info, _ in sums(under)])
    return "four of them"


MANUAL_EXAMPLE = """
import torch
import torch_npu
import {package}

torch.npu.synchronize()
test_tensor = torch.randn(2,3).to('npu:0')
{package}.watcher.watch({block}{length}, name="test", dump_nums=2)
for _ in range(3):
    other = torch.ones(8).to('npu:0')
torch.npu.synchronize()
{package}.watcher.remove({block}{length})
"""


def torch_on_cpu(site):
    """Operators of torch on the CPU: by the command line, by calls under the command, and by a script that records itself."""
    python = torch_npu(*CURRENT)
    variables = {"PYTHONPATH": str(site.package()), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    for content in ("", ",full-content"):
        ways = {
            "command": [f"--watch=steps::make:0,steps::finish{content}", "--events=launch"],
            "python": [f"--watch=,nothing{content}", "--events=launch"],
        }
        for who, options in ways.items():
            for fault in (0, FAULT):
                under = record(site.stage, site.output(), [python, STEPS_WORKLOAD, str(fault), who], variables, "cpu", options)
                expect_equal("exit status", (0, ""), (under.status, under.messages[-2000:] if under.status else ""))
                check_torch_steps(told(site, under), who, fault, bool(content))
        for fault in (0, FAULT):
            output = site.output()
            words = [python, STEPS_WORKLOAD, fault, "own", output, *(["full"] if content else [])]
            environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PYTHONPATH")}
            done = subprocess.run(list(map(str, words)), env=environment | variables, capture_output=True, text=True)
            expect_equal("exit status", (0, ""), (done.returncode, done.stderr[-2000:] if done.returncode else ""))
            (process,) = [process for process in analyze(site.stage, [output], "watch") if "watch" in process]
            check_torch_steps(process["watch"], "own", fault, bool(content))
    return f"operator {FAULT} of {STEPS}, six ways"


def check_torch_steps(found, who, fault, full_content):
    expect_equal(f"{who}: problems", [], found["problems"])
    kept = next(block for block in found["blocks"] if block["bytes"] == 4 * 4096)
    expect_equal(f"{who}: changes by owners", 2, kept["legal_changes"])
    expected = ("steps::make", 0) if who == "command" else ("kept", 0)
    bytes_changed = (4096, 8191) if full_content else (None, None)
    alarmed = {expected: [(["steps::scale"], *bytes_changed)]} if fault else {}
    expect_equal(f"{who}, fault {fault}: alarms", alarmed, alarms(found))
    if fault:
        (change,) = kept["changes"]
        expect_equal(f"{who}: the call", (FAULT, True), (change["during"][0]["call"], change["exact"]))
    if who != "command":
        looks = [block["looks"] for block in found["blocks"]]
        expect_equal(f"{who}: looks at the block with dump_nums=2", 2, looks[1])
        if min(looks[0], looks[2]) < 2 * 2 * STEPS:
            raise Failed(f"{who}: the others were looked at {looks} times")


def many_blocks(site):
    """Sixty-four blocks over ten thousand operators."""
    python = torch_npu(*CURRENT)
    variables = {"PYTHONPATH": str(site.package()), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    program = [python, "-c", MANY_BLOCKS]
    under = record(site.stage, site.output(), program, variables, "cpu", ["--watch=,nothing", "--events=launch"])
    expect_equal("exit status", (0, ""), (under.status, under.messages[-2000:] if under.status else ""))
    found = told(site, under)
    expect_equal("blocks", 64, len(found["blocks"]))
    expect_equal("looks", {20_000}, {block["looks"] for block in found["blocks"]})
    expect_equal("alarms", [(f"b{number}", []) for number in range(64) if number != 31] + [("b31", [7777])],
                 sorted(((block["name"], [change["during"][0]["call"] for change in block["changes"]]) for block in found["blocks"]),
                        key=lambda told: (len(told[1]), int(told[0][1:]))))
    return "64 blocks, 10,000 operators"


MANY_BLOCKS = """
import ctypes, torch, msmemscope
blocks = [torch.zeros(256) for _ in range(64)]
@torch.library.custom_op("steps::one", mutates_args=())
def one(x: torch.Tensor, number: int) -> torch.Tensor:
    if number == 7777:
        ctypes.memset(blocks[31].data_ptr(), 1, 1)
    return x.clone()
x = torch.ones(4)
for number, block in enumerate(blocks):
    msmemscope.watcher.watch(block, name=f"b{number}")
for number in range(1, 10_001):
    torch.ops.steps.one(x, number)
for block in blocks:
    msmemscope.watcher.remove(block)
"""


CASES = [
    Case("watched: the operator of ATB that overruns", operator_of_atb),
    Case("watched: the kernel of ATB that overruns", kernel_of_atb),
    Case("watched: a write between operators", between_operators),
    Case("watched: operators and kernels of ATB on their own streams", streams_of_atb),
    Case("watched: a captured graph", captured_graph),
    Case("watched: inputs of ATB", inputs_of_atb),
    Case("watched: a disk that fills up", full_disk),
    Case("watched: files as in the manual", files_of_the_manual),
    Case("watched: wishes that cannot be granted", odd_wishes),
    Case("watched: examples of the manual", examples_of_the_manual),
    Case("watched: operators of torch on the CPU", torch_on_cpu),
    Case("watched: operators and kernels of torch_npu", torch_on_npu),
    Case("watched: by the command, operators of torch_npu", torch_on_npu_by_command),
    Case("watched: kernels that run late", late_kernels),
    Case("watched: blocks that go", endings),
    Case("watched: many blocks, many operators", many_blocks),
]
