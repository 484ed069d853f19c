"""What it costs to read recordings back: `info` of many events, and of the many processes of a build; events from Python."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import export
import machine
import measure
from figures import Figure

MILLION = 1_000_000
TARGET_US_PER_EVENT = 0.25
# A program of so many files is built: three processes for each, compiler driver, compiler and assembler.
SOURCES = 120
TARGET_SECONDS = 5.0
# A million events a second.
TARGET_US_FROM_PYTHON = 1.0


def _project(directory):
    """A C project for make."""
    for number in range(SOURCES):
        (directory / f"part{number}.c").write_text(f"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct item{number} {{ struct item{number} *next; char name[32]; int value; }};
struct item{number} *make{number}(int value) {{
    struct item{number} *item = calloc(1, sizeof *item);
    snprintf(item->name, sizeof item->name, "%d", value);
    item->value = value;
    return item;
}}
int sum{number}(const struct item{number} *item) {{
    int sum = 0;
    for (; item; item = item->next)
        sum += item->value + (int)strlen(item->name);
    return sum;
}}
""")
    (directory / "main.c").write_text("int main(void) { return 0; }\n")
    (directory / "Makefile").write_text("parts := $(patsubst %.c,%.o,$(wildcard *.c))\n"
                                        "program: $(parts)\n\tcc -o $@ $^\n"
                                        "%.o: %.c\n\tcc -O1 -g -c -o $@ $<\n")


def _run(command, **more):
    code, text, cpu, wall, rss = measure.execute(command, timeout=3600, **more)
    if code != 0:
        raise measure.RunFailed(f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1][:200]}")
    return text, cpu, wall, rss / 1024


def _middle(values):
    return sorted(values)[len(values) // 2]


def _of_many_events(stage, repetitions, scratch):
    machine.say("info: recording 4e6 events, C stacks")
    recording, _ = export.record(stage, "c", 4 * MILLION, "deep", scratch)
    try:
        runs = [_run([str(stage.command), "info", str(recording)]) for _ in range(repetitions)]
    finally:
        shutil.rmtree(recording, ignore_errors=True)
    events = int(re.search(r"recorded: ([\d,]+) events", runs[0][0])[1].replace(",", ""))
    cpu, wall, rss = (_middle([run[place] for run in runs]) for place in (1, 2, 3))
    return [Figure("info of 4e6 events, C stacks: wall for an event", wall / events * 1e6, "us", TARGET_US_PER_EVENT,
                   f"CPU {cpu / events * 1e6:.2f} us, peak {rss:.0f} MB")]


def _of_many_processes(stage, repetitions, scratch):
    machine.say(f"make -j2 of {SOURCES} files, bare and recorded")
    output = Path(tempfile.mkdtemp(dir=scratch))
    project = output / "project"
    project.mkdir()
    try:
        _project(project)
        _, bare, bare_wall, _ = _run(["make", "-j2"], cwd=project)
        for made in [*project.glob("*.o"), project / "program"]:
            made.unlink()
        recorded = output / "recorded"
        text, _, whole_wall, _ = _run([*stage.options("c", recorded), "--", "make", "-j2"], cwd=project)
        processes = re.search(r"([\d,]+) processes recorded: ([\d,]+) events", text)
        figures = []
        for name, arguments in (("info", ["info"]), ("export to csv", ["export", "--format=csv"])):
            machine.say(f"{name} of {processes[1]} processes")
            runs = [_run([str(stage.command), *arguments, str(recorded)]) for _ in range(repetitions)]
            lines = max(len(run[0].splitlines()) for run in runs)
            cpu, wall, rss = (_middle([run[place] for run in runs]) for place in (1, 2, 3))
            figures.append(Figure(f"{name} of a make -j2 with {processes[1]} processes, C stacks: wall", wall, "s",
                                  TARGET_SECONDS, f"{processes[2]} events, CPU {cpu:.2f} s, peak {rss:.0f} MB, {lines} lines; "
                                  f"make alone {bare_wall:.1f} s (CPU {bare:.1f} s), with recording and export {whole_wall:.1f} s"))
        return figures
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _package(scratch):
    """A directory with the Python package as far as it reads."""
    built = subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "memscope-python"], cwd=machine.REPOSITORY,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if built.returncode:
        raise RuntimeError(f"the Python package cannot be built: {built.stdout.strip()[-200:]}")
    home = Path(tempfile.mkdtemp(dir=scratch))
    shutil.copytree(machine.REPOSITORY / "python" / "msmemscope", home / "msmemscope",
                    ignore=shutil.ignore_patterns("bin", "lib64", "*.so", "__pycache__"))
    shutil.copy(machine.target_directory() / "release" / "lib_native.so", home / "msmemscope" / "_native.abi3.so")
    return home


def _from_python(stage, repetitions, scratch):
    machine.say("events from Python: a recording of 4e6 events")
    home, recording = _package(scratch), Path(tempfile.mkdtemp(dir=scratch))
    figures = []
    try:
        _run([str(machine.training_generator()), str(recording), str(4 * MILLION), "mixed"])
        for way, title, target in (("batches", "in batches", TARGET_US_FROM_PYTHON),
                                   ("columns", "in batches, a column summed up in Python", TARGET_US_FROM_PYTHON),
                                   ("events", "one by one", None)):
            machine.say(f"events from Python, {title}")
            runs = []
            for _ in range(repetitions):
                text, _, _, rss = _run([sys.executable, str(machine.BENCH / "programs" / "read_events.py"), way, str(recording)],
                                       environment={"PYTHONPATH": str(home)})
                count, seconds = text.split()
                runs.append((float(seconds) / int(count) * 1e6, int(count), rss))
            us, count, rss = sorted(runs)[len(runs) // 2]
            figures.append(Figure(f"4e6 events read from Python, {title}: wall for an event", us, "us", target,
                                  f"{1 / us:.2f} million a second, {count} events, peak {rss:.0f} MB"))
    finally:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(recording, ignore_errors=True)
    return figures


def run(stage, repetitions, scratch):
    """Returns figures."""
    figures = []
    for title, unit, target, part in (("info of 4e6 events", "us", TARGET_US_PER_EVENT, _of_many_events),
                                      ("info and export of a make -j2", "s", TARGET_SECONDS, _of_many_processes),
                                      ("4e6 events read from Python", "us", TARGET_US_FROM_PYTHON, _from_python)):
        try:
            if stage.unavailable or not stage.command:
                raise measure.RunFailed(stage.unavailable or f"no command in {stage.directory}/bin")
            figures += part(stage, repetitions, scratch)
        except (measure.RunFailed, OSError, RuntimeError) as error:
            figures.append(Figure(title, None, unit, target, str(error)))
    return figures
