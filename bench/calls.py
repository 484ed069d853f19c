"""What the trace of Python calls costs: added to a call, beside what Python itself has for it, and its export."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import export
import machine
import measure
from figures import Figure
from tools import Stage

TARGET_NS = 150.0
TARGET_EXPORT_US = 1.0
MILLION = 1_000_000
# What the settings call it, and the bit it has in them.
TRACEBACK = 16
PEERS = {"sys.setprofile, a Python function": "setprofile", "cProfile": "cprofile"}


def interpreters():
    """{version: path}, one of each from 3.9 on."""
    names = [path for minor in range(9, 20) for path in [shutil.which(f"python3.{minor}")] if path]
    names += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    found = {}
    for name in ["python3", *names]:
        said = subprocess.run([name, "-c", "import sys; print(*sys.version_info[:2])"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, universal_newlines=True)
        version = tuple(map(int, said.stdout.split())) if said.returncode == 0 else ()
        if version >= (3, 9):
            found.setdefault(version, name)
    return dict(sorted(found.items()))


def _environment(stage: Stage, output):
    """That of a program whose calls are traced, and whose memory is left alone."""
    values = stage.environment("", output, device="npu")
    record = re.sub(r"\bevents=\d+", f"events={TRACEBACK}", values["MSMEMSCOPE_RECORD"])
    if "events=" not in record:
        record = record.replace(";dir=", f";events={TRACEBACK};dir=")
    return {**values, "MSMEMSCOPE_RECORD": record}


def _run(python, mode, batches, environment=None):
    command = [python, str(machine.PROGRAMS / "py_calls.py"), mode, str(batches)]
    return measure.benched(command, environment)


def _added(stage, python, batches, repetitions, scratch):
    """{mode: {figure: best of all runs}}"""
    best = {}
    for _ in range(repetitions):
        for mode in ("bare", "traced", *PEERS.values()):
            output = Path(tempfile.mkdtemp(dir=scratch))
            try:
                figures = _run(python, mode, batches, _environment(stage, output) if mode == "traced" else None)
                if mode == "traced" and not any(output.glob("*/spool/events.spool")):
                    raise measure.RunFailed("nothing was recorded")
            finally:
                shutil.rmtree(output, ignore_errors=True)
            of_mode = best.setdefault(mode, figures)
            best[mode] = {key: min(value, of_mode[key]) for key, value in figures.items()}
    return best


def _of_calls(stage, repetitions, scratch, quick):
    figures = []
    for (major, minor), python in interpreters().items():
        machine.say(f"calls: traced by Python {major}.{minor}")
        best = _added(stage, python, 1000 if quick else 4000, repetitions, scratch)
        for key, what in (("python_ns", "a Python function"), ("c_ns", "len()")):
            added = {mode: values[key] - best["bare"][key] for mode, values in best.items()}
            figures.append(Figure(
                f"call of {what} traced, Python {major}.{minor}: added to call and return together", added["traced"], "ns",
                TARGET_NS, f"the bare call takes {best['bare'][key]:.0f} ns",
                {name: added[mode] for name, mode in PEERS.items()}))
    return figures


def _of_export(stage, repetitions, scratch, quick):
    calls = MILLION if quick else 10 * MILLION
    machine.say(f"calls: recording {calls:.0e}")
    output = Path(tempfile.mkdtemp(dir=scratch))
    python = list(interpreters().values())[-1]
    try:
        made = _run(python, "traced", calls // 440, _environment(stage, output))["calls"]
        recorded = sum(path.stat().st_size for path in output.rglob("*.spool"))
        figures = []
        for file_format in ("csv", "db"):
            machine.say(f"calls: export to {file_format}")
            runs = sorted((export.Export(stage, output, file_format) for _ in range(repetitions)), key=lambda one: one.wall_s)
            middle = runs[len(runs) // 2]
            figures.append(Figure(
                f"export of {calls:.0e} calls to {file_format}: wall for a call", middle.wall_s / made * 1e6, "us",
                TARGET_EXPORT_US, f"CPU {middle.cpu_s / made * 1e6:.2f} us, peak {middle.rss_mb:.0f} MB; recorded in "
                f"{recorded / made:.1f} bytes, written in {middle.bytes / made:.0f}"))
        return figures
    finally:
        shutil.rmtree(output, ignore_errors=True)


def run(stage, repetitions, scratch, quick):
    """Returns figures."""
    figures = []
    parts = (("calls traced: added to a call", TARGET_NS, "ns", _of_calls),
             ("export of calls: wall for a call", TARGET_EXPORT_US, "us", _of_export))
    for title, target, unit, part in parts:
        try:
            if stage.unavailable or not stage.command:
                raise measure.RunFailed(stage.unavailable or f"no command in {stage.directory}/bin")
            figures += part(stage, repetitions, scratch, quick)
        except (measure.RunFailed, OSError, RuntimeError) as error:
            figures.append(Figure(title, None, unit, target, str(error)))
    return figures
