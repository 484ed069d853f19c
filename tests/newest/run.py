#!/usr/bin/env python3
"""Tests the wheel with a CPython and a C library that are newer than this machine's: those of Debian's unstable distribution.

    tests/newest/run.py dist/msmemscope-*.whl [TEST ...]

Makes the root of such a system in .cache/newest (a minute, once) and enters it, which needs root. Runs the tests that depend on the
interpreter, or those that are named (`discover`: all). Not part of `make test`, but of what a submission must pass.
"""

import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def script(name, path):
    """Another script, as a module."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


debian11 = script("debian11", "tests/debian11/run.py")
python_tests = script("python_tests", "python/tests/run.py")

PYTHON = "python3.14"
RELEASE = "sid"
PACKAGES = [f"{PYTHON}-venv", "gcc", "libc6-dev", "util-linux", "bash", "zsh", "libjemalloc2", "libtcmalloc-minimal4"]
CACHE = pathlib.Path(os.environ.get("MSMEMSCOPE_NEWEST") or REPOSITORY / ".cache/newest").resolve()
ROOT, STAMP = CACHE / "root", CACHE / "complete.json"
MOST_SECONDS = 1500


def make_root():
    wanted = {"release": RELEASE, "packages": PACKAGES}
    if STAMP.exists() and json.loads(STAMP.read_text()) == wanted:
        return
    debian11.answer_of(REPOSITORY / "scripts/packages", "mmdebstrap:mmdebstrap")
    print(f"installing Debian {RELEASE} into {ROOT}", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    settings = [line for line in debian11.answer_of("apt-config", "dump", "Acquire").splitlines() if "Proxy" in line]
    # Signed as always, but a mirror may be some days behind.
    settings.append('Acquire::Check-Valid-Until "false";')
    debian11.answer_of(
        "mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={line}" for line in settings), RELEASE, ROOT, f"deb {debian11.mirror()} {RELEASE} main",
    )
    STAMP.write_text(json.dumps(wanted))


def main():
    wheel, *tests = sys.argv[1:]
    if os.geteuid():
        print("SKIPPED newest: entering another root directory needs root")
        return 0
    try:
        make_root()
    except debian11.Unavailable as why:
        print(f"SKIPPED newest: {why}")
        return 0
    inside = ROOT / "mnt"
    root, here, there = shlex.quote(str(ROOT)), shlex.quote(str(REPOSITORY)), shlex.quote(str(inside))
    path = shlex.quote(f"/mnt/{pathlib.Path(wheel).resolve().relative_to(REPOSITORY)}")
    program = (
        f"{PYTHON} -m venv /tmp/venv && /tmp/venv/bin/pip install --quiet --no-index {path} && cd /mnt/python/tests && "
        f"PYTHONDONTWRITEBYTECODE=1 /tmp/venv/bin/python -m unittest {' '.join(map(shlex.quote, tests or python_tests.OF_INTERPRETER))}"
    )
    steps = [
        "set -eu", f"mount --bind {root} {root}", f"mount --bind {here} {there}", f"mount --rbind /dev {root}/dev",
        f"mount -t proc proc {root}/proc", f"mount -t tmpfs none {root}/tmp",
        f"exec chroot {root} sh -c {shlex.quote(program)}",
    ]
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(steps)]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, timeout=MOST_SECONDS, check=False)
    print(f"python: newest ({PYTHON}, Debian {RELEASE}): {'passed' if done.returncode == 0 else 'FAILED'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
