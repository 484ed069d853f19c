"""What the manual shows of the Python interface, by a training on the CPU and on the simulated NPU: each piece has its effect
in the files."""

import csv
from collections import namedtuple

from attached_cases import TorchNpu, variables_of
from environments import REPOSITORY
from recording import Failed, expect_equal, observe

PROGRAM = REPOSITORY / "tests/frameworks/workloads/manual_blocks.py"


def spans(report, rows, _):
    """start(), stop() and step(): two spans, ten steps of the second."""
    kinds = [row.type for row in rows if row.event == "SYSTEM"]
    expect_equal("spans and steps", (2, 2, 10), tuple(kinds.count(kind) for kind in ("START_TRACE", "STOP_TRACE", "STEP")))
    if not any(row.event == "MALLOC" and is_at(row, report["span"]) for row in rows):
        raise Failed("the first span's tensor is missing")


def labels(report, rows, _):
    """describe.describer, in each way."""
    for name in ("test1", "test2", "test3", "test4"):
        owners = {row.attributes.get("owner", "") for row in rows if row.event == "MALLOC" and is_at(row, report[name])}
        if not any(f"@{name}" in owner for owner in owners):
            raise Failed(f"the block labelled {name} has owners {sorted(owners)}")
    strangers = [row.attributes["owner"] for row in rows
                 if is_at(row, report["leaked"]) and "@test" in row.attributes.get("owner", "")]
    expect_equal("labels of what was allocated after all labels", [], strangers)


def snapshots(_, rows, __):
    """take_snapshot and TakeSnapshot."""
    names = [row.name for row in rows if row.event == "SNAPSHOT"]
    of_all = ("test_all", "test_around Start", "test_around End")
    of_device_0 = ("Memory Snapshot", "test_list", "test_tuple")
    has_npu = any(row.type == "HAL" for row in rows)
    for name, count in [(name, 1) for name in of_all] + [(name, int(has_npu)) for name in of_device_0]:
        expect_equal(f"snapshots {name!r}", count, names.count(name))


def trace(_, __, directory):
    """tracer.start() to tracer.stop(), and RecordFunction within."""
    files = list(directory.glob("**/python_trace_*.csv"))
    if not files:
        raise Failed(f"no trace of Python calls in {directory}")
    text = "".join(file.read_text() for file in files)
    for name in ("forward_pass", "decorated_pass", "train"):
        if name not in text:
            raise Failed(f"{name} is not in the trace")
    with open(files[0], newline="") as file:
        if not list(csv.DictReader(file)):
            raise Failed(f"{files[0]} has no row")


def marks(report, rows, _):
    """check_leaks and analyze between three marks; the analyzers and what they take."""
    expect_equal("marks", 3, sum(row.event == "MSTX" and row.name == "test" for row in rows))
    if not {"leaks", "inefficient"} <= set(report["analyzers"]):
        raise Failed(f"list_analyzers() gives {report['analyzers']}")
    if not {"input_path", "mstx_info", "start_index"} <= set(report["parameters"]):
        raise Failed(f"get_analyzer_config('leaks') takes {report['parameters']}")


def watched(_, __, directory):
    """watcher.watch() and watcher.remove()."""
    if not [*directory.parent.glob("**/watch_dump*/*"), *directory.glob("**/*watch*")]:
        raise Failed(f"no file of what was watched below {directory.parent}")


def is_at(row, address):
    return row.address not in ("", "N/A") and int(row.address, 0) == address


PIECES = (spans, labels, snapshots, trace, marks, watched)


class BlocksCase(namedtuple("BlocksCase", "name device")):
    def run(self, site):
        python, output = TorchNpu.python(), site.output()
        variables = variables_of(site, TorchNpu, python) | {"ASCEND_LAUNCH_BLOCKING": "1"}
        if self.device == "cpu":
            variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        run = observe([python, PROGRAM, self.device, output], output, variables, status=0)
        (report,), (process,) = run.reports, run.processes
        (directory,) = output.glob("msmemscope_*_ascend")
        rows = process.rows("cpu" if self.device == "cpu" else 0)
        for piece in PIECES:
            try:
                piece(report, rows, directory)
            except Failed as why:
                raise Failed(f"{piece.__doc__} {why}") from None
        return f"{len(PIECES)} pieces, {len(rows)} rows"


CASES = [
    BlocksCase("manual's pieces of Python, CPU", "cpu"),
    BlocksCase("manual's pieces of Python, torch_npu", "npu:0"),
]
