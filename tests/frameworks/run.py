#!/usr/bin/env python3
"""Real frameworks under msmemscope on the simulated CANN: what the export says must be what the framework says.

    tests/frameworks/run.py quick|further|all [--stage DIR] [--sim DIR] [--only TEXT] [--jobs N]

quick: C programs that do what frameworks do, a C++ program that uses ATB, and torch_npu 2.7.1. further: MindSpore
2.7.1 and 2.10.0, and torch_npu 2.6.0. Needs `make wheel sim`. Cases run over as many workers as there are processors. One line per
case, as it ends; exit status 1 if one fails, and, if CI is set, also if one is skipped.
Frameworks are installed into MSMEMSCOPE_CACHE (default .cache/frameworks of the repository).
"""

import argparse
import fcntl
import functools
import os
import pathlib
import sys
import tempfile
import time
import traceback

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))

import atb_cases
import attached_cases
import decompose_cases
import device_cases
import kernel_cases
import leak_cases
import manual_cases
import mindspore_cases
import operator_cases
import pool
import storage_cases
import stream_cases
import torch_cases
import usage_cases
import watch_cases
from environments import REPOSITORY, Toolkit, Unavailable, unpacked
from recording import Failed

QUICK = (device_cases.CASES + kernel_cases.CASES + atb_cases.CASES + torch_cases.CURRENT_CASES + operator_cases.CASES
         + stream_cases.CASES + storage_cases.CASES + leak_cases.CASES + usage_cases.CASES + attached_cases.CASES + decompose_cases.CASES
         + manual_cases.CASES + watch_cases.CASES)
FURTHER = (mindspore_cases.CASES + torch_cases.OLD_CASES + leak_cases.FURTHER_CASES + usage_cases.FURTHER_CASES
           + attached_cases.FURTHER_CASES + decompose_cases.FURTHER_CASES + stream_cases.FURTHER_CASES)
SETS = {"quick": QUICK, "further": FURTHER, "all": QUICK + FURTHER}
# What measures, or has so many processes of its own that beside another it would be a test of patience.
ALONE = set()


class Site:
    """Where the case finds what is under test, and where it may write."""

    def __init__(self, stage, sim, package, scratch):
        self.stage = stage
        # The directory of the Python package, unpacked when it is first asked for.
        self.package = package
        self.toolkit = Toolkit(sim / "ascend-toolkit/latest")
        self.toolkit_without_inner = Toolkit(sim / "ascend-toolkit-no-inner/latest")
        self.scratch = scratch
        self.outputs = 0

    def output(self):
        self.outputs += 1
        return self.scratch / f"output{self.outputs}"


def attempt(case, stage, sim, package):
    """`passed`, `FAILED` or `SKIPPED`, and what there is to say of it."""
    with tempfile.TemporaryDirectory(prefix="msmemscope-") as scratch:
        try:
            return "passed", case.run(Site(stage, sim, package, pathlib.Path(scratch)))
        except Unavailable as why:
            return "SKIPPED", str(why)
        except Failed as why:
            return "FAILED", str(why)
        except Exception:  # One broken case must not hide the others.
            return "FAILED", traceback.format_exc()


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--stage", type=pathlib.Path, default=target / "stage", help="the installation under test")
    parser.add_argument("--sim", type=pathlib.Path, default=target / "sim", help="where sim/build.sh has put its trees")
    parser.add_argument("--wheels", type=pathlib.Path, default=REPOSITORY / "dist", help="where the Python package is")
    parser.add_argument("--only", default="", help="run the cases with this text in their names")
    pool.add_option(parser)
    arguments = parser.parse_args()
    for needed in (arguments.stage / "bin/msmemscope", arguments.sim / "ascend-toolkit/latest/lib64"):
        if not needed.exists():
            sys.exit(f"{needed} does not exist; run `make wheel sim` first")

    with tempfile.TemporaryDirectory(prefix="msmemscope-") as packages:
        return run(arguments, functools.partial(package_in, pathlib.Path(packages), arguments.wheels))


def package_in(directory, wheels):
    """Where the Python package is unpacked, by the worker that is the first to ask for it."""
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "package").exists():
            unpacked(wheels, directory / "unfinished").rename(directory / "package")
    return directory / "package"


def run(arguments, package):
    def timed(case):
        began = time.monotonic()
        return *attempt(case, arguments.stage.resolve(), arguments.sim.resolve(), package), time.monotonic() - began

    counts = dict.fromkeys(("passed", "FAILED", "SKIPPED"), 0)
    cases = [case for case in SETS[arguments.set] if arguments.only in case.name]
    for case, (outcome, details, seconds) in pool.outcomes(cases, arguments.jobs, timed, lambda case: case.name in ALONE):
        counts[outcome] += 1
        print(f"{outcome} {case.name} ({seconds:.1f} s): {details}", flush=True)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['SKIPPED']} skipped")
    if counts["SKIPPED"]:
        print("frameworks: NOT EVERYTHING WAS TESTED, see SKIPPED above", file=sys.stderr)
    return 1 if counts["FAILED"] or not any(counts.values()) or (counts["SKIPPED"] and os.environ.get("CI")) else 0


if __name__ == "__main__":
    sys.exit(main())
