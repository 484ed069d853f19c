#!/usr/bin/env python3
"""The long tests, for hours: never a condition of landing. What they find is written, with its date, to docs/test-long.md.

    tests/long/run.py [--stage DIR] [--only PART ...] [--brief] [--table FILE] [--scratch DIR]
                      [--model N] [--kills N] [--chaos N] [--properties N] [--minutes N] [--events N]

--brief tries whether each part works, in some minutes; what is given beside it still counts. The events need some 200 bytes each in
the scratch directory. Exit status 1 if a part fails.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import recordings
from recordings import REPOSITORY, Failed, run

TESTED = ["--workspace", "--exclude", "memscope-preload", "--exclude", "memscope-preload-host", "--exclude", "memscope-attach",
          "--features", "memscope-recorder/model", "--locked"]
# Where a property has no number of its own.
PROPTEST_USUAL = 256


@dataclasses.dataclass
class Site:
    """Where the parts find what is under test, and where they may write."""
    stage: pathlib.Path
    target: pathlib.Path
    scratch: pathlib.Path


def tests(expression, **variables):
    """Tests of the workspace that take a number of rounds from the environment; nothing ends them but themselves."""
    variables = {name: str(value) for name, value in variables.items()}
    done = run("cargo", "nextest", "run", *TESTED, "--profile", "long", "--run-ignored", "default", "-E", expression,
               env=os.environ | variables)
    return next(line for line in reversed(done.stderr.splitlines()) if "tests run" in line).split("]")[-1].strip()


def model(site, number):
    return tests("package(memscope-recorder) and test(model::)", MSMEMSCOPE_MODEL_ROUNDS=number)


def kills(site, number):
    # Four tests kill so often each.
    return tests("package(memscope-tests) and test(kill::)", MSMEMSCOPE_KILL_ROUNDS=-(-number // 4), MSMEMSCOPE_STAGE=site.stage)


def chaos(site, number):
    return tests("package(memscope-tests) and test(chaos::)", MSMEMSCOPE_CHAOS_ROUNDS=number, MSMEMSCOPE_STAGE=site.stage)


def properties(site, number):
    return tests("not package(memscope-tests) and not test(model::)", MSMEMSCOPE_PROPERTY_TIMES=number,
                 PROPTEST_CASES=number * PROPTEST_USUAL)


def target_of_make(name):
    def made(site, number):
        told = [line for line in run("make", "--no-print-directory", name).stdout.splitlines() if line.startswith(("passed", "SKIPPED"))]
        if not any(line.startswith("passed") for line in told):
            raise Failed("; ".join(told) or "nothing was tested")
        return "; ".join(told)
    return made


def frameworks(site, number):
    lines = run(sys.executable, "tests/frameworks/run.py", "all", "--stage", site.stage).stdout.splitlines()
    return lines[-1]


# Name, what its number counts, that number and the one of a brief run; None where there is nothing to choose.
PARTS = [
    ("model", "pairs and triples of acts in the recorder's model", 100_000, 2000, model),
    ("kills", "kills of a program at work", 10_000, 200, kills),
    ("chaos", "random programs of each kind", 200, 2, chaos),
    ("properties", "times the usual cases of each property", 100, 2, properties),
    ("minutes", "minutes of work like a server's", 240, 1, recordings.soak),
    ("events", "events in one recording", 100_000_000, 1_000_000, recordings.many_events),
    ("frameworks", "all framework versions", None, None, frameworks),
    ("aarch64-pages", "aarch64 with pages of 16 KiB", None, None, target_of_make("test-aarch64-pages")),
    ("aarch64-torch", "aarch64 with CPython and torch", None, None, target_of_make("test-aarch64-torch")),
]


def attempt(function, site, number):
    """Outcome and what there is to say."""
    shutil.rmtree(site.scratch, ignore_errors=True)
    site.scratch.mkdir(parents=True)
    try:
        return "passed", function(site, number)
    except Failed as why:
        return "FAILED", str(why)
    except Exception:  # One broken part must not hide the others.
        return "FAILED", traceback.format_exc()


def table(rows, is_brief):
    commit = run("git", "describe", "--always", "--dirty").stdout.strip()
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), os.uname().machine)
    how = "A **brief** run, which shows that the parts work and nothing else" if is_brief else "A full run"
    lines = [
        "# The long tests", "",
        "Written by `make test-long` ([tests/long/run.py](../tests/long/run.py)), which takes hours and is no condition of landing.", "",
        f"{how}, of {datetime.date.today()}, at {commit}, on {os.cpu_count()} processors ({processor}).", "",
        "| part | how much | outcome | seconds | what it says |", "|---|--:|---|--:|---|",
    ]
    for what, number, outcome, seconds, told in rows:
        told = told.strip().splitlines()[-1] if told.strip() else ""
        lines.append(f"| {what} | {f'{number:,}' if number else ''} | {outcome} | {seconds:.0f} | {told.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=pathlib.Path, default=target / "stage", help="the installation under test")
    parser.add_argument("--only", nargs="+", choices=[name for name, *_ in PARTS], help="these parts; the table is only printed")
    parser.add_argument("--brief", action="store_true", help="try whether the parts work")
    parser.add_argument("--table", type=pathlib.Path, default=REPOSITORY / "docs/test-long.md", help="where the table is written")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()), help="where there is room")
    for name, what, number, brief, _ in PARTS:
        if number:
            parser.add_argument(f"--{name}", type=int, help=f"{what} (default: {number}, brief: {brief})")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="msmemscope-long-", dir=arguments.scratch) as scratch:
        site = Site(arguments.stage.resolve(), target, pathlib.Path(scratch) / "part")
        for name, what, usual, brief, function in PARTS:
            # What cannot be made shorter is left out of a brief run, unless it is asked for.
            if name not in arguments.only if arguments.only else arguments.brief and not usual:
                continue
            number = usual and (getattr(arguments, name) or (brief if arguments.brief else usual))
            began = time.monotonic()
            outcome, told = attempt(function, site, number)
            rows.append((what, number, outcome, time.monotonic() - began, told))
            print(f"{outcome} {name}{f' {number:,}' if number else ''} ({rows[-1][3]:.0f} s): {told}", flush=True)
    text = table(rows, arguments.brief)
    print(f"\n{text}")
    if not arguments.only:
        arguments.table.write_text(text)
    return 1 if any(outcome == "FAILED" for _, _, outcome, _, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
