"""What the answer from a recording costs: the wait for it, and the disk it takes."""

import dataclasses
import resource
import shutil
import subprocess
import time

COLUMNS = ["program", "stacks", "processes", "events", "recording MB", "info s", "csv MB", "csv s", "csv CPU s", "db MB", "db s",
           "db CPU s"]
MOST_SECONDS = 600


@dataclasses.dataclass
class Answer:
    seconds: float
    cpu_seconds: float
    megabytes: float = 0.0


def command(site, *words):
    """Runs it to its end; how long that took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([site.stage / "bin/msmemscope", *words], capture_output=True, text=True, timeout=MOST_SECONDS)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"msmemscope {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr[-1000:]}")
    return Answer(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def export(site, recording, form):
    files = site.scratch / "exported"
    shutil.rmtree(files, ignore_errors=True)
    answer = command(site, "export", recording, f"--format={form}", f"--output={files}")
    answer.megabytes = sum(file.stat().st_size for file in files.rglob("*") if file.is_file()) / 1e6
    shutil.rmtree(files)
    return answer


def row(case, trial, site):
    """A line of the table; of a program that was recorded."""
    info = command(site, "info", trial.output)
    csv, db = (export(site, trial.output, form) for form in ("csv", "db"))
    return [case.name, case.mode, f"{len(trial.processes)}", f"{trial.total('events'):,}", f"{trial.spool_mb * 2**20 / 1e6:.1f}",
            f"{info.seconds:.2f}", f"{csv.megabytes:.1f}", f"{csv.seconds:.2f}", f"{csv.cpu_seconds:.2f}", f"{db.megabytes:.1f}",
            f"{db.seconds:.2f}", f"{db.cpu_seconds:.2f}"]


def table(rows):
    """As Markdown."""
    lines = [COLUMNS, ["---"] * 2 + ["--:"] * (len(COLUMNS) - 2), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"
