"""Operators of torch_npu on several streams: which one they are on, and what that means for memory that is held for nothing."""

import json
import os
import subprocess
from collections import Counter, namedtuple

from environments import REPOSITORY, torch_npu
from recording import Failed, analyze, expect_equal, record
from torch_cases import CURRENT, OLD

PROGRAM = REPOSITORY / "tests/frameworks/workloads/two_streams.py"
OPTIONS = ("--level=op", "--events=alloc,free,launch,access")
# As in the program: operators that go on are two each, three times; a block has three of its own.
OTHERS, THRESHOLD = 3 * 21, 20
KINDS = ("early_allocation", "late_deallocation", "temporary_idleness")


def on_streams(rows, phase):
    """The operators whose stream is known, by name and stream."""
    known = [row for row in rows if row.type == phase and "stream" in row.attributes]
    return Counter((row.name, int(row.attributes["stream"], 16)) for row in known)


def bare(words, variables):
    """What the program says where nobody records it."""
    done = subprocess.run(list(map(str, words)), env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the program without msmemscope: status {done.returncode}, {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Case(namedtuple("Case", "name versions")):
    def run(self, site):
        python = torch_npu(*self.versions)
        variables = self.toolkit(site, python).variables()
        run = record(site.stage, site.output(), [python, PROGRAM], variables, "npu", OPTIONS)
        expect_equal(f"exit status ({run.messages[-1500:]})", 0, run.status)
        (report,) = run.reports
        (process,) = [process for process in run.processes if process.number != report["child"]]
        rows = process.rows(0)
        alone = bare([python, PROGRAM], variables)
        answers = [(one["without_device"], one["child_status"]) for one in (alone, report)]
        expect_equal("a thread without a device and a child, bare and recorded", answers[0], answers[1])
        if report["without_device"] == 0:
            raise Failed("the thread without a device has one")
        starts, ends = (on_streams(rows, phase) for phase in ("ATEN_START", "ATEN_END"))
        first, second = report["first"], report["second"]
        expect_equal("the default stream of both threads", report["default"], report["thread_default"])
        empty, add = "aten::empty.memory_format", "aten::add_.Tensor"
        # The very first, which zeroes, cannot be asked: nothing says that torch_npu is set up.
        expected = {(add, report["default"]): 1, ("aten::zeros", report["default"]): 1,
                    (empty, first): OTHERS + 2, (add, first): OTHERS + 4,
                    (empty, second): 2 * OTHERS + 1, (add, second): 2 * OTHERS + 2}
        expect_equal("streams of operators", Counter(expected), starts)
        expect_equal("streams of their ends", starts, ends)
        # Of three blocks two are held for nothing while others of their stream are not; the third while another stream works.
        options = ("inefficient", f"--idle-threshold={THRESHOLD}")
        sources = (process.files["0"].parents[2], process.files["0"])
        found = [analyze(site.stage, [source], *options)[0]["inefficient"] for source in sources]
        told = sorted((one["type"], one["blocks"], one["worst"]["operators"]) for one in found[0]["inefficient"])
        expect_equal("findings", [(kind, 2, 42) for kind in KINDS], told)
        expect_equal("report of the file", found[0], found[1])
        return f"{sum(starts.values())} operators on three streams"

    def toolkit(self, site, python):
        return site.toolkit


class OldCase(Case):
    def toolkit(self, site, python):
        return site.toolkit.completed_for("torch_npu", python, site.scratch / "toolkit")


CASES = [Case("operators of torch_npu on two streams, by two threads", CURRENT)]
FURTHER_CASES = [OldCase("operators of torch_npu 2.6.0 on two streams, by two threads", OLD)]
