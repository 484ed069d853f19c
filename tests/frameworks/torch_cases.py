"""torch_npu: its allocator's own statistics against the export."""

import re
import socket
from collections import namedtuple

from environments import REPOSITORY, torch_npu
from recording import Failed, analyze, expect_equal, record

CURRENT = ("2.7.1", "2.7.1.post11")
# The last whose pools report under the name "msleaks".
OLD = ("2.6.0", "2.6.0")
SCRIPTS = REPOSITORY / "sim/tests"
TORCHRUN_RANKS = 3


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def check_rank(report, process):
    """One process and its device; gives what they agree on."""
    device = report["device"]
    pool, driver = process.pool(device, "PTA"), process.pool(device, "HAL")
    expect_equal(f"device {device}: allocations", report["allocations"], pool.allocations)
    expect_equal(f"device {device}: peak", report["peak_allocated"], pool.peak)
    expect_equal(f"device {device}: the largest `used`", report["peak_allocated"], max(pool.uses, default=None))
    expect_equal(f"device {device}: the largest `total`", report["peak_reserved"], max(pool.totals, default=None))
    if driver.peak < report["peak_reserved"]:
        raise Failed(f"device {device}: the driver gave {driver.peak}, torch reserved {report['peak_reserved']}")
    return (f"device {device}: {pool.allocations} allocations, peak {pool.peak}, total {max(pool.totals)},"
            f" driver {driver.allocations} blocks, peak {driver.peak}")


def check_ranks(run, ranks):
    expect_equal("exit status", (0, ""), (run.status, run.messages[-1500:] if run.status else ""))
    expect_equal("devices that reported", list(range(ranks)), sorted(report["device"] for report in run.reports))
    summaries = re.findall(r"(\d+) process(?:es)? recorded", run.messages)
    expect_equal("processes in the one summary", [str(len(run.processes))], summaries)
    agreed = []
    for report in sorted(run.reports, key=lambda report: report["device"]):
        owners = [process for process in run.processes if str(report["device"]) in process.files]
        expect_equal(f"processes with memory on device {report['device']}", 1, len(owners))
        if "pid" in report:
            expect_equal("the process's number", report["pid"], owners[0].number)
        agreed.append(check_rank(report, owners[0]))
    return agreed


class Case(namedtuple("Case", "name versions script variables ranks extra devices options",
                      defaults=({}, 1, None, "npu", ()))):
    def program(self, python):
        return [python, SCRIPTS / self.script]

    def toolkit(self, site, python):
        return site.toolkit

    def run(self, site):
        python = torch_npu(*self.versions)
        variables = self.toolkit(site, python).variables() | self.variables | {"MASTER_PORT": free_port()}
        run = record(site.stage, site.output(), self.program(python), variables, self.devices, self.options)
        agreed = check_ranks(run, self.ranks)
        if self.extra:
            agreed.append(self.extra(run))
        return "; ".join(agreed)


class TorchrunCase(Case):
    def program(self, python):
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [python, *launcher, REPOSITORY / "tests/frameworks/workloads" / self.script]


class OldCase(Case):
    def toolkit(self, site, python):
        return site.toolkit.completed_for("torch_npu", python, site.scratch / "toolkit")


def owner(run):
    """The process with memory on device 0; others only started it."""
    return next(process for process in run.processes if "0" in process.files)


def host_memory(run):
    if "cpu" not in owner(run).files:
        raise Failed("no file of the host's memory")
    return f"host memory in a file of {owner(run).files['cpu'].stat().st_size} bytes"


def workspace_is_used(run):
    workspace = owner(run).pool(0, "PTA_WORKSPACE")
    if not workspace.allocations:
        raise Failed("no block of the workspace pool")
    return f"{workspace.allocations} uses of the workspace"


def no_workspace_pool(run):
    expect_equal("blocks of the workspace pool", 0, owner(run).pool(0, "PTA_WORKSPACE").allocations)
    return "workspace from the caching pool"


def memory_by_handle(run):
    driver = owner(run).pool(0, "HAL")
    created = [row for row in owner(run).rows(0) if row.attributes.get("alloc_type") == "create"]
    expect_equal("blocks by handle among the driver's", driver.allocations, len(created))
    return f"{len(created)} blocks by handle"


def ran_out(run):
    (report,) = run.reports
    if "out of memory" not in (report["error"] or ""):
        raise Failed(f"the program did not run out of memory: {report['error']!r}")
    refused = [row.number("req_size") for row in owner(run).rows(0) if row.type == "OOM_TRIGGER"]
    held = owner(run).pool(0, "HAL").peak
    if not refused or min(refused) + held <= report["device_total"]:
        raise Failed(f"of {report['device_total']} bytes {held} were held; refused requests in the export: {refused}")
    # Nothing was given back before: what torch_npu held at most it held then.
    told = [{key: row.number(key) for key in ("reserved", "max_reserved", "allocated", "max_allocated")}
            for row in owner(run).rows(0) if row.event == "SNAPSHOT" and row.name == "OOM_Snapshot"]
    reserved, allocated = report["peak_reserved"], report["peak_allocated"]
    held = {"reserved": reserved, "max_reserved": reserved, "allocated": allocated, "max_allocated": allocated}
    expect_equal("snapshots of the refusals", [held] * len(refused), told)
    return f"refused: {refused}"


