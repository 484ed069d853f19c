#!/usr/bin/env python3
"""Instructions added to a malloc+free pair, counted by valgrind: the same on every run, whatever else the machine does.

    python3 bench/instructions.py [--stage DIR]

`pair` runs twice with different numbers of pairs; the difference has no start-up in it. What the bare program needs is
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

FEW, MANY, PAIRS_PER_BATCH = 200, 1200, 50


def count(tool, depth, batches, scratch):
    output = Path(tempfile.mkdtemp(dir=scratch))
    try:
        prepared = tool.prepare(Workload("pair", "pair", "pair", (str(depth), str(batches))), output)
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}/profile", *prepared.command]
        code, text, *_ = measure.execute(command, prepared.environment)
        found = re.search(r"Collected\s*:\s*(\d+)", text)
        if code != 0 or not found:
            raise measure.RunFailed(f"valgrind ended with code {code}: {text.strip()[-200:]}")
        return int(found.group(1))
    finally:
        shutil.rmtree(output, ignore_errors=True)


def per_pair(tool, depth, scratch):
    # The program warms up with a tenth of the batches, rounded down.
    batches = MANY - FEW + MANY // 10 - FEW // 10
    return (count(tool, depth, MANY, scratch) - count(tool, depth, FEW, scratch)) / (batches * PAIRS_PER_BATCH)


def run(stage, scratch):
    missing = None if machine.install_package("valgrind", "valgrind") else "valgrind cannot be installed"
    missing = missing or stage.unavailable
    figures = []
    for depth, call_stack in ((0, ""), (20, ""), (20, "c")):
        value, note = None, missing or ""
        if not missing:
            machine.say(f"instructions: depth {depth}, {call_stack or 'no stacks'}")
            try:
                bare = per_pair(Tool(), depth, scratch)
                value = per_pair(Ours(stage, call_stack), depth, scratch) - bare
                note = f"the bare pair has {bare:.0f}"
            except (measure.RunFailed, OSError, RuntimeError) as error:
                note = str(error)
        title = f"instructions added to a pair below {depth} frames, {call_stack or 'no stacks'}"
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
