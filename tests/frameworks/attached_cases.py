"""Programs that record themselves, started by plain `python`: whenever start() comes, what the export says is what the
framework says of itself, or a warning says what is missing."""

from collections import namedtuple

from environments import REPOSITORY, command, mindspore, torch_npu
from leak_cases import growing, leaks
from recording import Failed, expect_equal, observe
from torch_cases import CURRENT

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"
#: Where the framework has decided before start() whether it reports its pool.
TOO_LATE_FOR_TORCH_NPU = ("allocated",)
TOO_LATE_FOR_MINDSPORE = ("initialised", "allocated")
MOMENTS = ("before", "imported", "initialised", "allocated", "configured")


#: Of manual_example.py.
STEPS = 20


class TorchNpu:
    name, pool, too_late = "torch_npu", "PTA", TOO_LATE_FOR_TORCH_NPU

    @staticmethod
    def python():
        return torch_npu(*CURRENT)

    @staticmethod
    def toolkit(site, python):
        return site.toolkit


class MindSpore:
    name, pool, too_late = "mindspore", "MINDSPORE", TOO_LATE_FOR_MINDSPORE

    @staticmethod
    def python():
        return mindspore("2.7.1")

    @staticmethod
    def toolkit(site, python):
        return site.toolkit.completed_for("mindspore", python, site.scratch / "toolkit")


def variables_of(site, framework, python):
    variables = framework.toolkit(site, python).variables()
    return variables | {"PYTHONPATH": f"{variables['PYTHONPATH']}:{site.package()}"}


class MomentsCase(namedtuple("MomentsCase", "name framework script")):
    """start() at each of the moments."""

    def run(self, site):
        python = self.framework.python()
        variables = variables_of(site, self.framework, python)
        agreed = []
        for moment in MOMENTS:
            output = site.output()
            run = observe([python, WORKLOADS / self.script, moment, output], output, variables, status=0)
            try:
                agreed.append(f"{moment}: {self.check(run, moment)}")
            except Failed as why:
                raise Failed(f"{moment}: {why}") from None
        return "; ".join(agreed)

    def check(self, run, moment):
        (report,), (process,) = run.reports, run.processes
        warnings = run.messages.count("MemScopeWarning")
        pool, driver = process.pool(0, self.framework.pool), process.pool(0, "HAL")
        if not driver.allocations:
            raise Failed("nothing of the driver's memory")
        if moment in self.framework.too_late:
            expect_equal("blocks of the pool", 0, pool.allocations)
            expect_equal("warnings", 1, warnings)
            for needed in (f"{self.framework.name} has used an NPU before", "call msmemscope.config() or msmemscope.start()"):
                if needed not in run.messages:
                    raise Failed(f"no {needed!r} in {run.messages[:1500]}")
            return f"warned, driver {driver.allocations} blocks"
        expect_equal("warnings", 0, warnings)
        expect_equal("peak", report["peak_allocated"] - report["held"], pool.peak)
        expect_equal("the largest `total`", report["peak_reserved"], max(pool.totals, default=None))
        if "allocations" in report:
            expect_equal("allocations", report["allocations"] - report["made"], pool.allocations)
            expect_equal("blocks alive at the end", {}, pool.live)
        return f"{pool.allocations} allocations, peak {pool.peak}"


class ManualCase(namedtuple("ManualCase", "name framework program device format")):
    """4 MiB kept in each step: files, settings and the report of the leak."""

    def run(self, site):
        python = self.framework.python()
        variables = variables_of(site, self.framework, python) | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        output = site.output()
        # On the host the framework is imported before: of the others each call of the import would be in the trace.
        has_trace = self.device == "cpu"
        words = ["call_stack=c:10,python:5", f"events=launch,alloc,free{',traceback' * has_trace}", "level=0",
                 "analysis=leaks,decompose",
                 f"device={self.device}", f"data_format={self.format}"]
        run = observe([python, WORKLOADS / "manual_example.py", self.program, output, *words], output, variables, status=0)
        (directory,) = output.glob("msmemscope_*_ascend")
        name = "cpu" if self.device == "cpu" else "0"
        (file,) = (directory / f"device_{name}/dump").glob(f"memscope_dump_*.{self.format}")
        if not (directory / "config.json").stat().st_size:
            raise Failed("config.json is empty")
        if has_trace and self.format == "csv":
            traces = "\n".join(trace.read_text() for trace in directory.glob("**/python_trace_*.csv"))
            rows = [row for row in traces.splitlines() if "train" in row]
            if len(rows) < STEPS:
                raise Failed(f"{len(rows)} rows of the function of {STEPS} steps in the trace of Python calls")
        told = [line for line in run.messages.splitlines() if " leaks: " in line or " grows " in line]
        if not any("4.0 MiB a step" in line for line in told) or "manual_example.py" not in run.messages:
            raise Failed(f"no report of a leak of 4 MiB a step: {told or run.messages[-1500:]}")
        if not growing(leaks(site.stage, output)):
            raise Failed("the recording, read again, has no leak")
        # What Python frees at its end is no leak for files: they do not say when the program's own code had ended.
        expect_equal("steps in the file", STEPS, leaks(site.stage, file)["steps"]["ended"])
        return f"{file.name}, config.json, {told[0].partition('leaks: ')[2]}"


