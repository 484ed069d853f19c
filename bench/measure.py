"""Runs: one process after the other, alternating between workloads and tools, so that a slow moment hits all alike."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

import machine


@dataclass
class Run:
    """One process (with what it started), ended."""
    figures: Dict            # What the program printed of itself: the timed part.
    all_cpu_s: float         # User + system time of the whole run and of all its helpers.
    wall_s: float
    max_rss_kb: int
    load: float
    bytes: int = 0
    recorded_events: Optional[int] = None


class RunFailed(Exception):
    pass


def execute(command, environment=None, timeout=600, cwd=None):
    """Runs to the end; returns (exit status, output, CPU seconds with children, wall seconds, peak RSS in KiB)."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        # Its own session: if it hangs, all that it started can be ended by one number.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd,
                                   env={**os.environ, **(environment or {})}, start_new_session=True)
        expired = []

        def end():
            expired.append(True)
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            timer.cancel()
        process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        wall = time.perf_counter() - start
        output.seek(0)
        text = output.read().decode(errors="replace")
    if expired:
        raise RunFailed(f"killed after {timeout} s")
    return process.returncode, text, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss


def printed_figures(code, text):
    """What a program printed of itself."""
    found = [line for line in text.splitlines() if line.startswith("BENCH ")]
    if code != 0 or not found:
        tail = text.strip().splitlines()[-1:] or ["no output"]
        raise RunFailed(f"exit code {code}: {tail[0][:200]}")
    return json.loads(found[-1][6:])


def benched(command, environment=None):
    """The figures of one run of a program."""
    code, text, *_ = execute(command, environment)
    return printed_figures(code, text)


def run_once(tool, workload, scratch):
    output = Path(tempfile.mkdtemp(dir=scratch))
    try:
        prepared = tool.prepare(workload, output)
        load = machine.load()
        code, text, cpu, wall, rss = execute(prepared.command, prepared.environment)
        figures = printed_figures(code, text)
        size, events = tool.written(output)
        return Run(figures, cpu, wall, rss, load, size, events)
    finally:
        shutil.rmtree(output, ignore_errors=True)


@dataclass
class Series:
    """The runs of one tool on one workload."""
    tool: str
    workload: str
    baseline: Optional[str]
    unavailable: Optional[str] = None
    runs: List[Run] = field(default_factory=list)

    def values(self, key):
        return [value for value in (_value(run, key) for run in self.runs) if value is not None]

    def median(self, key):
        values = self.values(key)
        return statistics.median(values) if values else None

    def best(self, key):
        values = self.values(key)
        return min(values) if values else None

    def as_dict(self):
        return asdict(self)


def _value(run, key):
    return run.figures[key] if key in run.figures else getattr(run, key, None)


def run_alternating(listed, repetitions, scratch, why_not=None):
    """Runs of all tools on all workloads, given as [(workload, tools)], taking turns; [{tool name: Series}] in that order."""
    results = [{tool.name: Series(tool.name, workload.name, tool.baseline_for(workload), why_not or tool.unavailable)
                for tool in tools} for workload, tools in listed]
    turns = [(repetition, turn) for repetition in range(repetitions)
             for turn in range(max(workload.turns for workload, _ in listed))]
    for repetition, turn in turns:
        for (workload, tools), series in zip(listed, results):
            for tool in tools:
                one = series[tool.name]
                is_due = tool.runs_in(repetition) and turn < (workload.turns if tool.takes_turns else 1)
                if is_due and not one.unavailable:
                    machine.say(f"{workload.title}: {tool.name} ({repetition + 1} of {repetitions})")
                    _run_into(one, tool, workload, scratch)
    return results


def _run_into(one, tool, workload, scratch):
    try:
        one.runs.append(run_once(tool, workload, scratch))
    except (RunFailed, OSError, RuntimeError, ValueError) as error:
        # Once is enough to know; the runs so far stay.
        one.unavailable = str(error)
        machine.say(f"{workload.title}: {tool.name} failed: {error}")
