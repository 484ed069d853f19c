#!/usr/bin/env python3
"""The recording libraries built for aarch64, at work in a program under emulation; exported by the command of this machine.

    tests/aarch64/run.py --stage DIR

Needs `make build`. Installs the Rust target, a cross compiler and qemu where they are missing; says SKIPPED, loudly, and
ends with success if they cannot be had.
"""

import argparse
import collections
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-gnu"
COMPILER, EMULATOR, LIBRARIES = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
THREADS, ROUNDS, LOST = 4, 2000, 12345
SETTINGS = ("v=1;run=7;brand=msmemscope;utc=0;hz=0;c=50;py=0;cpu=1;npu=0;level=1;events=3;dump=3;analysis=0;oomk=0;mode=0;"
            "steps=;max=0;format=0;log=0;watch=;dir=")


class Unavailable(Exception):
    pass


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)


def prepare(scratch):
    """Builds libraries and program; returns where to build more, the program and the list of libraries to preload."""
    packages = run(REPOSITORY / "scripts/packages", f"{COMPILER}:gcc-aarch64-linux-gnu", f"{EMULATOR}:qemu-user",
                   f"{LIBRARIES}/include/stdlib.h:libc6-dev-arm64-cross")
    if packages.returncode or not shutil.which(COMPILER) or not shutil.which(EMULATOR):
        raise Unavailable(f"no cross compiler or emulator: {packages.stderr.strip()}")
    target = run("rustup", "target", "add", TARGET, cwd=REPOSITORY) if shutil.which("rustup") else None
    if target is None or target.returncode:
        raise Unavailable(f"no Rust target {TARGET}: {target.stderr.strip() if target else 'there is no rustup'}")
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve() / "aarch64"
    built = run("cargo", "build", "--locked", "--profile", "preload", "--target", TARGET, "--target-dir", directory,
                "-p", "memscope-preload", "-p", "memscope-preload-host", cwd=REPOSITORY,
                env={**os.environ, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": COMPILER})
    assert built.returncode == 0, built.stderr
    program = scratch / "leaky"
    compiled = run(COMPILER, "-g", "-O1", "-pthread", "-o", program, REPOSITORY / "tests/aarch64/leaky.c")
    assert compiled.returncode == 0, compiled.stderr
    libraries = directory / TARGET / "preload"
    return directory, program, f"{libraries}/libascend_kernel_hook.so:{libraries}/libmsmemscope_host.so"


def check_stubs(directory):
    """The table of hooks at work: what is passed through the entry stubs of this processor arrives."""
    tested = run("cargo", "test", "--locked", "--target", TARGET, "--target-dir", directory, "-p", "memscope-hook",
                 "--test", "table", cwd=REPOSITORY, env={
                     **os.environ, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": COMPILER,
                     "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER": f"{EMULATOR} -L {LIBRARIES}"})
    assert tested.returncode == 0, tested.stdout + tested.stderr
    (summary,) = [line for line in tested.stdout.splitlines() if line.startswith("test result: ok")]
    return summary.split(";")[0].removeprefix("test result: ok. ")


def check(stage, program, libraries, scratch, *arguments):
    """One run, bare and recorded: the same to the program, and every event is in the export, with its stack."""
    bare = run(EMULATOR, "-L", LIBRARIES, program, *arguments)
    output = scratch / f"output{'-'.join(arguments)}"
    output.mkdir()
    recorded = run(EMULATOR, "-L", LIBRARIES, "-E", f"MSMEMSCOPE_RECORD={SETTINGS}{output}", "-E", f"LD_PRELOAD={libraries}",
                   program, *arguments)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (bare.returncode, bare.stdout, bare.stderr), recorded
    exported = run(stage / "bin/msmemscope", "export", output, "--format", "csv", "--stacks", "inline")
    assert exported.returncode == 0 and "none lost" in exported.stderr, exported
    (file,) = output.glob("*/device_cpu/dump/*.csv")
    with open(file, newline="") as text:
        rows = list(csv.DictReader(text))
    made = collections.Counter((row["Event"], size_of(row)) for row in rows)
    assert (made["MALLOC", LOST], made["FREE", LOST]) == (THREADS, 0), "the lost blocks"
    for size in range(16, 16 + ROUNDS):
        assert made["MALLOC", size] >= THREADS <= made["FREE", size], f"blocks of {size} bytes are missing"
    assert [made["MALLOC", 50000], made["MALLOC", 64000], made["FREE", 64000]] == [1, 1, 1], "realloc and aligned_alloc"
    for row in rows:
        if row["Event"] == "MALLOC" and size_of(row) == LOST:
            functions = [line.split(" at ")[0] for line in row["Call Stack(C)"].splitlines()]
            assert functions[:3] == ["innermost", "between", "outermost"] and len(functions) > 3, row
    return f"{len(rows):,} events"


def size_of(row):
    """Of a row of memory, which all of these are."""
    return int(row["Attr"].split("size:")[1].split(",")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=pathlib.Path, default=REPOSITORY / "target/stage")
    stage = parser.parse_args().stage.resolve()
    with tempfile.TemporaryDirectory(prefix="msmemscope-aarch64-") as scratch:
        scratch = pathlib.Path(scratch)
        try:
            directory, program, libraries = prepare(scratch)
        except Unavailable as why:
            print(f"SKIPPED aarch64: {why}")
            return 0
        print(f"passed  aarch64 entry stubs: {check_stubs(directory)}")
        for arguments in ((), ("kill",)):
            print(f"passed  aarch64 {' '.join(arguments) or 'to its end'}: {check(stage, program, libraries, scratch, *arguments)}")
    return 0


sys.exit(main())
