#!/usr/bin/env python3
"""Instructions added to a malloc+free pair, counted by valgrind: the same on every run, whatever else the machine does.

    python3 bench/instructions.py [--stage DIR]

A program runs twice with different numbers of pairs; the difference has no start-up in it. What the bare program needs is
subtracted.
"""
import argparse
import re
import shutil
import tempfile
from pathlib import Path

import machine
import measure
from figures import Figure
from tools import Ours, Stage, Tool, Workload, default_stage

PAIRS_PER_BATCH = 50
# What the figure is called, program, arguments before the number of batches, fewer and more batches, stacks.
COUNTED = (
    ("below 0 frames", "pair", ("0",), (200, 1200), ""),
    ("below 20 frames", "pair", ("20",), (200, 1200), ""),
    ("below 20 frames", "pair", ("20",), (200, 1200), "c"),
    ("by one of 256 ways at random", "ways", ("random",), (200, 1200), "c"),
    ("by one of 256 ways at random, with frame pointers", "ways_fp", ("random",), (200, 1200), "c"),
    ("below 30 frames that differ in an outer one", "ways", ("outer",), (200, 1200), "c"),
    ("from Python, 20 frames entered", "py_pair.py", ("enter",), (100, 400), "c,python"),
    ("from Python, below 20 frames", "py_pair.py", ("stay",), (100, 400), "c,python"),
)


def count(tool, workload, scratch):
    output = Path(tempfile.mkdtemp(dir=scratch))
    try:
        prepared = tool.prepare(workload, output)
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}/profile", *prepared.command]
        code, text, *_ = measure.execute(command, prepared.environment)
        found = re.search(r"Collected\s*:\s*(\d+)", text)
        if code != 0 or not found:
            raise measure.RunFailed(f"valgrind ended with code {code}: {text.strip()[-200:]}")
        return int(found.group(1))
    finally:
        shutil.rmtree(output, ignore_errors=True)


def per_pair(tool, program, arguments, batches, scratch):
    few, many = (count(tool, Workload(program, program, program, (*arguments, str(number)),
                                      environment={"PYTHONHASHSEED": "0"}), scratch) for number in batches)
    # The programs warm up with a tenth of the batches, rounded down.
    fewer, more = (number + number // 10 for number in batches)
    return (many - few) / ((more - fewer) * PAIRS_PER_BATCH)


def run(stage, scratch):
    missing = None if machine.install_package("valgrind", "valgrind") else "valgrind cannot be installed"
    missing = missing or stage.unavailable
    figures = []
    for title, program, arguments, batches, call_stack in COUNTED:
        value, note = None, missing or ""
        title = f"instructions added to a pair {title}, {call_stack or 'no stacks'}"
        if not missing:
            machine.say(title)
            try:
                bare = per_pair(Tool(), program, arguments, batches, scratch)
                value = per_pair(Ours(stage, call_stack), program, arguments, batches, scratch) - bare
                note = f"the bare pair has {bare:.0f}"
            except (measure.RunFailed, OSError, RuntimeError) as error:
                note = str(error)
        figures.append(Figure(title, value, "", None, note))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", default=default_stage(), help="installed msmemscope [default: target/stage]")
    arguments = parser.parse_args()
    machine.build_programs()
    with tempfile.TemporaryDirectory() as scratch:
        for figure in run(Stage(arguments.stage), scratch):
            value = "not available" if figure.value is None else f"{figure.value:.1f}"
            print(f"{figure.title}: {value} ({figure.note})")


if __name__ == "__main__":
    main()
