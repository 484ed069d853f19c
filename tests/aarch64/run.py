#!/usr/bin/env python3
"""The recording libraries built for aarch64, at work in a C and in a Python program under emulation; exported by the command of
this machine.

    tests/aarch64/run.py --stage DIR

Needs `make build`. Installs the Rust target, a cross compiler, qemu and a Debian for aarch64 where they are missing; says
SKIPPED, loudly, and ends with success if they cannot be had. What needs more time is in torch.py.
"""

import argparse
import collections
import csv
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import system

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-gnu"
COMPILER, EMULATOR, LIBRARIES = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
THREADS, ROUNDS, LOST = 4, 2000, 12345
SETTINGS = ("v=1;run=7;brand=msmemscope;utc=0;hz=0;c=50;py=0;cpu=1;npu=0;level=1;events=3;dump=3;analysis=0;oomk=0;mode=0;"
            "steps=;max=0;format=0;log=0;watch=;dir=")


# Return addresses with pointer authentication codes, as Ubuntu and others build everything.
PROGRAMS = {"leaky": [], "signed": ["-mbranch-protection=standard"]}
PYTHON_SETTINGS = SETTINGS.replace("py=0", "py=50")
BYTES, KEPT = 300_000, 10


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)


def prepare(scratch):
    """Builds libraries and programs; returns where to build more, and the list of libraries to preload."""
    packages = run(REPOSITORY / "scripts/packages", f"{COMPILER}:gcc-aarch64-linux-gnu", f"{EMULATOR}:qemu-user",
                   f"{LIBRARIES}/include/stdlib.h:libc6-dev-arm64-cross")
    if packages.returncode or not shutil.which(COMPILER) or not shutil.which(EMULATOR):
        raise system.Unavailable(f"no cross compiler or emulator: {packages.stderr.strip()}")
    target = run("rustup", "target", "add", TARGET, cwd=REPOSITORY) if shutil.which("rustup") else None
    if target is None or target.returncode:
        raise system.Unavailable(f"no Rust target {TARGET}: {target.stderr.strip() if target else 'there is no rustup'}")
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target").resolve() / "aarch64"
    built = run("cargo", "build", "--locked", "--profile", "preload", "--target", TARGET, "--target-dir", directory,
                "-p", "memscope-preload", "-p", "memscope-preload-host", "-p", "memscope-attach", cwd=REPOSITORY,
                env={**os.environ, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": COMPILER})
    assert built.returncode == 0, built.stderr
    for program, flags in PROGRAMS.items():
        compiled = run(COMPILER, "-g", "-O1", "-pthread", *flags, "-o", scratch / program, REPOSITORY / "tests/aarch64/leaky.c")
        assert compiled.returncode == 0, compiled.stderr
    libraries = directory / TARGET / "preload"
    return directory, f"{libraries}/libascend_kernel_hook.so:{libraries}/libmsmemscope_host.so"


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
    output = scratch / "-".join(["output", program.name, *arguments])
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


def check_python(stage, libraries, scratch, *late):
    """Python's allocations of a thread, and of a forked child: with their lines, and with native stacks down to the program's entry."""
    output = scratch / f"python{len(late)}"
    output.mkdir()
    preload = [] if late else [f"LD_PRELOAD={libraries}"]
    program = shlex.join(["env", f"MSMEMSCOPE_RECORD={PYTHON_SETTINGS}{output}", *preload, "python3", "tests/aarch64/leaky.py", *late])
    status = system.within(f"{program} > {shlex.quote(str(output))}/said", timeout=600)
    assert (status, (output / "said").read_text()) == (0, "child ended with 0\n"), status
    exported = run(stage / "bin/msmemscope", "export", output, "--format", "csv", "--stacks", "inline")
    assert exported.returncode == 0 and "none lost" in exported.stderr, exported
    total, made, freed = 0, collections.Counter(), collections.Counter()
    for file in output.glob("*/device_cpu/dump/*.csv"):
        with open(file, newline="") as text:
            rows = [row for row in csv.DictReader(text) if row["Event"] in ("MALLOC", "FREE")]
        total += len(rows)
        sizes = {row["Ptr"]: size_of(row) for row in rows if row["Event"] == "MALLOC"}
        freed.update(sizes.get(row["Ptr"], 0) // BYTES for row in rows if row["Event"] == "FREE")
        for row in rows:
            lines = [line.split(": ")[-1] for line in row["Call Stack(Python)"].splitlines()]
            if row["Event"] == "MALLOC" and size_of(row) >= BYTES and "keep" in lines:
                modules = [line.split("+0x")[0] for line in row["Call Stack(C)"].splitlines()]
                made[size_of(row) // BYTES, lines[0]] += 1
                assert len(modules) > 5 and modules[0] == "python3.11", row
                # A thread's stack ends where libc starts it.
                assert modules[-1] == ("libc.so.6" if size_of(row) // BYTES == 2 else "python3.11"), row
    for place in (1, 2, 3):
        assert (made[place, "innermost"], made[place, "keep"]) == (KEPT, KEPT), (place, made)
        assert freed[place] >= KEPT, (place, freed)
    return f"{total:,} events"


def size_of(row):
    """Of a row of memory, which all of these are."""
    return int(row["Attr"].split("size:")[1].split(",")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=pathlib.Path, default=REPOSITORY / "target/stage")
    stage = parser.parse_args().stage.resolve()
    # Below the repository, which is the same place in the emulated system.
    with tempfile.TemporaryDirectory(prefix="aarch64-", dir=stage.parent) as scratch:
        scratch = pathlib.Path(scratch)
        try:
            directory, libraries = prepare(scratch)
        except system.Unavailable as why:
            print(f"SKIPPED aarch64: {why}")
            return 0
        print(f"passed  aarch64 entry stubs: {check_stubs(directory)}")
        for program, *arguments in (["leaky"], ["leaky", "kill"], ["signed"]):
            print(f"passed  aarch64 {' '.join([program, *arguments])}: {check(stage, scratch / program, libraries, scratch, *arguments)}")
        try:
            system.check()
        except system.Unavailable as why:
            print(f"SKIPPED aarch64 with Python: {why}")
            return 0
        for name, late in (("Python", ()), ("Python, loaded late", (str(directory / TARGET / "preload"),))):
            print(f"passed  aarch64 {name}: {check_python(stage, libraries, scratch, *late)}")
    return 0


sys.exit(main())
