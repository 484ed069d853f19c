"""What the memory of a training is made of, as the program itself computes it, to the byte."""

from collections import namedtuple

from attached_cases import TorchNpu, variables_of
from environments import REPOSITORY
from recording import Failed, analyze, expect_equal, observe

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"
#: What the program does not say of itself; must be there and is not compared.
CONCLUDED = ("activation", "temporary")


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
        during = owners(site, output, "peak")
        # Compiled code runs without modules, and what it keeps is the compiler's choice.
        if self.way != "compiled":
            activation = during.get("activation", (0, {}))
            if not {"rise", "Net"} <= set(activation[1]):
                raise Failed(f"no activations of modules at the peak: {sorted(during)}, {sorted(activation[1])}")
        return f"{expected}, at the peak {({what: taken for what, (taken, _) in during.items()})}"


CASES = [
    TrainingCase(f"decomposition of a training, {way}, on the {device}", way, device, "alloc,free")
    for way, device in (("plain", "cpu"), ("late", "cpu"), ("no_step", "cpu"), ("wrong", "cpu"), ("plain", "npu"))
] + [
    TrainingCase("decomposition of a training, compiled, on the cpu", "compiled", "cpu", "alloc,free"),
    TrainingCase("decomposition of a training with accesses, on the cpu", "plain", "cpu", "alloc,free,access"),
    TrainingCase("decomposition of a training with accesses, on the npu", "plain", "npu", "alloc,free,access"),
]
