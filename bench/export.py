"""What it costs to turn a recording into csv or db files."""
import shutil
import tempfile
from pathlib import Path

import machine
import measure
from figures import Figure
from tools import Ours, Workload

TARGET_SECONDS = {"csv": 1.5, "db": 3.0}
MILLION = 1_000_000
# Exporting four times the events, of as many live blocks and stacks, may take this much more memory.
MEMORY_GROWTH = 1.25
# Files with call stacks over files of the same run without.
SIZE_WITH_STACKS = 1.3


class Export:
    """One export of a recording: seconds, memory, size of the files; then the files are removed again."""

    def __init__(self, stage, recording, file_format):
        before = {path for path in Path(recording).rglob("*")}
        code, text, cpu, wall, rss = measure.execute(
            [str(stage.command), "export", str(recording), f"--format={file_format}"], timeout=3600)
        if code != 0:
            raise measure.RunFailed(f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1][:200]}")
        made = [path for path in Path(recording).rglob("*") if path not in before]
        self.bytes = sum(path.stat().st_size for path in made if path.is_file())
        self.cpu_s, self.wall_s, self.rss_mb = cpu, wall, rss / 1024
        for path in sorted(made, reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def record(stage, call_stack, events, shape, scratch):
    """A recording of `whole_c`, in a directory of its own."""
    return record_workload(stage, call_stack, Workload("record", "record", "whole_c", (str(events), shape, "1")), scratch)


def record_workload(stage, call_stack, workload, scratch):
    output = Path(tempfile.mkdtemp(dir=scratch))
    prepared = Ours(stage, call_stack).prepare(workload, output)
    code, text, _, wall, _ = measure.execute(prepared.command, prepared.environment, timeout=3600)
    if code != 0:
        raise measure.RunFailed(f"recording ended with code {code}: {text[-200:]}")
    return output, wall


def _why_not(stage):
    return stage.unavailable or (None if stage.command else f"no command in {stage.directory}/bin")


def run(stage, repetitions, scratch):
    """Returns (figures, details)."""
    figures, details = [], []
    missing = _why_not(stage)
    for call_stack, shape, title in (("", "flat", "no stacks"), ("c", "deep", "C stacks")):
        exports = {}
        for events in (MILLION, 4 * MILLION):
            recording = None
            try:
                if missing:
                    raise measure.RunFailed(missing)
                machine.say(f"export: recording {events:.0e} events, {title}")
                recording, _ = record(stage, call_stack, events, shape, scratch)
                # The larger recording is only there for the memory, which does not vary.
                times = repetitions if events == MILLION else 1
                for repetition in range(times):
                    for file_format in TARGET_SECONDS:
                        machine.say(f"export of {events:.0e} events, {title}: {file_format} ({repetition + 1} of {times})")
                        exports.setdefault((file_format, events), []).append(Export(stage, recording, file_format))
            except (measure.RunFailed, OSError, RuntimeError) as error:
                missing = str(error)
            finally:
                if recording:
                    shutil.rmtree(recording, ignore_errors=True)
        for file_format, target in TARGET_SECONDS.items():
            runs = {events: exports.get((file_format, events), []) for events in (MILLION, 4 * MILLION)}
            for events, done in runs.items():
                for one in done:
                    details.append({"events": events, "stacks": title, "format": file_format, **vars(one)})
            done = sorted(runs[MILLION], key=lambda one: one.wall_s)
            middle = done[len(done) // 2] if done else None
            note = (f"CPU {middle.cpu_s:.2f} s = {middle.cpu_s * 1e6 / MILLION:.2f} µs an event, peak {middle.rss_mb:.0f} MB, files {middle.bytes / 1e6:.0f} MB"
                    if middle else missing or "")
            figures.append(Figure(f"export of 1e6 events to {file_format}, {title}: wall", middle and middle.wall_s, "s",
                                  target, note))
            growth = None
            if all(runs.values()):
                growth = min(one.rss_mb for one in runs[4 * MILLION]) / min(one.rss_mb for one in runs[MILLION])
            figures.append(Figure("peak memory of that with 4e6 events over 1e6 events", growth, "x", MEMORY_GROWTH,
                                  "" if growth else missing or ""))
    more, sized = sizes(stage, scratch)
    return figures + more, details + sized


# What call stacks add to the files: a program with the same few of them, and those with nearly as many as allocations.
STACK_SIZES = (
    ("C, deep stacks", "c", Workload("deep", "deep", "whole_c", (str(MILLION), "deep", "1"))),
    ("Python imports, both stacks", "c,python", Workload("imports", "imports", "py_imports.py")),
    ("PyTorch training, both stacks", "c,python", Workload("torch", "torch", "torch_train.py")),
)


def sizes(stage, scratch):
    """How much larger the files of a run are for its call stacks; returns (figures, details)."""
    figures, details = [], []
    for title, call_stack, workload in STACK_SIZES:
        bytes_of, missing = {}, _why_not(stage)
        for stacks in ("", call_stack):
            recording = None
            try:
                if missing:
                    raise measure.RunFailed(missing)
                machine.say(f"export: size of the files of {title}, {'with' if stacks else 'without'} stacks")
                recording, _ = record_workload(stage, stacks, workload, scratch)
                for file_format in TARGET_SECONDS:
                    one = Export(stage, recording, file_format)
                    bytes_of[file_format, stacks] = one.bytes
                    details.append({"workload": title, "stacks": stacks, "format": file_format, **vars(one)})
            except (measure.RunFailed, OSError, RuntimeError) as error:
                missing = str(error).strip().splitlines()[-1]
            finally:
                if recording:
                    shutil.rmtree(recording, ignore_errors=True)
        for file_format in TARGET_SECONDS:
            plain, rich = bytes_of.get((file_format, "")), bytes_of.get((file_format, call_stack))
            ratio = rich / plain if plain and rich else None
            note = f"{plain / 1e6:.1f} -> {rich / 1e6:.1f} MB" if ratio else missing or ""
            figures.append(Figure(f"{file_format} files with stacks over without, {title}", ratio, "x", SIZE_WITH_STACKS,
                                  note))
    return figures, details


# Bytes of the files for each event, with room to spare.
DISK_PER_EVENT = {"": 200, "c": 230}


def run_huge(stage, scratch, events=100 * MILLION):
    """The largest recording that must still be exportable; returns (figures, details)."""
    figures, details = [], []
    for call_stack, shape, title in (("", "flat", "no stacks"), ("c", "deep", "C stacks")):
        recording = None
        try:
            if _why_not(stage):
                raise measure.RunFailed(_why_not(stage))
            needed, free = events * DISK_PER_EVENT[call_stack], shutil.disk_usage(scratch).free
            if free < needed:
                raise measure.RunFailed(f"needs {needed / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free; try --scratch")
            machine.say(f"export: recording {events:.0e} events, {title}")
            recording, _ = record(stage, call_stack, events, shape, scratch)
            for file_format in TARGET_SECONDS:
                machine.say(f"export of {events:.0e} events, {title}: {file_format}")
                one = Export(stage, recording, file_format)
                details.append({"events": events, "stacks": title, "format": file_format, **vars(one)})
                figures.append(Figure(f"export of {events:.0e} events to {file_format}, {title}: wall", one.wall_s, "s",
                                      None, f"{events / one.wall_s / 1e6:.2f} million events a second, CPU "
                                      f"{one.cpu_s:.0f} s, peak {one.rss_mb:.0f} MB, files {one.bytes / 1e9:.1f} GB"))
        except (measure.RunFailed, OSError, RuntimeError) as error:
            figures.append(Figure(f"export of {events:.0e} events, {title}", None, "s", None, str(error)))
        finally:
            if recording:
                shutil.rmtree(recording, ignore_errors=True)
    return figures, details
