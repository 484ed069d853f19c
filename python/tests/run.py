#!/usr/bin/env python3
"""Tests the wheel in fresh environments: one for each Python that is at hand, with the wheel in it and nothing else.

    python3 python/tests/run.py [--with this|others|all] [--jobs N] dist/msmemscope-*.whl [TEST ...]

All tests run with the Python that runs this; with others those that depend on the interpreter. Several run at once, as many as there
are processors: files of tests, or interpreters.
"""
import argparse
import concurrent.futures
import functools
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 9)
#: What may differ from one interpreter to the next.
OF_INTERPRETER = [
    "test_analyzer",
    "test_attach",
    "test_command",
    "test_describe",
    "test_devices",
    "test_life",
    "test_package",
    "test_reading",
    "test_record",
    "test_tracer",
    "test_tracer_beside",
]
SLOWEST = ["test_describe", "test_keeper", "test_life", "test_tracer"]
PROGRAM = "import sys, venv, ensurepip; print(*sys.version_info[:2])"


def interpreters() -> Dict[str, str]:
    """One of each version; the one that runs this first."""
    names = [sys.executable, "/usr/bin/python3"]
    names += [path for minor in range(OLDEST[1], 20) for path in [shutil.which(f"python3.{minor}")] if path]
    names += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))
    found: Dict[str, str] = {}
    for name in names:
        said = subprocess.run([name, "-c", PROGRAM], capture_output=True, text=True, check=False)
        version = tuple(map(int, said.stdout.split())) if said.returncode == 0 else ()
        if version >= OLDEST:
            found.setdefault(".".join(map(str, version)), name)
    return found


class Environment:
    """A fresh one, with the wheel in it."""

    def __init__(self, version: str, python: str, wheel: str, scratch: str) -> None:
        self.name = f"{version} ({python})"
        directory = os.path.join(scratch, version)
        subprocess.run([python, "-m", "venv", directory], check=True)
        self.python = os.path.join(directory, "bin", "python")
        subprocess.run([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel], check=True)

    def test(self, tests: List[str], packages: str = "") -> bool:
        """Whether they pass; says so, and all that they have said, in one piece."""
        began = time.monotonic()
        variables = {**os.environ, "PYTHONPATH": packages} if packages else None
        command = [self.python, "-W", "error::ResourceWarning", "-m", "unittest", "-q", *tests]
        done = subprocess.run(command, cwd=HERE, env=variables, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        outcome = "passed" if done.returncode == 0 else "FAILED"
        what = tests[0] if len(tests) == 1 else f"{len(tests)} files of tests"
        print(f"{done.stdout}python: {self.name}: {what}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
        return done.returncode == 0


def test_in(environment: "concurrent.futures.Future[Environment]", tests: List[str]) -> bool:
    """In one that was asked for before: the workers take up what they are asked for in order, so it is made, or being made."""
    return environment.result().test(tests)


def test_with_pandas(wheel: str, scratch: str) -> bool:
    """What needs pandas, in an environment that sees one which is installed once, into .cache."""
    cache = os.path.realpath(os.path.join(HERE, "..", "..", ".cache"))
    home = os.path.join(cache, f"pandas-{sys.version_info[0]}.{sys.version_info[1]}")
    if not os.path.exists(os.path.join(home, "complete")):
        # By a pip that sees nothing else that is installed.
        installer = os.path.join(scratch, "installer")
        subprocess.run([sys.executable, "-m", "venv", installer], check=True)
        pip = [os.path.join(installer, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--only-binary", ":all:", "--target", home, "--upgrade", "pandas"], check=False).returncode != 0:
            print("SKIPPED python with pandas: it cannot be installed here", flush=True)
            return True
        with open(os.path.join(home, "complete"), "w"):
            pass
    return Environment("with-pandas", sys.executable, wheel, scratch).test(["test_reading.Frames"], home)


def all_tests() -> List[str]:
    """By file, the slowest first: none of them is to begin when all others have ended."""
    names = [os.path.basename(file)[:-len(".py")] for file in glob.glob(os.path.join(HERE, "test_*.py"))]
    return sorted(names, key=lambda name: (name not in SLOWEST, name))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=os.path.abspath)
    parser.add_argument("tests", nargs="*", metavar="TEST")
    parser.add_argument("--with", dest="which", choices=["this", "others", "all"], default="all", help="which of the Pythons at hand")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many run at once (default: %(default)s)")
    arguments = parser.parse_args()
    runs: List[Callable[[], bool]] = []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        for version, python in interpreters().items():
            is_this = python == sys.executable
            if arguments.which == ("others" if is_this else "this"):
                continue
            environment = workers.submit(Environment, version, python, arguments.wheel, scratch)
            groups = [arguments.tests or OF_INTERPRETER]
            if is_this and not arguments.tests:
                groups = [[test] for test in all_tests()]
                runs.append(functools.partial(test_with_pandas, arguments.wheel, scratch))
            runs += [functools.partial(test_in, environment, group) for group in groups]
        results = [run.result() for run in [workers.submit(run) for run in runs]]
    if not results:
        print("SKIPPED python: there is no other at hand")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
