"""What the memory of a training is made of, as the program itself computes it, to the byte."""

from collections import namedtuple

from attached_cases import TorchNpu, variables_of
from environments import REPOSITORY
from recording import Failed, analyze, expect_equal, observe

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"


def tree(nodes):
    return {node["level"]: node for node in nodes}


def owners(site, output, at):
    """What PTA has in use at a moment, by the first label: bytes and the labels below."""
    (process,) = analyze(site.stage, [output], "decompose", f"--at={at}")
    for device in process["decompose"]["devices"]:
        for pool in (device["at"] or device["peak"])["pools"]:
            if pool["pool"] == "PTA" and pool["bytes"]:
                (root,) = pool["tree"]
                return {name: (node["bytes"], tree(node["children"])) for name, node in tree(root["children"]).items()}
    raise Failed(f"PTA had nothing in use at {at}")


class TrainingCase(namedtuple("TrainingCase", "name way device events")):
    def run(self, site):
        python = TorchNpu.python()
        variables = variables_of(site, TorchNpu, python)
        if self.device == "cpu":
            variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        output = site.output()
        program = [python, WORKLOADS / "decomposed_training.py", self.way, self.device, output, self.events]
        run = observe(program, output, variables, status=0)
        (expected,) = run.reports
        if "MemScopeWarning" in run.messages:
            raise Failed(run.messages[:1500])
        found = owners(site, output, "step:3")
        for what, taken in expected.items():
            expect_equal(what, taken, found.get(what, (0, {}))[0])
        paths = {"rise", "layers.0", "layers.1", "layers.2", "fall"}
        for what in ("weight", "gradient"):
            expect_equal(f"modules of {what}", paths, set(found[what][1]))
        (process,) = run.processes
        rows = process.rows("cpu" if self.device == "cpu" else 0)
        concluded = {row.attributes["owner"] for row in rows if row.type == "PTA" and row.event == "MALLOC"}
        # The derivatives of relu and tanh read their results, not what they were given. Compiled code runs without modules.
        of_modules = set() if self.way == "compiled" else {"PTA@activation@fall", "PTA@temporary@rise"}
        missing = {"PTA@activation@Net", "PTA@temporary", *of_modules} - concluded
        if missing:
            raise Failed(f"no {sorted(missing)} among {sorted(concluded)}")
        return str(expected)


CASES = [
    TrainingCase(f"decomposition of a training, {way}, on the {device}", way, device, "alloc,free")
    for way, device in (*((way, "cpu") for way in ("plain", "late", "no_step", "wrong", "old_hooks")), ("plain", "npu"))
] + [
    TrainingCase("decomposition of a training, compiled, on the cpu", "compiled", "cpu", "alloc,free"),
    TrainingCase("decomposition of a training with accesses, on the cpu", "plain", "cpu", "alloc,free,access"),
    TrainingCase("decomposition of a training with accesses, on the npu", "plain", "npu", "alloc,free,access"),
]


class ShardedCase(namedtuple("ShardedCase", "name way labels")):
    """Two processes; both have the labels of their windows, and after them none."""

    def run(self, site):
        python = TorchNpu.python()
        variables = variables_of(site, TorchNpu, python) | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        output = site.output()
        run = observe([python, WORKLOADS / "sharded_training.py", self.way, output], output, variables, status=0)
        expect_equal("ranks", [0, 1], sorted(report["rank"] for report in run.reports))
        for process in run.processes:
            rows = [row for row in process.rows("cpu") if row.type == "PTA" and row.event == "MALLOC"]
            found = {row.attributes.get("owner") for row in rows}
            begun = {"@".join(owner.split("@")[: depth + 1]) for owner in found for depth in range(owner.count("@") + 1)}
            missing = set(self.labels) - begun
            if missing:
                raise Failed(f"no {sorted(missing)} among {sorted(found)}")
            (last,) = [row for row in rows if row.number("size") == run.reports[0]["unlabelled"]]
            expect_equal("the owner of what is allocated after all windows", "PTA", last.attributes["owner"])
        by_process = analyze(site.stage, [output], "decompose", "--at=step:3")
        expect_equal("processes", 2, len(by_process))
        for process in by_process:
            steps = process["decompose"]["devices"][0]["steps"]
            owned = [owner for pool in steps[-1]["pools"] if pool["pool"] == "PTA" for owner in pool["owners"]]
            weight = sum(owner["bytes"] for owner in owned if "weight" in owner["owner"].split("@"))
            expect_equal("weights of a rank", run.reports[0]["weight"], weight)
        return f"{sorted(found)}"


class BesideCase(namedtuple("BesideCase", "name")):
    """torch's compiler and other ways to run a model, with hooks and without."""

    def run(self, site):
        python = TorchNpu.python()
        variables = variables_of(site, TorchNpu, python) | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        told = []
        for hooks in ("bare", "hooks"):
            output = site.output()
            told += observe([python, WORKLOADS / "hooks_beside.py", hooks, output], output, variables, status=0).reports
        expect_equal("what torch's compiler has made of it", *told)
        expect_equal("restored", (True, 0), (told[1]["restored"], told[1]["left"]))
        return str(told[1])


CASES.append(BesideCase("hooks beside torch's compiler and transformations"))
FURTHER_CASES = [
    ShardedCase(
        f"decomposition of a training sharded by {way}",
        way,
        [f"PTA@{way}@activation", f"PTA@{way}@activation@{gather}", f"PTA@{way}@backward@gradient", "PTA@optimizer_state"],
    )
    for way, gather in (("fsdp1", "all_gather"), ("fsdp2", "all_gather_output"))
]
