#!/usr/bin/env python3
"""The Python package for aarch64 with CPython and torch of that processor, under emulation.

    tests/aarch64/run_torch.py WHEEL [torch|python [TEXT]]

Needs `make wheel-aarch64`. Installs a Debian for aarch64 and torch into .cache/aarch64 (1.2 GB), and says SKIPPED, loudly, where they
cannot be had. Emulated, torch is some thirty times slower: this takes half an hour and is not part of `.ci/run`.
"""

import json
import pathlib
import shlex
import subprocess
import sys

import system

PYTHON = "python3.11"
TORCH = "2.8.0"
# What torch needs of them; it asks for more where it finds a graphics processor.
COMPANIONS = ["numpy", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "mpmath", "markupsafe"]
PLATFORMS = ["manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"]
# Of python/tests: all that needs nothing but an interpreter.
TESTS = ["test_analyzer", "test_attach", "test_command.UnderCommand", "test_describe", "test_keeper", "test_life", "test_record",
         "test_reading", "test_storages", "test_tracer", "test_tracer_beside"]
# A name space cannot be made within another of the emulator's.
NOT_THERE = {"test_the_first_process_of_a_container_has_its_files_when_it_ends",
             "test_files_that_do_not_fit_are_an_error_of_wait_and_can_be_written_elsewhere"}
ENVIRONMENT = pathlib.Path("/opt/environment")
MOST_SECONDS = 7200


def install_torch():
    """Into a directory of its own, by the pip of this machine: that of the other would take very long."""
    place = system.CACHE / "torch"
    stamp, wanted = system.CACHE / "torch.json", [TORCH, *COMPANIONS]
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return place
    print(f"installing torch {TORCH} for aarch64 into {place}", flush=True)
    system.debian11.answer_of(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", place,
        "--python-version", PYTHON.removeprefix("python"), "--only-binary", ":all:",
        *(word for platform in PLATFORMS for word in ("--platform", platform)), f"torch=={TORCH}", *COMPANIONS,
    )
    stamp.write_text(json.dumps(wanted))
    return place


def must(what, command):
    status = system.within(command, timeout=MOST_SECONDS)
    print(f"{'FAILED' if status else 'passed'}  aarch64 {what}", flush=True)
    return status == 0


def install_package(wheel, torch):
    """A fresh environment, with the package in it and torch in sight, where its files count as a library's."""
    packages = ENVIRONMENT / "lib" / PYTHON / "site-packages"
    links = system.ROOT / packages.relative_to("/")
    command = (
        f"rm -rf {ENVIRONMENT} && {PYTHON} -m venv --without-pip {ENVIRONMENT} && {PYTHON} -m pip --python {ENVIRONMENT}/bin/python "
        f"install --quiet --disable-pip-version-check --no-index {shlex.quote(str(wheel))}"
    )
    if not must("installation of the wheel", command):
        return False
    # The same files, not the same names: what is a link would be known by the place it leads to.
    subprocess.run(["cp", "-a", "--link", f"{torch}/.", links], check=True)
    return True


def main():
    wheel, *chosen = sys.argv[1:]
    wheel = pathlib.Path(wheel).resolve()
    part, *texts = chosen or ["all"]
    try:
        system.check()
        torch = install_torch()
    except system.Unavailable as why:
        print(f"SKIPPED aarch64 with torch: {why}")
        return 0
    good = install_package(wheel, torch)
    python = ENVIRONMENT / "bin/python"
    if good and part in ("all", "torch"):
        words = shlex.join(["tests/aarch64/torch_cases_there.py", str(python), *texts])
        good = must("cases with torch", f"{PYTHON} {words}")
    if part in ("all", "python"):
        for name in sorted(NOT_THERE):
            print(f"SKIPPED aarch64 {name}: no name space within that of the emulator")
        words = shlex.join([str(python), "-c", RUN_TESTS, ",".join(NOT_THERE), *(texts or TESTS)])
        good = must("tests of the package", f"cd python/tests && MSMEMSCOPE_TORCH={python} {words}") and good
    return 0 if good else 1


RUN_TESTS = """
import sys, unittest
left_out, *names = sys.argv[1:]
def wanted(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from wanted(test)
        elif test.id().split('.')[-1] not in left_out.split(','):
            yield test
suite = unittest.TestSuite(wanted(unittest.defaultTestLoader.loadTestsFromNames(names)))
sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())
"""


if __name__ == "__main__":
    sys.exit(main())
