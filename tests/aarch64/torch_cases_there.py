#!/usr/bin/env python3
"""Within an emulated system: cases of tests/frameworks that need no device, with the torch of one interpreter.

    torch_cases_there.py PYTHON [TEXT]

PYTHON has torch and the package of ours. Only cases with TEXT in their names are run, if it is given.
"""

import pathlib
import sys
import tempfile
import time
import traceback

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/frameworks"))

import attached_cases  # noqa: E402
import leak_cases  # noqa: E402
import manual_cases  # noqa: E402
import operator_cases  # noqa: E402
import recording  # noqa: E402
import run  # noqa: E402
import storage_cases  # noqa: E402

CASES = ["operators of torch on the host", "operators of torch on the host, after start()", "torch on the CPU, storages, fork",
         "torch that leaks, list", "manual's pieces of Python, CPU"]


def main():
    python = pathlib.Path(sys.argv[1])
    only = "".join(sys.argv[2:])
    for module in (attached_cases, leak_cases, operator_cases, storage_cases):
        module.torch_npu = lambda *_versions: python
    recording.TIMEOUT_SECONDS = 3600
    (package,) = python.parent.parent.glob("lib/python3.*/site-packages")
    cases = {case.name: case for case in operator_cases.CASES + storage_cases.CASES + leak_cases.CASES + manual_cases.CASES}
    failed = 0
    for case in (cases[name] for name in CASES if only in name):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="msmemscope-") as scratch:
            site = run.Site(package / "msmemscope", pathlib.Path("/nonexistent"), lambda: package, pathlib.Path(scratch))
            try:
                outcome, details = "passed", case.run(site)
            except recording.Failed as why:
                outcome, details = "FAILED", str(why)
            except Exception:  # One broken case must not hide the others.
                outcome, details = "FAILED", traceback.format_exc()
        failed += outcome == "FAILED"
        print(f"{outcome}  aarch64 {case.name} ({time.monotonic() - began:.0f} s): {details}", flush=True)
    return min(failed, 1)


sys.exit(main())
