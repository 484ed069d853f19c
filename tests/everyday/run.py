#!/usr/bin/env python3
"""Everyday programs, bare and recorded: the same to everybody, and recorded to the last block.

    tests/everyday/run.py [--stage DIR] [--only TEXT] [--jobs N] [--answers FILE]

Each program runs twice. Exit status, output and error output must be the same; what was recorded must be what a second
library, preloaded behind ours, has counted; what the summary says must make sense. Needs `make build`. What a program needs is
installed from the distribution and from the Python package index; environments are kept in MSMEMSCOPE_PROGRAMS (default
.cache/programs). Programs run over as many workers as there are processors. One line per program, as it ends, and a table at the
end; exit status 1 if one fails. What cannot be had says SKIPPED.
With --answers each recording is also read and exported, one after the other, and how long that took and how large the files are is
written to FILE.
"""

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))

import answers
import ending_cases
import pool
import python_cases
import runtime_cases
import server_cases
import shell_cases
import supplies
from trial import Failed, Site, Unavailable, attempt, judge

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CASES = shell_cases.CASES + ending_cases.CASES + runtime_cases.CASES + python_cases.CASES + server_cases.CASES
# What ends by the clock, or measures.
ALONE = set()
COLUMNS = ["program", "stacks", "same", "processes", "events", "blocks", "counted", "peak MiB", "resident MiB", "spool MiB",
           "bare s", "recorded s"]


def build(stage, target, scratch):
    """The reader of recordings and the counting library."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "memscope-tests", "--bin", "spool_counts"],
                   cwd=REPOSITORY, check=True)
    counter = scratch / "libcounter.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-shared", "-fPIC", "-o", counter,
                    REPOSITORY / "tests/everyday/counter.c", "-ldl"], check=True)
    return target / "release/spool_counts", counter


def supply(case, site):
    if case.packages:
        supplies.packages(site, *case.packages)
    for step in case.supplies:
        step(site)


def supply_all(cases, site):
    """What the cases need is installed by one, before they begin: a worker that is forked afterwards knows what cannot be had."""
    for case in cases:
        try:
            supply(case, site)
        except Unavailable:
            pass  # The case says so.


@functools.cache
def room(scratch):
    """Where a worker runs its programs, always at the same place; some of them change their user."""
    directory = scratch / f"worker{os.getpid()}"
    directory.mkdir()
    directory.chmod(0o755)
    return directory


def run(case, site):
    """Outcome, what there is to say of it, and the trial as far as it came."""
    trial = None
    try:
        supply(case, site)
        trial = attempt(case, site)
        return "passed", judge(case, trial), trial
    except Unavailable as why:
        return "SKIPPED", str(why), trial
    except Failed as why:
        return "FAILED", str(why), trial
    except Exception:  # One broken case must not hide the others.
        return "FAILED", traceback.format_exc(), trial


def row(case, outcome, trial):
    if trial is None:
        return [case.name, case.mode, outcome] + [""] * (len(COLUMNS) - 3)
    counted = f"{trial.counted[0]:,}" if trial.counted else "-"
    return [case.name, case.mode, "yes" if outcome == "passed" else outcome, f"{len(trial.processes)}",
            f"{trial.total('events'):,}", f"{trial.total('begun'):,}", counted, f"{trial.peak_mb:.1f}",
            f"{trial.bare.resident_mb:.0f}" if trial.bare.resident_mb else "-", f"{trial.spool_mb:.1f}", f"{trial.bare.seconds:.2f}",
            f"{trial.recorded.seconds:.2f}"]


def table(rows):
    widths = [max(len(line[column]) for line in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
    lines = [COLUMNS, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(cell.ljust(width) if column < 3 else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=pathlib.Path, default=target / "stage", help="the installation under test")
    parser.add_argument("--only", default="", help="run the programs with this text in their names")
    parser.add_argument("--answers", type=pathlib.Path, help="also measure reading and exporting, into this Markdown file")
    pool.add_option(parser)
    arguments = parser.parse_args()
    stage = arguments.stage.resolve()
    if not (stage / "bin/msmemscope").exists():
        sys.exit(f"{stage}/bin/msmemscope does not exist; run `make build` first")
    cache = pathlib.Path(os.environ.get("MSMEMSCOPE_PROGRAMS") or REPOSITORY / ".cache/programs").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    rows, answered, counts = {}, [], dict.fromkeys(("passed", "FAILED", "SKIPPED"), 0)
    cases = [case for case in CASES if arguments.only in case.name]
    with tempfile.TemporaryDirectory(prefix="msmemscope-everyday-") as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        reader, counter = build(stage, target, scratch)

        def timed(case):
            began = time.monotonic()
            site = Site(REPOSITORY, stage, reader, counter, room(scratch), cache)
            outcome, details, trial = run(case, site)
            seconds = time.monotonic() - began
            wanted = arguments.answers and outcome == "passed" and trial.processes
            return outcome, details, row(case, outcome, trial), seconds, answers.row(case, trial, site) if wanted else None

        supply_all(cases, Site(REPOSITORY, stage, reader, counter, scratch, cache))
        jobs = 1 if arguments.answers else arguments.jobs
        for case, (outcome, details, line, seconds, answer) in pool.outcomes(cases, jobs, timed, lambda case: case.name in ALONE):
            counts[outcome] += 1
            rows[case.name, case.mode] = line
            answered += [answer] if answer else []
            print(f"{outcome} {case.name} ({seconds:.1f} s){f': {details}' if details else ''}", flush=True)
    # In the order of the list, whichever ended first.
    rows = [rows[case.name, case.mode] for case in cases]
    if arguments.answers:
        arguments.answers.write_text(answers.table(answered))
    print(f"\n{table(rows)}\n\nprograms: {counts['passed']} passed, {counts['FAILED']} failed, {counts['SKIPPED']} skipped")
    return 1 if counts["FAILED"] or not any(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