class WitnessCase(namedtuple("WitnessCase", "name")):
    """Host memory, against an allocator below that counts which calls the recorder saw."""

    def run(self, site):
        python = torch_npu(*CURRENT)
        witness = site.scratch / "witness.so"
        source = REPOSITORY / "python/tests/programs/witness.c"
        command("cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", witness, source, "-ldl")
        variables = {"PYTHONPATH": str(site.package()), "LD_PRELOAD": str(witness), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        agreed = []
        for moment, least in (("before", 1_000_000), ("imported", 5_000)):
            output = site.output()
            run = observe([python, WORKLOADS / "attached_imports.py", moment, output], output, variables, status=0)
            (report,) = run.reports
            expect_equal(f"{moment}: calls that were missed ({run.messages[:500]})", (0, 0),
                         (report["missed"], report["missed_frees"]))
            if report["allocations"] < least or "none lost" not in run.messages:
                raise Failed(f"{moment}: {report}, {run.messages[:500]}")
            agreed.append(f"{moment}: 0 of {report['allocations']} allocations and of {report['frees']} frees missed")
        return "; ".join(agreed)


CPU_TORCH = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


class WorkersCase(namedtuple("WorkersCase", "name way")):
    """Forked workers are recorded in directories of their own, spawned ones are left alone."""

    def run(self, site):
        python, output = torch_npu(*CURRENT), site.output()
        variables = CPU_TORCH | {"PYTHONPATH": str(site.package())}
        run = observe([python, WORKLOADS / "attached_workers.py", self.way, output], output, variables, status=0)
        (report,) = run.reports
        expect_equal("summaries", 1, run.messages.count(" recorded: "))
        expect_equal("workers that loaded", 2, len(report["workers"]))
        recorded = sorted(process.number for process in run.processes)
        expected = [report["main"], *(report["workers"] if self.way == "fork" else [])]
        expect_equal("processes with files", sorted(expected), recorded)
        for process in run.processes:
            if process.number in report["workers"]:
                made = [row for row in process.rows("cpu") if row.event == "MALLOC" and int(row.attributes["size"]) >= 2 << 20]
                if len(made) < 32 // 4:
                    raise Failed(f"worker {process.number} made 8 samples or more, and {len(made)} are recorded")
        return f"{len(recorded)} processes recorded"


class RanksCase(namedtuple("RanksCase", "name ranks")):
    """Each rank of torchrun has a keeper of its own, and one output serves all."""

    def run(self, site):
        python, output = torch_npu(*CURRENT), site.output()
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        variables = CPU_TORCH | {"PYTHONPATH": str(site.package())}
        run = observe([python, *launcher, WORKLOADS / "attached_ranks.py", output], output, variables, status=0)
        expect_equal("sums over the ranks", [float(self.ranks)] * self.ranks, [report["sum"] for report in run.reports])
        expect_equal("processes with files", sorted(report["pid"] for report in run.reports),
                     sorted(process.number for process in run.processes))
        for report in run.reports:
            (process,) = [process for process in run.processes if process.number == report["pid"]]
            least = (1 << 20) * (report["rank"] + 1)
            sizes = [int(row.attributes["size"]) for row in process.rows("cpu") if row.event == "MALLOC"]
            if not any(least <= size < least + 4096 for size in sizes):
                raise Failed(f"rank {report['rank']} has no block of its tensor")
            expect_equal("steps", 3, sum(row.type == "STEP" for row in process.rows("cpu")))
        return f"{len(run.processes)} ranks recorded"


CASES = [
    MomentsCase("torch_npu recording itself, from any moment", TorchNpu, "attached_torch.py"),
    WitnessCase("torch recording itself, no allocation missed"),
    WorkersCase("torch recording itself, forked workers", "fork"),
    WorkersCase("torch recording itself, spawned workers", "spawn"),
    RanksCase("torch recording itself, two ranks of torchrun", 2),
    ManualCase("manual's example, torch on the CPU, csv", TorchNpu, "torch", "cpu", "csv"),
    ManualCase("manual's example, torch_npu, csv", TorchNpu, "torch_npu", "npu", "csv"),
    ManualCase("manual's example, torch_npu, db", TorchNpu, "torch_npu", "npu", "db"),
]
FURTHER_CASES = [
    MomentsCase("MindSpore recording itself, from any moment", MindSpore, "attached_mindspore.py"),
    ManualCase("manual's example, MindSpore, csv", MindSpore, "mindspore", "npu", "csv"),
    ManualCase("manual's example, MindSpore, db", MindSpore, "mindspore", "npu", "db"),
    ManualCase("manual's example, torch on the CPU, db", TorchNpu, "torch", "cpu", "db"),
]
