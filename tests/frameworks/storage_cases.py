"""Tensors of torch on the CPU: their storages are the live blocks of PTA, and memory that runs out is told as torch sees it."""

import csv
from collections import namedtuple

from environments import REPOSITORY, torch_npu
from recording import Pool, Row, expect_equal, record
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


CASES = [StorageCase(f"torch on the CPU, storages, {way}", way) for way in ("threads", "autograd", "fork", "spawn")]
