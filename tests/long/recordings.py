"""Long recordings: a program that works for hours, and one with very many events."""

import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
C_FLAGS = ["-O1", "-g", "-fno-builtin", "-pthread", "-Wall", "-Wextra", "-Werror"]


class Failed(Exception):
    """What was expected and what was found."""


def run(*words, **options):
    """A command that must succeed."""
    words = [str(word) for word in words]
    done = subprocess.run(words, text=True, capture_output=True, cwd=REPOSITORY, **options)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done


def compiled(source, *flags, output):
    run("cc", *C_FLAGS, *flags, "-o", output, source, "-ldl")
    return output


def counts(site, output):
    """What each recorded process did, by the decoder alone."""
    run("cargo", "build", "--quiet", "--release", "--locked", "-p", "memscope-tests", "--bin", "spool_counts")
    processes = [json.loads(line) for line in run(site.target / "release/spool_counts", output).stdout.splitlines()]
    damaged = [process for process in processes if process["damage"] or process["lost"]]
    if damaged or not processes:
        raise Failed(f"damaged, or nothing recorded: {damaged}")
    return processes


# What grows if something is not given back, and how far one look at a program at work may differ from another.
PLAY = {"memory KiB": 4096, "mappings": 64, "files": 8, "threads": 4}
LOOKS = 40


def look(session):
    """At the processes of a session: for the recorded program and for our command, the most that one of them has."""
    most = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat, status = (place / "stat").read_text(), (place / "status").read_text()
            found = {"mappings": len((place / "maps").read_text().splitlines()), "files": len(list((place / "fd").iterdir()))}
        except OSError:  # It has just ended.
            continue
        if stat[stat.rindex(")") + 2:].split()[3] != str(session):
            continue
        for key, name in (("memory KiB", "RssAnon"), ("threads", "Threads")):
            number = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
            found[key] = int(number[1]) if number else 0
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        others = most.get(name, found)
        most[name] = {key: max(others[key], found[key]) for key in PLAY}
    return most


def watch(child, seconds, program):
    """Looks at it until it ends; how it was after a quarter of its time, and in the last look that found the program."""
    settled = last = {}
    for number in range(LOOKS):
        try:
            child.wait(timeout=seconds / LOOKS)
            return settled, last
        except subprocess.TimeoutExpired:
            seen = look(child.pid)
            last = seen if program in seen else last
        if number == LOOKS // 4:
            settled = last
    # Then our command reads it all.
    try:
        child.wait(timeout=600 + seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise Failed(f"not done {600 + seconds} s after it should have ended") from None
    return settled, last


def soak(site, minutes):
    """Nothing is lost or miscounted in a program that works for so long, and nothing of it, or of the command beside it, grows."""
    program = compiled(REPOSITORY / "tests/long/soak.c", output=site.scratch / "soak")
    counter = compiled(REPOSITORY / "tests/everyday/counter.c", "-shared", "-fPIC", output=site.scratch / "libcounter.so")
    counted, output, said = site.scratch / "counts", site.scratch / "output", site.scratch / "said"
    counted.write_bytes(bytes(4096))
    seconds = round(minutes * 60)
    words = [site.stage / "libexec/msmemscope", "--device=cpu", "--call-stack=c:20", "--data-format=none", f"--output={output}", "--",
             program, seconds]
    # What is preloaded already comes behind the recording libraries.
    variables = os.environ | {"LD_PRELOAD": str(counter), "COUNTER_FILE": str(counted)}
    with open(said, "w") as file:
        child = subprocess.Popen(list(map(str, words)), env=variables, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        settled, last = watch(child, seconds, program.name)
    if child.returncode or "none lost" not in said.read_text():
        raise Failed(f"status {child.returncode}: {said.read_text()[-1500:]}")
    for name in ("soak", "msmemscope"):
        for key, play in PLAY.items():
            if last[name][key] > settled[name][key] + play:
                raise Failed(f"{name}: {key} were {settled[name][key]} after a quarter of the time and {last[name][key]} in the end")
    processes = counts(site, output)
    recorded = tuple(sum(process[key] for process in processes) for key in ("begun", "ended", "bytes"))
    expected = struct.unpack_from("<3Q", counted.read_bytes())
    if recorded != expected:
        raise Failed(f"blocks, frees, bytes: recorded {recorded}, counted {expected}")
    return (f"{sum(process['events'] for process in processes):,} events of {len(processes)} processes, as counted; "
            f"memory {last['soak']['memory KiB']} KiB of the program, {last['msmemscope']['memory KiB']} KiB of the command")


THREADS = 4
# A round of burst.c is a malloc, a realloc and a free, which are two blocks that begin and end.
EVENTS_OF_A_ROUND = 4
# What else a program allocates: for its threads, for its output.
MOST_ELSE = 1000


def many_events(site, number):
    """So many events are recorded, read and exported in both formats, none missing."""
    program = compiled(REPOSITORY / "tests/programs/burst.c", output=site.scratch / "burst")
    output, files = site.scratch / "output", site.scratch / "files"
    rounds = -(-number // (THREADS * EVENTS_OF_A_ROUND))
    command = site.stage / "bin/msmemscope"
    told = [timed("recorded", command, "--device=cpu", "--call-stack=c:5", "--data-format=none", f"--output={output}", "--", program, THREADS,
                  rounds)]
    (process,) = counts(site, output)
    for key in ("begun", "ended"):
        if not 0 <= process[key] - 2 * THREADS * rounds <= MOST_ELSE:
            raise Failed(f"{process[key]:,} blocks {key}, not {2 * THREADS * rounds:,} and a few")
    told.append(timed("info", command, "info", output, expected=f"recorded: {process['events']:,} events, none lost"))
    for form in ("csv", "db"):
        told.append(timed(form, command, "export", output, f"--format={form}", f"--output={files}"))
        (file,) = files.glob(f"*/device_cpu/dump/memscope_dump_*.{form}")
        memory = rows_of(file)
        if memory != (process["begun"], process["ended"]):
            raise Failed(f"{form}: {memory} rows of blocks and frees, not {process['begun']} and {process['ended']}")
        shutil.rmtree(files)
    return f"{process['events']:,} events; {', '.join(told)}"


def timed(what, *words, expected=""):
    """Runs our command; how long it took, and the most memory that it, or a process it waited for, had."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if child.returncode or expected not in text:
        raise Failed(f"{what}: status {child.returncode}, expected {expected!r}: {text[-1000:]}")
    return f"{what} {time.monotonic() - began:.0f} s (at most {used.ru_maxrss >> 10} MiB)"


def rows_of(file):
    """Of blocks that begin and of such that end."""
    if file.suffix == ".db":
        query = "select sum(Event = 'MALLOC'), sum(Event = 'FREE') from memscope_dump"
        return sqlite3.connect(file).execute(query).fetchone()
    begun = ended = 0
    with open(file, "rb") as lines:
        for line in lines:
            begun += b",MALLOC," in line[:64]
            ended += b",FREE," in line[:64]
    return begun, ended
