"""Fluctuation and decomposition: what the analyses say is what the framework's allocator says of itself."""

import json
import subprocess
from collections import namedtuple

from environments import REPOSITORY, mindspore, torch_npu
from recording import Failed, expect_equal, record
from torch_cases import CURRENT

WORKLOADS = REPOSITORY / "tests/frameworks/workloads"


def analyze(stage, path, *words):
    """What `analyze` says of the process with memory of device 0."""
    done = subprocess.run([stage / "bin/msmemscope", "analyze", path, "fluctuation", "decompose", "--json", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect_equal("status of analyze", (0, ""), (done.returncode, done.stderr[-1500:] if done.returncode else ""))
    for process in json.loads(done.stdout)["processes"]:
        pools = {(pool["device"], pool["pool"]): pool for pool in process.get("fluctuation", {"pools": []})["pools"]}
        devices = {device["device"]: device for device in process.get("decompose", {"devices": []})["devices"]}
        if ("0", "HAL") in pools:
            return pools, devices["0"]
    raise Failed("no process with memory of device 0")


def check_sums(device):
    """Owners sum up to what their pool has in use, always; pools to no more than the driver handed out."""
    moments = [device["peak"], *device["steps"]]
    for moment in moments:
        for pool in moment["pools"]:
            found = sum(owner["bytes"] for owner in pool["owners"])
            expect_equal(f"bytes of the owners of {pool['pool']}", pool["bytes"], found)
    peak = device["peak"]
    if not 0 < peak["pool_bytes"] <= peak["driver_bytes"]:
        raise Failed(f"at the peak pools have {peak['pool_bytes']} of the driver's {peak['driver_bytes']} bytes")
    return f"{len(moments)} moments sum up, pools took {peak['pool_bytes']} of {peak['driver_bytes']} bytes of the driver"


def of_torch(site, run):
    (report,) = run.reports
    for told in ("fluctuation within steps", "decomposition of process"):
        if told not in run.messages:
            raise Failed(f"the report of the run has no {told}: {run.messages[-1500:]}")
    pools, device = analyze(site.stage, run.output)
    pool = pools["0", "PTA"]
    found = [[step["begin_bytes"], step["max_bytes"], step["end_bytes"]] for step in pool["per_step"]]
    # Before the first step the network was made.
    expect_equal("steps: begin, most and end", report["steps"][1:], found[1:])
    expect_equal("the first step's end", report["steps"][0][2], found[0][2])
    expect_equal("peak", report["peak"], pool["peak"]["bytes"])
    reserved = max(bin["reserved_bytes"] for bin in pool["over_time"] if bin and bin["reserved_bytes"])
    expect_equal("most reserved", report["peak_reserved"], reserved)
    expect_equal("steps in the decomposition", [step[2] for step in report["steps"]],
                 [pool["bytes"] for step in device["steps"] for pool in step["pools"] if pool["pool"] == "PTA"])
    grown = [(number + 1, end - begin) for number, (begin, _, end) in enumerate(report["steps"]) if number and end > begin]
    expect_equal("step that grew most", max(grown, key=lambda step: step[1]),
                 tuple(pool["balance"]["most_grown"][key] for key in ("step", "bytes")))
    return f"{len(found)} steps as torch_npu says; " + check_sums(device)


def of_mindspore(site, run):
    pools, device = analyze(site.stage, run.output)
    if pools["0", "MINDSPORE"]["peak"]["bytes"] <= 0:
        raise Failed("nothing of MindSpore's pool at its peak")
    return check_sums(device)


class Case(namedtuple("Case", "name script check options", defaults=(("--call-stack=python",),))):
    def python(self):
        return torch_npu(*CURRENT)

    def toolkit(self, site, python):
        return site.toolkit

    def run(self, site):
        python = self.python()
        # Without its queue torch_npu allocates where its statistics are asked for.
        variables = self.toolkit(site, python).variables() | {"TASK_QUEUE_ENABLE": "0"}
        run = record(site.stage, site.output(), [python, self.script], variables, "npu", self.options)
        expect_equal("exit status", (0, ""), (run.status, run.messages[-1500:] if run.status else ""))
        return self.check(site, run)


class MindSporeCase(Case):
    def python(self):
        return mindspore("2.7.1")

    def toolkit(self, site, python):
        return site.toolkit.completed_for("mindspore", python, site.scratch / "toolkit")


CASES = [
    Case("torch_npu, fluctuation and decomposition", WORKLOADS / "stepped_training.py", of_torch,
         ("--call-stack=python", "--analysis=leaks,decompose")),
]
FURTHER_CASES = [
    MindSporeCase("MindSpore 2.7.1, fluctuation and decomposition", REPOSITORY / "sim/tests/mindspore_mlp.py", of_mindspore),
]
