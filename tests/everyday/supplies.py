"""What the programs need, installed once: packages of the distribution, and environments of Python in a cache directory."""

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys

from trial import Failed, Unavailable

# Pinned, so that two runs of the tests are of the same programs.
PYTHON_PACKAGES = ["pandas==2.3.3", "scikit-learn==1.7.2", "gevent==25.9.1", "ipykernel==6.30.1", "pytest==8.4.2"]
TORCH = "2.7.1"


def step(*words, **variables):
    """Fetches something, which may not be possible here."""
    done = subprocess.run([str(word) for word in words], env=os.environ | variables, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, words))[:200]}: {done.stdout.strip()[-500:]}")


def once(install):
    """What cannot be had is not tried again for every case."""
    outcomes = {}

    @functools.wraps(install)
    def remembered(site, *words):
        if words not in outcomes:
            try:
                outcomes[words] = install(site, *words)
            except Unavailable as why:
                outcomes[words] = why
        if isinstance(outcomes[words], Unavailable):
            raise outcomes[words]
        return outcomes[words]

    return remembered


@once
def packages(site, *wanted):
    """`WHAT:PACKAGE`, as for `scripts/packages`."""
    step(site.repository / "scripts/packages", *wanted)


def kept(site, name, contents, fill):
    """A directory of the cache that `fill(directory)` makes if it is not there as wanted."""
    directory = site.cache / name
    stamp = directory / "complete.json"
    directory.mkdir(parents=True, exist_ok=True)
    with open(site.cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and json.loads(stamp.read_text()) == contents):
            print(f"installing {name} into {directory}", flush=True)
            shutil.rmtree(directory)
            directory.mkdir()
            fill(directory)
            stamp.write_text(json.dumps(contents))
    return directory


@once
def python_packages(site):
    def fill(directory):
        step(sys.executable, "-m", "venv", directory)
        step(directory / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_PACKAGES)

    return kept(site, "packages", {"packages": PYTHON_PACKAGES, "python": sys.version}, fill)


@once
def torch(site):
    def fill(directory):
        step(sys.executable, site.repository / "scripts/lean_torch.py", "--venv", directory, "--torch", TORCH)

    return kept(site, "torch", {"torch": TORCH, "python": sys.version}, fill)


@once
def go_programs(site):
    """One program that is C and Go, one that is Go alone and therefore static."""
    sources = {name: (site.workloads / name).read_text() for name in ("mixed.go", "alone.go")}

    def fill(directory):
        for source, cgo in (("mixed.go", "1"), ("alone.go", "0")):
            step("go", "build", "-o", directory / source.removesuffix(".go"), site.workloads / source,
                 CGO_ENABLED=cgo, GOCACHE=str(site.cache / "go-build"), GOFLAGS="-mod=mod", GO111MODULE="off")

    return kept(site, "go", sources, fill)


def found(name, *places):
    """The program itself, where something else of its name may come first."""
    for place in (*places, shutil.which(name)):
        if place and os.access(place, os.X_OK):
            return place
    raise Failed(f"{name} was installed and is not there")
