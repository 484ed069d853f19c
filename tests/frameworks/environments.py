"""The frameworks under test, installed once into a cache directory and used again, and the simulated CANN below them."""

import fcntl
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

from recording import Failed

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = [REPOSITORY / "tests/frameworks/workloads", REPOSITORY / "sim/tests"]

# Written when an environment is complete; one that was interrupted is made anew.
STAMP = "complete.json"

# Of the interpreters a machine may have, those every wheel below exists for.
SUITABLE_PYTHON = [(3, 11), (3, 10), (3, 9)]

# What `import torch_npu` needs beyond what torch needs.
TORCH_NPU_COMPANIONS = ["pyyaml"]


class Unavailable(Exception):
    """The framework cannot be had here; says why."""


def cache():
    return pathlib.Path(os.environ.get("MSMEMSCOPE_CACHE") or REPOSITORY / ".cache/frameworks").resolve()


def suitable_interpreter():
    if sys.version_info[:2] in SUITABLE_PYTHON:
        return sys.executable
    names = [f"python{major}.{minor}" for major, minor in SUITABLE_PYTHON]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise Unavailable(f"the wheels are for {', '.join(names)}; none of them is on this machine")
    return found


def command(*words, **variables):
    """Runs a step that has no reason to fail."""
    done = subprocess.run(words, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))} failed with status {done.returncode}:\n{done.stdout[-1500:]}")


def pip(python, *what):
    """Fetches packages, which may not be possible here."""
    try:
        command(python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *what)
    except Failed as why:
        raise Unavailable(str(why)) from None


def environment(name, contents, fill):
    """The interpreter of the virtual environment `name`, which `fill(directory)` makes if it is not there as wanted."""
    directory = cache() / name
    python, stamp = directory / "bin/python", directory / STAMP
    directory.mkdir(parents=True, exist_ok=True)
    # Another run may be filling it.
    with open(directory.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (python.exists() and stamp.exists() and json.loads(stamp.read_text()) == contents):
            print(f"installing {name} into {directory}", flush=True)
            stamp.unlink(missing_ok=True)
            fill(directory)
            stamp.write_text(json.dumps(contents))
    return python


def once(install):
    """What cannot be had is not tried again for every case."""
    outcomes = {}

    @functools.wraps(install)
    def remembered(*versions):
        if versions not in outcomes:
            try:
                outcomes[versions] = install(*versions)
            except Unavailable as why:
                outcomes[versions] = why
        if isinstance(outcomes[versions], Unavailable):
            raise outcomes[versions]
        return outcomes[versions]

    return remembered


@once
def torch_npu(torch_version, torch_npu_version):
    interpreter = suitable_interpreter()

    def fill(directory):
        python = directory / "bin/python"
        command(interpreter, "-m", "venv", directory)
        # It names a build of torch that the package index does not have as its dependency.
        pip(python, "--no-deps", f"torch=={torch_version}", f"torch_npu=={torch_npu_version}")
        # It tries torch alone: torch_npu, which torch would load by itself, needs CANN.
        command(python, REPOSITORY / "scripts/lean_torch.py", "--venv", directory, "--torch", torch_version, "--with",
                *TORCH_NPU_COMPANIONS, TORCH_DEVICE_BACKEND_AUTOLOAD="0")

    contents = {"torch": torch_version, "torch_npu": torch_npu_version, "companions": TORCH_NPU_COMPANIONS}
    return environment(f"torch_npu-{torch_npu_version}", contents, fill)


@once
def mindspore(version):
    interpreter = suitable_interpreter()

    def fill(directory):
        command(interpreter, "-m", "venv", directory)
        pip(directory / "bin/python", f"mindspore=={version}")

    return environment(f"mindspore-{version}", {"mindspore": version}, fill)


def unpacked(wheels, directory):
    """The Python package, for any interpreter that is told of the directory."""
    found = sorted(wheels.glob("msmemscope-*.whl"))
    if len(found) != 1:
        raise Failed(f"not one wheel in {wheels} but {len(found)}; run `make wheel`")
    command(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-index", "--no-deps",
            "--target", directory, found[0])
    return directory


class Toolkit:
    """An installation of the simulated CANN."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    def variables(self):
        libraries = self.directory / "lib64"
        return {
            "ASCEND_HOME_PATH": str(self.directory),
            "ASCEND_TOOLKIT_HOME": str(self.directory),
            "ASCEND_OPP_PATH": str(self.directory / "opp"),
            "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'driver'}",
            "PYTHONPATH": ":".join(map(str, [self.directory / "python/site-packages", *WORKLOADS])),
        }

    def completed_for(self, framework, python, directory):
        """A copy with the C++ functions that the wheel of `framework` is linked to and the simulator does not have."""
        packages = python.parent.parent / "lib" / f"python{python_version(python)}" / "site-packages"
        # MindSpore looks for this component of the path.
        copy = directory / "latest"
        shutil.copytree(self.directory, copy, symlinks=True)
        command(sys.executable, REPOSITORY / "sim/tests/wheel_symbols.py", copy, packages / framework)
        return Toolkit(copy)


def python_version(python):
    text = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", text], capture_output=True, text=True, check=True).stdout.strip()
