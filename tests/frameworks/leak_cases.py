"""Leaks: the line that leaks is named first, and a training without leaks has none that grows."""

import json
import re
import subprocess
from collections import namedtuple

from environments import REPOSITORY, mindspore, torch_npu
from recording import Failed, expect_equal, record
from torch_cases import CURRENT

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"
# torch would load torch_npu by itself, which needs CANN.
WITHOUT_NPU = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
KEPT_IN_A_STEP = 4 << 20


def leaks(stage, output):
    """What `analyze` says of the one process of a run that marked steps."""
    words = [stage / "bin/msmemscope", "analyze", output, "leaks", "--json"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect_equal("status of analyze", (0, ""), (done.returncode, done.stderr[-1500:] if done.returncode else ""))
    document = json.loads(done.stdout)
    with_steps = [process for process in document["processes"] if "leaks" in process and process["leaks"]["steps"]]
    expect_equal("processes with steps", 1, len(with_steps))
    of_process = [leak for leak in document["leaks"] if leak["pid"] == with_steps[0]["pid"]]
    return with_steps[0]["leaks"] | {"leaks": of_process}


def line_that_leaks(script, function):
    """The number of the line of `function` that its author marked."""
    lines = (WORKLOADS / script).read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"def {function}("))
    return 1 + next(number for number in range(begin, len(lines)) if lines[number].endswith("# leaks"))


def growing(leaks):
    return [leak for leak in leaks["leaks"] if leak["verdict"] == "grows"]


def nothing_grows(found):
    expect_equal("call sites that grow", [], [(leak["site"], leak["live_per_step"]) for leak in growing(found)])
    expect_equal("call sites that grew until the last step", [], found["freed_late"])
    verdicts = {leak["verdict"] for leak in found["leaks"]}
    if "carried" not in verdicts or "kept" not in verdicts:
        raise Failed(f"the training keeps and carries memory, but the verdicts are {sorted(verdicts)}")
    return f"{found['steps']['ended']} steps, nothing grows, {len(found['leaks'])} call sites keep or carry memory"


Expected = namedtuple("Expected", "script function pool")


def first_grows(expected):
    def check(found):
        first = found["leaks"][0]
        place = f"{expected.script}({line_that_leaks(expected.script, expected.function)}): {expected.function}"
        if first["verdict"] != "grows" or not (first["site"] or "").endswith(place):
            told = [(leak["verdict"], leak["bytes"], leak["site"]) for leak in found["leaks"][:4]]
            raise Failed(f"{place} is not the first that grows, but {told}")
        expect_equal("pool", expected.pool, first["pool"])
        ended, rate = found["steps"]["ended"], first["growth"]["bytes_per_step"]
        expect_equal("first and last step", (1, ended), (first["first_step"], first["last_step"]))
        # Pools round up, and the line makes small objects, too.
        if not KEPT_IN_A_STEP <= rate <= KEPT_IN_A_STEP * 1.1:
            raise Failed(f"{KEPT_IN_A_STEP} bytes are kept in a step, not {rate}")
        if any(made < KEPT_IN_A_STEP for made in first["per_step"]):
            raise Failed(f"bytes left by step: {first['per_step']}")
        if not all(re.fullmatch("0x[0-9a-f]+", address) for address in first["addresses"]) or not first["addresses"]:
            raise Failed(f"addresses: {first['addresses']}")
        return f"{first['bytes']} bytes in {ended} steps by {place}"

    return check


class Case(namedtuple("Case", "name script arguments check devices variables options",
                      defaults=("npu", {}, ("--call-stack=python",)))):
    def python(self):
        return torch_npu(*CURRENT)

    def toolkit(self, site, python):
        return site.toolkit

    def run(self, site):
        python, output = self.python(), site.output()
        program = [python, WORKLOADS / self.script, *self.arguments]
        variables = self.toolkit(site, python).variables() | self.variables
        run = record(site.stage, output, program, variables, self.devices, ("--data-format=none", *self.options))
        expect_equal("exit status", (0, ""), (run.status, run.messages[-1500:] if run.status else ""))
        return self.check(leaks(site.stage, output))


class MindSporeCase(Case):
    def python(self):
        return mindspore("2.7.1")

    def toolkit(self, site, python):
        return site.toolkit.completed_for("mindspore", python, site.scratch / "toolkit")


def on_cpu(name, script, arguments, check, stacks="python"):
    return Case(name, script, arguments, check, "cpu", WITHOUT_NPU, (f"--call-stack={stacks}",))


CLEAN, LEAKING, MINDSPORE = "clean_training.py", "leaking_training.py", "mindspore_leaking.py"
CASES = [
    on_cpu("torch without leaks", CLEAN, ("cpu",), nothing_grows, "c,python"),
    *[on_cpu(f"torch that leaks, {way}", LEAKING, (way, "cpu"),
             first_grows(Expected(LEAKING, f"keep_in_{way}", "PTA")))
      for way in ("list", "closure", "cycle", "graph")],
    Case("torch_npu without leaks", CLEAN, ("npu:0",), nothing_grows),
    Case("torch_npu that leaks, list", LEAKING, ("list", "npu:0"),
         first_grows(Expected(LEAKING, "keep_in_list", "PTA")), options=("--call-stack=python", "--level=op,kernel")),
]
FURTHER_CASES = [
    MindSporeCase("MindSpore 2.7.1 that leaks", MINDSPORE, (), first_grows(Expected(MINDSPORE, "keep", "MINDSPORE"))),
]
