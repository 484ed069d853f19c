#!/usr/bin/env python3
"""Tests the wheel in fresh environments: one for each Python that is at hand, with the wheel in it and nothing else.

    python3 python/tests/run.py dist/msmemscope-*.whl [TEST ...]

All tests run with the Python that runs this; with others those that depend on the interpreter.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, List

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


def test(version: str, python: str, wheel: str, scratch: str, tests: List[str], packages: str = "") -> bool:
    environment = os.path.join(scratch, version)
    subprocess.run([python, "-m", "venv", environment], check=True)
    inside = os.path.join(environment, "bin", "python")
    subprocess.run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel], check=True)
    variables = {**os.environ, "PYTHONPATH": packages} if packages else None
    command = [inside, "-W", "error::ResourceWarning", "-m", "unittest", *tests]
    done = subprocess.run(command, cwd=HERE, env=variables, check=False)
    print(f"python: {version} ({python}): {'passed' if done.returncode == 0 else 'FAILED'}", flush=True)
    return done.returncode == 0


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
            print("python: with pandas: SKIPPED, it cannot be installed here", flush=True)
            return True
        with open(os.path.join(home, "complete"), "w"):
            pass
    return test("with-pandas", sys.executable, wheel, scratch, ["test_reading.Frames"], home)


def main() -> int:
    wheel, *chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        results = []
        for version, python in interpreters().items():
            tests = chosen or (["discover", "-q"] if python == sys.executable else OF_INTERPRETER)
            results.append(test(version, python, os.path.abspath(wheel), scratch, tests))
        if not chosen:
            results.append(test_with_pandas(os.path.abspath(wheel), scratch))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
