#!/usr/bin/env python3
"""The command and the recording libraries for aarch64 on a kernel whose pages are larger than 4 KiB, in an emulated machine.

    tests/aarch64/large_pages.py STAGE

STAGE is where `make wheel-aarch64` has put them. Installs the emulator and Debian's kernel with pages of 16 KiB into .cache/aarch64,
and says SKIPPED, loudly, where they cannot be had. Needs root to unpack them.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import system

COMPILER = "aarch64-linux-gnu-gcc"
RELEASE, KERNEL, MACHINE = "trixie", "linux-image-arm64-16k", "qemu-system-arm"
HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ["ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1"]
PROGRAMS = ["leaky", "forks"]
THREADS, CHILDREN, ROUNDS = 16, 5, 20000
MOST_SECONDS = 900


def install():
    """Where the kernel is, and the emulator with its libraries."""
    place, stamp, wanted = system.CACHE / "machine", system.CACHE / "machine.json", [RELEASE, KERNEL, MACHINE]
    kernel = system.CACHE / "kernel-16k"
    if not stamp.exists() or json.loads(stamp.read_text()) != wanted:
        print(f"installing {MACHINE} and {KERNEL} into {system.CACHE}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        system.extract(RELEASE, "amd64", [MACHINE], place)
        with tempfile.TemporaryDirectory(dir=system.CACHE) as scratch:
            system.extract(RELEASE, "arm64", [KERNEL], scratch)
            (image,) = (path for path in pathlib.Path(scratch, "boot").glob("vmlinuz-*-16k"))
            shutil.copy2(image, kernel)
        stamp.write_text(json.dumps(wanted))
    return place, kernel


def archive(files, path):
    """An initial file system, as the kernel unpacks it (cpio, "newc")."""
    directories = sorted({parent for name in files for parent in pathlib.PurePath(name).parents if parent.name} | {
        pathlib.PurePath(name) for name in ("proc", "dev", "tmp")})
    entries = [(str(name), 0o40755, b"", (0, 0)) for name in directories]
    entries += [("dev/console", 0o20600, b"", (5, 1))]
    entries += [(name, 0o100755, pathlib.Path(source).read_bytes(), (0, 0)) for name, source in files.items()]
    entries += [("TRAILER!!!", 0, b"", (0, 0))]
    with gzip.open(path, "wb", 1) as out:
        for number, (name, mode, content, device) in enumerate(entries, 1):
            text = name.encode() + b"\0"
            fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(text), 0)
            head = b"070701" + b"".join(b"%08x" % field for field in fields) + text
            out.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))


def boot(place, kernel, stage, scratch):
    """What is said on the console."""
    for name, flags in (("init", ["-static"]), *((program, ["-g", "-pthread"]) for program in PROGRAMS)):
        subprocess.run([COMPILER, "-O1", *flags, "-o", scratch / name, HERE / f"{name}.c"], check=True)
    files = {"init": scratch / "init", "bin/msmemscope": stage / "libexec/msmemscope"}
    files |= {program: scratch / program for program in PROGRAMS}
    files |= {f"lib64/{library.name}": library for library in (stage / "lib64").iterdir()}
    # Where a path in it leads is below that root.
    there = [system.ROOT / "usr/lib/aarch64-linux-gnu", system.ROOT / "lib/aarch64-linux-gnu"]
    for name in LIBRARIES:
        files[f"lib/{name}"] = next(path / name for path in there if (path / name).is_file())
    archive(files, scratch / "initial.gz")
    libraries = place / "usr/lib/x86_64-linux-gnu"
    words = [
        place / "usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, place / "usr/bin/qemu-system-aarch64",
        "-L", place / "usr/share/qemu", "-machine", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", "2048", "-nographic",
        "-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", scratch / "initial.gz",
        "-append", f"console=ttyAMA0 quiet panic=-1 -- {' '.join('/' + program for program in PROGRAMS)}",
    ]
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=MOST_SECONDS, check=False)
    return done.stdout.decode(errors="replace").replace("\r", "")


def check(console):
    def found(pattern):
        match = re.search(pattern, console)
        assert match, f"no {pattern!r} in:\n{console[-6000:]}"
        return match

    page = int(found(r"### pages of (\d+)")[1])
    assert page > 4096, f"pages of {page} bytes"
    found("### end")
    for program in PROGRAMS:
        found(f"### /{program}: status 0")
    assert "LOST" not in console, console[-6000:]
    events = [int(number.replace(",", "")) for number in re.findall(r"recorded: ([\d,]+) events, none lost", console)]
    assert len(events) == len(PROGRAMS) and events[0] > 16_000 and events[1] > 2 * ROUNDS * (THREADS + CHILDREN), events
    found(rf"{1 + CHILDREN} processes recorded")
    found(r"innermost at \S+leaky.c")
    return f"{sum(events):,} events on pages of {page} bytes"


def main():
    stage = pathlib.Path(sys.argv[1]).resolve()
    if os.uname().machine != "x86_64":
        print("SKIPPED aarch64 with large pages: the emulator is installed for x86-64")
        return 0
    try:
        system.make()
        place, kernel = install()
    except system.Unavailable as why:
        print(f"SKIPPED aarch64 with large pages: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="msmemscope-") as scratch:
        print(f"passed  aarch64 with large pages: {check(boot(place, kernel, stage, pathlib.Path(scratch)))}")
    return 0


sys.exit(main())
