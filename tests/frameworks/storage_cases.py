"""Tensors of torch on the CPU: their storages are the live blocks of PTA, and memory that runs out is told as torch sees it."""

import csv
from collections import namedtuple

from environments import REPOSITORY, torch_npu
from recording import Failed, Pool, Row, analyze, expect_equal, record
from torch_cases import CURRENT

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"
# torch would load torch_npu by itself, which needs CANN.
VARIABLES = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "2"}


def run(site, script, way, options):
    program = [torch_npu(*CURRENT), WORKLOADS / script, way]
    return record(site.stage, site.output(), program, VARIABLES, "cpu", options)


def pool(process, event_type, addresses=None):
    """The memory of one kind: of a program's millions of rows only those are looked at."""
    with open(process.files["cpu"], newline="") as text:
        heading = next(text)
        lines = [line for line in text if f",{event_type}," in line and line.split(",", 2)[1] in ("MALLOC", "FREE")]
    rows = [Row(cells) for cells in csv.DictReader([heading, *lines]) if addresses is None or cells["Ptr"] in addresses]
    return Pool(rows)


class StorageCase(namedtuple("StorageCase", "name way")):
    """What a walk over all tensors finds is what is alive, to the byte; and in workers of a DataLoader nothing is left."""

    def run(self, site):
        recorded = run(site, "storages.py", self.way, ())
        expect_equal(f"exit status ({recorded.messages[-500:]})", 0, recorded.status)
        (report,) = recorded.reports
        (main,) = [process for process in recorded.processes if process.number == report["process"]]
        expected = {address: size for address, size in report["storages"].items() if address not in report["foreign"]}
        expect_equal("storages", expected, pool(main, "PTA").live)
        # The host's numbers are those without storages: each lies in a block of its own.
        expect_equal("blocks of the heap beneath them", expected, pool(main, "HOST", expected).live)
        workers = [process for process in recorded.processes if process is not main and "cpu" in process.files]
        with_tensors = [tensors for tensors in (pool(process, "PTA") for process in workers) if tensors.allocations]
        expect_equal("workers with tensors", 2 if self.way in ("fork", "spawn") else 0, len(with_tensors))
        expect_equal("what is left in workers", [{} for _ in with_tensors], [tensors.live for tensors in with_tensors])
        return f"{len(expected)} storages of {sum(expected.values())} bytes alive"


class OutOfMemoryCase(namedtuple("OutOfMemoryCase", "name way status")):
    """Each call that torch or Python reports as out of memory is one report, also if the process then dies."""

    def run(self, site):
        recorded = run(site, "cpu_out_of_memory.py", self.way, ("--call-stack=python,c", "--analysis=oom:5"))
        expect_equal("exit status", self.status, recorded.status)
        (report,) = recorded.reports
        expect_equal("what was raised", ["RuntimeError"] * 3 + ["MemoryError"], report["refused"])
        of_spool = self.check(site, [recorded.output], report)
        (process,) = [process for process in recorded.processes if "cpu" in process.files]
        of_files = self.check(site, process.files.values(), report)
        expect_equal("out of memory by the files", of_spool["ooms"], of_files["ooms"])
        expect_equal("the program dealt with it", self.way == "handled", of_spool["handled"])
        return f"{len(of_spool['ooms'])} reports"

    def check(self, site, paths, report):
        (process,) = [process for process in analyze(site.stage, paths, "oom:5") if process["oom"]["count"]]
        found = []
        for oom in process["oom"]["ooms"]:
            pools = {pool["pool"]: pool for pool in oom["pools"]}
            if oom["bytes"] < 16 << 20:
                # An arena of Python's, in between.
                continue
            expect_equal("storages alive", report["blocks"], pools["PTA"]["blocks"])
            holder = pools["PTA"]["sites"][0]["frames"][0]
            line = [frame for frame in oom["site"]["frames"] if "cpu_out_of_memory.py" in frame][0]
            if not any("torch::" in frame or "c10::" in frame or "at::" in frame for frame in oom["stack"]) and oom["call"] == "PTA":
                raise Failed(f"no frame of torch's own in {oom['stack']}")
            found.append((oom["call"], oom["tries"], line.split(": ")[-1], holder.split(": ")[-1]))
        expected = [("PTA", 1, "fill", "fill"), ("PTA", 1, "ask_for_too_much", "fill"), ("PTA", 1, "ask_for_too_much", "fill")]
        last = [("PTA", 1, "ask_for_too_much", "fill")] if self.way == "raised" else []
        expect_equal("where memory ran out, and who held it", [*expected, *last],
                     [oom for oom in found if oom[0] == "PTA"])
        of_python = [oom[1:] for oom in found if oom[0] != "PTA"]
        expect_equal("what Python was refused", [(1, "ask_python", "fill")], of_python)
        return {"ooms": found, "handled": process["oom"]["handled"]}


CASES = [StorageCase(f"torch on the CPU, storages, {way}", way) for way in ("threads", "autograd", "fork", "spawn")]
CASES += [OutOfMemoryCase(f"torch on the CPU, out of memory, {way}", way, status)
          for way, status in (("handled", 0), ("raised", 1), ("aborted", -6))]
