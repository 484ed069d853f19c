"""Operators of torch and the tensors they are given, against what Python knows of them.

Other versions of torch than the one of the other cases are tried by hand: MSMEMSCOPE_TORCH has the interpreters of environments
with torch, separated by colons.
"""

import json
import os
import pathlib
import subprocess
from collections import Counter, namedtuple

from environments import REPOSITORY, command, torch_npu
from recording import Failed, expect_equal, observe, record
from torch_cases import CURRENT

PROGRAM = REPOSITORY / "tests/frameworks/workloads/torch_operators.py"
COUNTER = REPOSITORY / "tests/frameworks/programs/count_alloc_cpu.c"
OPTIONS = ("--level=op", "--events=launch,access")
# torch would load torch_npu by itself, which needs CANN.
WITHOUT_DEVICES = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

Access = namedtuple("Access", "name mode address size dtype shape")


def accessed(row):
    cells = row.cells["Attr"].strip("{}")
    shape = cells[cells.index("shape:") + len("shape:"):]
    return Access(row.name, row.type, int(row.address, 16), row.number("size"), row.attributes["dtype"], shape)


def expected(access):
    return Access(access["name"], access["mode"], access["address"], access["size"], access["dtype"], access["shape"])


def split(rows, first, number):
    """The rows of each case: between two that write a tensor of a length that only stands for this."""
    separators = {f"torch.Size([{first + place}])": place for place in range(2 * number)}
    by_place, current = {}, []
    for row in rows:
        if row.event == "ACCESS" and row.type == "WRITE" and row.name == "aten::zeros":
            place = separators.get(accessed(row).shape)
            if place is not None:
                by_place[place], current = current, []
        # The separators' own beginnings and ends lie within.
        elif row.name != "aten::zeros":
            current.append(row)
    expect_equal("separators", list(range(2 * number)), sorted(by_place))
    return [by_place[2 * case + 1] for case in range(number)]


def check_case(case, rows):
    title = case["title"]
    accesses = [accessed(row) for row in rows if row.event == "ACCESS"]
    starts = [row.name for row in rows if row.type == "ATEN_START"]
    ends = [row.name for row in rows if row.type == "ATEN_END"]
    expect_equal(f"{title}: operators that end", Counter(starts), Counter(ends))
    if case["accesses"] is not None:
        wanted = [expected(access)._replace(name=None) for access in case["accesses"]]
        expect_equal(f"{title}: accesses", wanted, [access._replace(name=None) for access in accesses])
    if case["launches"] is not None:
        expect_equal(f"{title}: launches", case["launches"], starts)
    for wanted in map(expected, case["contains"]):
        if not any(wanted in (access, access._replace(name=None)) for access in accesses):
            raise Failed(f"{title}: no {wanted} in {accesses}")
    for name in case["absent"]:
        expect_equal(f"{title}: launches of {name}", 0, starts.count(name))
    for name, number in case["counts"].items():
        expect_equal(f"{title}: launches of {name}", number, starts.count(name))
    return len(accesses)


def check(report, rows):
    cases = report["cases"]
    # It would be told of each call, also of those made within others, and torch has to prepare for that.
    expect_equal("an observer is registered with torch", False, report["observed"])
    by_case = split(rows, report["first"], len(cases))
    total = sum(check_case(case, of_case) for case, of_case in zip(cases, by_case))
    return f"torch {report['torch']}: {len(cases)} cases, {total} accesses"


class HostCase(namedtuple("HostCase", "name python arguments")):
    def run(self, site):
        python = self.python()
        library = site.scratch / "count_alloc_cpu.so"
        command("cc", "-O1", "-fexceptions", "-shared", "-fPIC", "-o", library, COUNTER, "-ldl")
        variables = WITHOUT_DEVICES | {"LD_PRELOAD": str(library)}
        program = [python, PROGRAM, "cpu", *self.arguments]
        run = record(site.stage, site.output(), program, variables, "cpu", OPTIONS)
        expect_equal(f"exit status ({run.messages[-1500:]})", 0, run.status)
        (report,) = run.reports
        process = {process.number: process for process in run.processes}
        agreed = check(report, process[report["pid"]].rows("cpu"))
        of_child = [row.name for row in process[report["child"]].rows("cpu") if row.type == "ATEN_START"]
        if "aten::mul_.Tensor" not in of_child:
            raise Failed(f"operators of the forked child: {of_child}")
        bare = subprocess.run(list(map(str, program)), env=os.environ | variables, capture_output=True, text=True)
        (line,) = [line for line in bare.stdout.splitlines() if line.startswith('{"first"')]
        allocations = json.loads(line)["allocations"]
        expect_equal("allocations of tensors in a step, bare and recorded", allocations, report["allocations"])
        return f"{agreed}; {allocations} allocations of tensors in a step, as bare"


class DeviceCase(namedtuple("DeviceCase", "name versions")):
    def run(self, site):
        python = torch_npu(*self.versions)
        run = record(site.stage, site.output(), [python, PROGRAM, "npu"], site.toolkit.variables(), "npu", OPTIONS)
        expect_equal(f"exit status ({run.messages[-1500:]})", 0, run.status)
        (report,) = run.reports
        (process,) = [process for process in run.processes if process.number == report["pid"]]
        rows = process.rows(0)
        without_block = [row.name for row in rows if row.event == "ACCESS" and "allocation_id" not in row.attributes]
        expect_equal("accesses to no block of the pool", [], without_block)
        return check(report, rows)


class AttachedCase(namedtuple("AttachedCase", "name device versions")):
    """A program that records itself, from a moment on at which it has used torch already."""

    def run(self, site):
        python = torch_npu(*self.versions)
        package = str(site.package())
        if self.device == "npu":
            variables = site.toolkit.variables()
            variables["PYTHONPATH"] += f":{package}"
        else:
            variables = WITHOUT_DEVICES | {"PYTHONPATH": package}
        output = site.output()
        words = [python, PROGRAM, self.device, "attached", output]
        run = observe(list(map(str, words)), output, variables, status=0)
        (report,) = run.reports
        (process,) = [process for process in run.processes if process.number == report["pid"]]
        return check(report, process.rows(0 if self.device == "npu" else "cpu"))


class NamedPython:
    """An interpreter that was named by hand."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def __call__(self):
        return self.path


def current():
    return torch_npu(*CURRENT)


BY_HAND = [HostCase(f"operators of torch on the host, {path}", NamedPython(path), ("full",))
           for path in filter(None, os.environ.get("MSMEMSCOPE_TORCH", "").split(":"))]
CASES = [
    HostCase("operators of torch on the host", current, ("full",)),
    DeviceCase("operators of torch_npu", CURRENT),
    AttachedCase("operators of torch on the host, after start()", "cpu", CURRENT),
    AttachedCase("operators of torch_npu, after start()", "npu", CURRENT),
    *BY_HAND,
]
