"""MindSpore: its pool's own statistics against the export."""

from collections import Counter, namedtuple

from environments import REPOSITORY, mindspore
from recording import Failed, Row, analyze, expect_equal, record

GRAPH = {"WORKLOAD_MODE": "graph"}
KERNELS = ("--level=kernel",)


def export(site, toolkit, python, case):
    program = [python, REPOSITORY / "sim/tests" / case.script, *case.arguments]
    run = record(site.stage, site.output(), program, toolkit.variables() | case.variables, options=case.options)
    expect_equal("exit status", (0, ""), (run.status, run.messages[-1500:] if run.status else ""))
    (report,) = run.reports
    (process,) = [process for process in run.processes if "0" in process.files]
    return report, process


class Case(namedtuple("Case", "name version script variables repeated arguments options",
                      defaults=({}, False, (), ()))):
    def run(self, site):
        python = mindspore(self.version)
        toolkit = site.toolkit.completed_for("mindspore", python, site.scratch / "toolkit")
        report, process = export(site, toolkit, python, self)
        device = report["device"]
        pool, driver = process.pool(device, "MINDSPORE"), process.pool(device, "HAL")
        expect_equal("peak", report["peak_allocated"], pool.peak)
        expect_equal("the largest `used`", report["peak_allocated"], max(pool.uses, default=None))
        expect_equal("peak of the driver", report["peak_reserved"], driver.peak)
        kernels = Counter(row.type for row in process.rows(device) if row.event == "KERNEL_LAUNCH" and row.name != "N/A")
        if self.options == KERNELS and (len(kernels) != 3 or len(set(kernels.values())) != 1):
            raise Failed(f"rows of named kernels: {dict(kernels)}")
        if self.repeated:
            _, again = export(site, toolkit, python, self)
            expect_equal("events that differ between two runs", [], differences(process, again, device))
        return (f"{pool.allocations} allocations, {pool.frees} frees, peak {pool.peak}, driver {driver.allocations} blocks,"
                f" peak {driver.peak}{', twice the same events' if self.repeated else ''}"
                f"{', kernels: ' + str(kernels['KERNEL_LAUNCH']) if kernels else ''}")


def differences(first, second, device):
    one, other = (comparable(process.rows(device)) for process in (first, second))
    differing = [pair for pair in zip(one, other) if pair[0] != pair[1]][:3]
    return differing or ([] if len(one) == len(other) else [f"{len(one)} and {len(other)} events"])


def comparable(rows):
    """What two runs of a deterministic program have in common: not the process, nor the time, nor the driver's handles,
    which are host addresses here; those become ordinals."""
    handles, events = {}, []
    for row in filter(Row.is_memory, rows):
        if row.attributes.get("alloc_type") == "create":
            handles[row.address] = f"handle {len(events)}"
        address = handles.get(row.address, row.address)
        attributes = {key: value for key, value in row.attributes.items() if key != "addr"}
        events.append((row.event, row.type, row.cells["Device Id"], address, attributes))
    # What is left when the interpreter ends goes in the order of its own tables, which are by address.
    training = 1 + max(at for at, (event, *_) in enumerate(events) if event == "MALLOC")
    ending = sorted((*event, address, attributes["allocation_id"]) for *event, address, attributes in events[training:])
    return events[:training] + ending


class OutOfMemoryCase(namedtuple("OutOfMemoryCase", "name version")):
    """The driver refuses what MindSpore's pool asks for, piece after piece: one report, with the line that fills the device."""

    def run(self, site):
        python = mindspore(self.version)
        toolkit = site.toolkit.completed_for("mindspore", python, site.scratch / "toolkit")
        program = [python, REPOSITORY / "tests/frameworks/workloads/mindspore_out_of_memory.py"]
        run = record(site.stage, site.output(), program, toolkit.variables() | {"SIM_HBM_BYTES": "256M"},
                     options=("--call-stack=python,c", "--analysis=oom:5"))
        expect_equal(f"exit status ({run.messages[-500:]})", 0, run.status)
        (report,) = run.reports
        if "Allocate memory failed" not in report["error"]:
            raise Failed(f"MindSpore did not run out of memory: {report}")
        (process,) = [process for process in run.processes if "0" in process.files]
        told = [self.check(site, paths, report) for paths in ([run.output], process.files.values())]
        expect_equal("out of memory by the files", told[0], told[1])
        names = [row.name for row in process.rows(0) if row.event == "SNAPSHOT"]
        if names[:1] != ["OOM_Snapshot"] or names[-1] != "OOM_Snapshot_After":
            raise Failed(f"snapshots: {names}")
        return f"{told[0]}"

    @staticmethod
    def check(site, paths, report):
        (process,) = [process for process in analyze(site.stage, paths, "oom:5") if process["oom"]["count"]]
        (oom,) = process["oom"]["ooms"]
        pools = {pool["pool"]: pool for pool in oom["pools"]}
        lines = [[frame for frame in frames if "mindspore_out_of_memory.py" in frame][0].split(": ")[-1]
                 for frames in (oom["site"]["frames"], pools["MINDSPORE"]["sites"][0]["frames"])]
        expect_equal("where memory ran out, and who held it", ["fill", "fill"], lines)
        # The operator that was refused has its input there already, or not.
        if not report["blocks"] <= pools["MINDSPORE"]["blocks"] <= report["blocks"] + 2:
            raise Failed(f"{report['blocks']} tensors were kept, {pools['MINDSPORE']['blocks']} blocks were alive")
        return oom["device"], oom["call"], oom["bytes"], oom["tries"], pools["MINDSPORE"]["used"]


CASES = [
    OutOfMemoryCase("MindSpore 2.7.1 out of memory", "2.7.1"),
    Case("MindSpore 2.7.1 perceptron", "2.7.1", "mindspore_mlp.py", repeated=True),
    Case("MindSpore 2.7.1 perceptron, its kernels", "2.7.1", "mindspore_mlp.py", options=KERNELS),
    Case("MindSpore 2.7.1 perceptron as a graph", "2.7.1", "mindspore_mlp.py", GRAPH),
    Case("MindSpore 2.7.1 transformer", "2.7.1", "mindspore_transformer.py", repeated=True),
    Case("MindSpore 2.7.1 transformer as a graph", "2.7.1", "mindspore_transformer.py", GRAPH),
    Case("MindSpore 2.10.0 perceptron", "2.10.0", "mindspore_mlp.py"),
]
