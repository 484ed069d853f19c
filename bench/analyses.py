"""What it costs to analyze recordings and dump files: trainings that never were, made to order, as long as needed."""
import shutil
import statistics
import tempfile
from pathlib import Path

import machine
import measure
import tools
from figures import Figure

MILLION = 1_000_000
SIZES = (MILLION // 10, MILLION, 10 * MILLION)
# Seconds for 1e7 events, reading included; the empty word: all in one pass.
TARGETS = {"leaks": 6, "fluctuation": 6, "decompose": 6, "inefficient": 15, "oom": None, "": 20}
# CPU time for an event at 1e7 events over that at 1e6.
LINEAR = 1.3
TARGET_CHECK_LEAKS, TARGET_CHECK_INEFFICIENT, TARGET_COMPARE, TARGET_COMPARE_MB = 2.0, 4.0, 10.0, 1000.0
MARK = "check"


class One:
    """One run of a command that must succeed."""

    def __init__(self, command, **more):
        code, text, self.cpu_s, self.wall_s, rss = measure.execute([str(word) for word in command], timeout=3600, **more)
        if code != 0:
            raise measure.RunFailed(f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1][:200]}")
        self.rss_mb = rss / 1024


def _middle(runs):
    return sorted(runs, key=lambda one: one.wall_s)[len(runs) // 2]


def _training(scratch, events, *words):
    output = Path(tempfile.mkdtemp(dir=scratch))
    One([machine.training_generator(), output, events, *words])
    return output


def _of_recordings(stage, repetitions, scratch, quick):
    sizes = SIZES[:2] if quick else SIZES
    runs, failed = {}, {}
    for events in sizes:
        machine.say(f"analyses: a recording of {events:.0e} events")
        recording = _training(scratch, events, "mixed")
        try:
            for _ in range(repetitions):
                for word in TARGETS:
                    if word in failed:
                        continue
                    machine.say(f"analyses: {word or 'all'} of {events:.0e} events")
                    try:
                        command = [stage.command, "analyze", recording, *([word] if word else []), "--json"]
                        runs.setdefault((word, events), []).append(One(command))
                    except measure.RunFailed as error:
                        failed[word] = str(error)
        finally:
            shutil.rmtree(recording, ignore_errors=True)
    figures = []
    for word, target in TARGETS.items():
        title = f"analyze {word}" if word else "analyze, all in one pass"
        if word in failed:
            figures.append(Figure(f"{title}: wall", None, "s", target, failed[word]))
            continue
        best = {events: _middle(runs[word, events]) for events in sizes}
        most = sizes[-1]
        # The target is of 1e7 events; a quick look has fewer.
        figures.append(Figure(f"{title} of {most:.0e} events: wall", best[most].wall_s, "s", target,
                              f"CPU {best[most].cpu_s:.2f} s; peak memory "
                              + ", ".join(f"{best[events].rss_mb:.0f} MB at {events:.0e}" for events in sizes)))
        cpu = {events: statistics.median(one.cpu_s for one in runs[word, events]) / events for events in sizes}
        figures.append(Figure(f"CPU time for an event of that over {sizes[-2]:.0e} events", cpu[most] / cpu[sizes[-2]], "x",
                              LINEAR, ", ".join(f"{cpu[events] * 1e6:.2f} us at {events:.0e}" for events in sizes)))
    return figures


def _exported(stage, scratch, *words):
    """The one csv file of a device that a recording of 1e6 events gives; call stacks are in a file of their own."""
    recording = _training(scratch, MILLION, "device", *words)
    files = Path(tempfile.mkdtemp(dir=scratch))
    try:
        One([stage.command, "export", recording, "--data-format=csv", "--stacks=table", "--output", files, "--quiet"])
    finally:
        shutil.rmtree(recording, ignore_errors=True)
    return next(files.glob("*/device_0/dump/memscope_dump_*.csv"))


def _peer(script, missing, *words):
    """{name: seconds} of the same question put to pandas."""
    if missing:
        return {}, f"; pandas {missing}"
    try:
        one = One([tools.interpreter(), machine.BENCH / "peers" / script, *words])
    except measure.RunFailed as error:
        return {}, f"; pandas: {error}"
    return {"pandas": one.wall_s}, f"; pandas: peak {one.rss_mb:.0f} MB"


def _of_files(stage, repetitions, scratch, missing):
    machine.say("analyses: a csv file of 1e6 rows")
    file = _exported(stage, scratch)

    def copy():
        """Written to, so each run has one of its own."""
        return Path(shutil.copy(file, Path(tempfile.mkdtemp(dir=scratch)) / file.name))

    def check_leaks():
        return One([stage.command, "analyze", file, "leaks", f"--mstx-info={MARK}", "--json"])

    def check_inefficient():
        mine = copy()
        try:
            return One([stage.command, "analyze", mine, "inefficient", "--write", "--json"])
        finally:
            shutil.rmtree(mine.parent, ignore_errors=True)

    figures = []
    for title, run, target, script in (
            ("leaks between marks in a csv file of 1e6 rows: wall", check_leaks, TARGET_CHECK_LEAKS, "check_leaks.py"),
            ("inefficient memory in a csv file of 1e6 rows, written back: wall", check_inefficient,
             TARGET_CHECK_INEFFICIENT, "check_inefficient.py")):
        machine.say(f"analyses: {title}")
        try:
            middle = _middle([run() for _ in range(repetitions)])
            words = [file, MARK] if script == "check_leaks.py" else [copy()]
            peers, note = _peer(script, missing, *words)
            figures.append(Figure(title, middle.wall_s, "s", target, f"CPU {middle.cpu_s:.2f} s, peak {middle.rss_mb:.0f} MB, "
                                  f"file {file.stat().st_size / 1e6:.0f} MB{note}", peers))
        except measure.RunFailed as error:
            figures.append(Figure(title, None, "s", target, str(error)))
    return figures + _of_two_files(stage, repetitions, scratch, file)


def _of_two_files(stage, repetitions, scratch, file):
    title = "compare two csv files of 1e6 rows, 10 % of the operators other ones"
    machine.say(f"analyses: {title}")
    changed = _exported(stage, scratch, "changed")
    runs = []
    try:
        for _ in range(repetitions):
            output = Path(tempfile.mkdtemp(dir=scratch))
            runs.append(One([stage.command, "--compare", f"--input={file},{changed}", "--level=op", "--output", output]))
            shutil.rmtree(output, ignore_errors=True)
    except measure.RunFailed as error:
        return [Figure(f"{title}: wall", None, "s", TARGET_COMPARE, str(error))]
    middle = _middle(runs)
    return [Figure(f"{title}: wall", middle.wall_s, "s", TARGET_COMPARE, f"CPU {middle.cpu_s:.2f} s"),
            Figure(f"{title}: peak memory", max(one.rss_mb for one in runs), "MB", TARGET_COMPARE_MB)]


def run(stage, repetitions, scratch, quick, missing_pandas):
    """Returns figures."""
    figures = []
    parts = (("analyses of recordings", TARGETS[""], lambda: _of_recordings(stage, repetitions, scratch, quick)),
             ("analyses of files", TARGET_COMPARE, lambda: _of_files(stage, repetitions, scratch, missing_pandas)))
    for title, target, part in parts:
        try:
            if stage.unavailable or not stage.command:
                raise measure.RunFailed(stage.unavailable or f"no command in {stage.directory}/bin")
            figures += part()
        except (measure.RunFailed, OSError, RuntimeError) as error:
            figures.append(Figure(title, None, "s", target, str(error)))
    return figures
