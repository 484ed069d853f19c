"""What watching costs: the checksum of memory, and an operator of ATB while a block is watched, on the simulated CANN."""
import json
import subprocess
import tempfile
from pathlib import Path

import devices
import machine
import measure
from figures import Figure

SOURCES = machine.BENCH.parent / "tests/frameworks/programs/atb"
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"4 KiB": 4 * KIB, "2 MiB": 2 * MIB}
# Two looks at a block of a page: system calls and searches among them would show. What larger ones take is the check sum's.
TARGETS = {"4 KiB": 20}
# Seconds for a gigabyte, on one core.
CHECKSUM_TARGET = 1.0


def run(stage, sim, repetitions, scratch, missing):
    return _checksum() + _operators(stage, sim, repetitions, Path(scratch), missing)


def _checksum():
    words = ["cargo", "run", "--quiet", "--release", "-p", "memscope-format", "--example", "checksum_cost"]
    done = subprocess.run(words, cwd=machine.BENCH.parent, capture_output=True, text=True)
    if done.returncode != 0:
        return [Figure("checksum of 1 GB of watched memory", None, "s", CHECKSUM_TARGET, done.stderr.strip()[-200:])]
    seconds = dict(line.split() for line in done.stdout.splitlines())
    return [Figure(f"checksum of 1 GB of watched memory, {where}", float(seconds[name]), "s", CHECKSUM_TARGET,
                   f"{1 / float(seconds[name]):.1f} GB/s on one core")
            for name, where in (("piece", "in the cache"), ("block", "of 64 MiB"))]


def _operators(stage, sim, repetitions, scratch, missing):
    title = "operator of ATB while {} are watched: added"
    if missing:
        return [Figure(title.format(size), None, "us", None, missing) for size in SIZES]
    program = _build(sim, scratch)
    tree = sim / devices.SIMULATED_CANN
    libraries = f"{tree / 'lib64'}:{tree / 'lib64/driver'}"
    figures = []
    for size, count in SIZES.items():
        best = {}
        ways = {"bare": None, "recorded": [], "light": ["--watch=StartOperation,Never"],
                "full": ["--watch=StartOperation,Never,full-content"]}
        for _ in range(repetitions):
            for way, options in ways.items():
                machine.say(f"watch: {size}, {way}")
                output = Path(tempfile.mkdtemp(dir=scratch))
                words = [] if options is None else [stage.command, "--quiet", f"--output={output}", *options, "--"]
                words = [str(word) for word in [*words, program, f"timed-{count}"]]
                code, text, *_ = measure.execute(words, timeout=600, environment={"LD_LIBRARY_PATH": libraries})
                if code != 0:
                    return [*figures, Figure(title.format(size), None, "us", None, f"exit code {code}: {text[-200:]}")]
                told = next(json.loads(line) for line in text.splitlines() if line.startswith("{"))
                best[way] = min(best.get(way, float("inf")), told["best_ns"])
        for way, kept in (("light", "check sums"), ("full", "unchanged bytes")):
            figures.append(Figure(f"{title.format(size)}, {kept}", (best[way] - best["recorded"]) / 1000, "us", TARGETS.get(size),
                                  f"operator bare {best['bare']:.0f} ns, recorded {best['recorded']:.0f} ns, watched {best[way]:.0f} ns"))
    return figures


def _build(sim, scratch):
    libraries = sim / devices.SIMULATED_CANN / "lib64"
    directory = scratch / "atb"
    directory.mkdir(exist_ok=True)
    shared = ["c++", "-std=c++14", "-O2", "-shared", "-fPIC", "-D_GLIBCXX_USE_CXX11_ABI=1", "-o"]
    cann = [f"-L{libraries}", "-Wl,--no-as-needed", "-lascendcl", "-lms_tools_ext", "-Wl,--allow-shlib-undefined"]
    for words in (
        [*shared, directory / "libatb.so", SOURCES / "atb.cpp", "-Wl,-soname,libatb.so"],
        [*shared, directory / "libmodel.so", SOURCES / "model.cpp", f"-L{directory}", "-latb", "-Wl,-rpath,$ORIGIN", *cann],
        ["cc", "-O1", "-DLINKED", "-o", directory / "linked", SOURCES / "host.c", f"-L{directory}", "-lmodel", "-Wl,-rpath,$ORIGIN",
         f"-Wl,-rpath-link,{libraries}", "-Wl,--allow-shlib-undefined"],
    ):
        subprocess.run([str(word) for word in words], check=True)
    return directory / "linked"