class OutOfMemoryCase(Case):
    """Two lines in a row are refused memory, each after the allocator has given back its cache and asked again."""

    def program(self, python):
        return [python, REPOSITORY / "tests/frameworks/workloads" / self.script]

    def run(self, site):
        python = torch_npu(*self.versions)
        variables = self.toolkit(site, python).variables() | self.variables
        run = record(site.stage, site.output(), self.program(python), variables, self.devices, self.options)
        expect_equal(f"exit status ({run.messages[-500:]})", 0, run.status)
        (report,) = run.reports
        expect_equal("requests that were refused", [True, True, False], report["refused"])
        of_spool = self.check(site, [run.output], report)
        expect_equal("out of memory by the files", of_spool, self.check(site, owner(run).files.values(), report))
        if run.messages.count("OUT OF MEMORY in process") != 2:
            raise Failed(f"not two reports: {run.messages[-3000:]}")
        return f"{len(of_spool)} reports: {of_spool}"

    @staticmethod
    def check(site, paths, report):
        (process,) = analyze(site.stage, paths, "oom:5")
        found = []
        for oom in process["oom"]["ooms"]:
            pools = {pool["pool"]: pool for pool in oom["pools"]}
            expect_equal("blocks in use", report["blocks"], pools["PTA"]["blocks"])
            expect_equal("the pool's idle memory", pools["PTA"]["reserved"] - pools["PTA"]["used"], pools["PTA"]["idle"])
            if oom["tries"] < 2:
                raise Failed(f"torch_npu asks again when it has emptied its cache: {oom['tries']} tries")
            lines = [[frame for frame in frames if "torch_out_of_memory.py" in frame][0].split(": ")[-1]
                     for frames in (oom["site"]["frames"], pools["PTA"]["sites"][0]["frames"])]
            found.append((oom["device"], oom["call"], oom["bytes"], *lines, oom["then"]))
        expect_equal("where memory ran out, and who held it", [("fill", "fill", "refused_again"),
                                                               ("ask_for_too_much", "fill", "given")],
                     [oom[3:] for oom in found])
        return found


def named_kernels(run):
    """Each operator is a kernel of its own on the simulated device, launched by torch_npu's own thread."""
    rows = [row for row in owner(run).rows(0) if row.event == "KERNEL_LAUNCH"]
    by_type = {kind: [row for row in rows if row.type == kind]
               for kind in ("KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "KERNEL_EXECUTE_END")}
    counts = {kind: len(of_kind) for kind, of_kind in by_type.items()}
    if not counts["KERNEL_LAUNCH"] or len(set(counts.values())) != 1:
        raise Failed(f"rows of kernels: {counts}")
    names = {row.name for row in rows}
    if "N/A" in names or not {"Addmm", "InplaceCopy"} & names:
        raise Failed(f"names of kernels: {sorted(names)}")
    if any("streamId" not in row.attributes or "taskId" not in row.attributes for row in rows):
        raise Failed("a kernel without stream or task")
    return f"{counts['KERNEL_LAUNCH']} kernels of {len(names)} names"


def no_kernels(run):
    expect_equal("rows of kernels", 0, sum(row.event == "KERNEL_LAUNCH" for row in owner(run).rows(0)))
    return "no row of a kernel"


CURRENT_CASES = [
    Case("torch_npu perceptron", CURRENT, "torch_npu_mlp.py", extra=no_kernels),
    Case("torch_npu perceptron, its kernels", CURRENT, "torch_npu_mlp.py", extra=named_kernels,
         options=("--level=kernel",)),
    Case("torch_npu perceptron, also host memory", CURRENT, "torch_npu_mlp.py", devices="npu,cpu", extra=host_memory),
    Case("torch_npu transformer", CURRENT, "torch_npu_transformer.py"),
    Case("torch_npu transformer, workspace", CURRENT, "torch_npu_transformer.py",
         {"SIM_WORKSPACE_BYTES": "1M"}, extra=no_workspace_pool),
    Case("torch_npu transformer, TASK_QUEUE_ENABLE=2", CURRENT, "torch_npu_transformer.py",
         {"SIM_WORKSPACE_BYTES": "1M", "TASK_QUEUE_ENABLE": "2"}, extra=workspace_is_used),
    Case("torch_npu transformer, expandable segments", CURRENT, "torch_npu_transformer.py",
         {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}, extra=memory_by_handle),
    Case("torch_npu out of memory", CURRENT, "torch_npu_oom.py", {"SIM_HBM_BYTES": "256M"}, extra=ran_out),
    OutOfMemoryCase("torch_npu out of memory, its report", CURRENT, "torch_out_of_memory.py", {"SIM_HBM_BYTES": "256M"},
                    options=("--call-stack=python,c",)),
    OutOfMemoryCase("torch_npu out of memory, expandable segments", CURRENT, "torch_out_of_memory.py",
                    {"SIM_HBM_BYTES": "256M", "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
                    options=("--call-stack=python,c", "--analysis=oom")),
    Case("torch_npu DDP, two ranks", CURRENT, "torch_npu_ddp.py", ranks=2),
    TorchrunCase("torch_npu torchrun, three ranks", CURRENT, "torchrun_mlp.py", ranks=TORCHRUN_RANKS),
]
OLD_CASES = [OldCase("torch_npu 2.6.0 perceptron", OLD, "torch_npu_mlp.py")]
