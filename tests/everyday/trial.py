"""One program, run bare and recorded: what it did must be the same, and what was recorded must be what was counted."""

import ctypes
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

MODES = {"none": [], "c": ["--call-stack=c"], "c,python": ["--call-stack=c,python"], "c:5,python:5": ["--call-stack=c:5,python:5"]}


def most_own_allocations(mode):
    """Of a process image. Looking for symbols in vain makes the loader keep messages, given back at once: an interpreter's,
    and, for C stacks, those of a function that glibc has since 2.35."""
    glibc = int(os.confstr("CS_GNU_LIBC_VERSION").rsplit(".", 1)[1])
    return 16 if "python" in mode or (mode.startswith("c") and glibc < 35) else 0


# What stays behind (daemons that were told to end) gets this long to end.
GRACE_SECONDS = 10


class Failed(Exception):
    """What was expected and what was found."""


class Unavailable(Exception):
    """The program cannot be had here; says why."""


@dataclasses.dataclass
class Case:
    name: str
    # What to run: words, or a function that prepares the working directory given to it and returns them.
    program: object
    # Packages of the distribution as `scripts/packages` wants them, and further steps, each called with the site.
    packages: tuple = ()
    supplies: tuple = ()
    mode: str = "none"
    variables: dict = dataclasses.field(default_factory=dict)
    # What in the output is not the same in two bare runs either: pattern -> replacement.
    varying: dict = dataclasses.field(default_factory=dict)
    # Whether every block is counted by a second library. Off where the program cannot have it.
    counted: bool = True
    # How many calls may be under way when the program's processes are killed.
    cut_short: int = 0
    # Whether the recorded peak is held against the memory the kernel says can be written to.
    peak_is_usable: bool = False
    # Whether msmemscope must refuse to start it, and with which words.
    refused: str = ""
    # Looks at the finished trial; returns what there is to say, or raises `Failed`.
    check: object = None
    status: int = 0
    most_seconds: int = 60


@dataclasses.dataclass
class Ended:
    status: int
    stdout: str
    stderr: str
    seconds: float
    # The largest of all processes, as far as they lived long enough to be seen.
    resident_mb: float
    # The same, and what the counting library saw from within.
    writable_mb: float


@dataclasses.dataclass
class Trial:
    """What is known of a case after its two runs."""
    bare: Ended
    recorded: Ended
    messages: str = ""
    processes: list = dataclasses.field(default_factory=list)
    counted: tuple = None
    spool_mb: float = 0.0
    output: pathlib.Path = None

    def total(self, key):
        return sum(process[key] for process in self.processes)

    @property
    def peak_mb(self):
        """The largest peak of a process, as the summary has it."""
        units = {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10, "TiB": 2**20}
        peaks = re.findall(r"cpu HOST: peak ([\d.,]+) (\w+)", self.messages)
        return max((float(number.replace(",", "")) * units[unit] for number, unit in peaks), default=0.0)

    def of(self, executable):
        return [process for process in self.processes if pathlib.Path(process["executable"]).name == executable]


class Site:
    """Where the cases find what is under test, and where they may write."""

    def __init__(self, repository, stage, reader, counter, scratch, cache):
        self.repository, self.stage, self.reader, self.counter = repository, stage, reader, counter
        self.scratch, self.cache = scratch, cache
        self.workloads = repository / "tests/everyday/workloads"
        # Daemons become children of the tests, which can then wait for them and end them.
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)

    def run(self, case, words, variables):
        """Runs the words in a fresh working directory, always at the same place, with nothing of ours in the way."""
        work = self.scratch / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        work.chmod(0o777)
        program = case.program(self, work) if callable(case.program) else case.program
        unwanted = ("LD_PRELOAD", "MSMEMSCOPE_RECORD", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
        inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
        environment = inherited | {"LC_ALL": "C.UTF-8", "HOME": str(work), "PYTHONDONTWRITEBYTECODE": "1",
                                   "PYTHONHASHSEED": "0"} | case.variables
        # From here on: a session of its own, and no ignored signal, because what the tests were started with is not the
        # question; and the variables behind that, because it is not part of the program.
        start = ["env", "--default-signal", *(f"{name}={value}" for name, value in variables.items())]
        with open(self.scratch / "stdout", "wb") as out, open(self.scratch / "stderr", "wb") as error:
            began = time.monotonic()
            child = subprocess.Popen([*start, *words, *map(str, program)], cwd=work, env=environment,
                                     stdin=subprocess.DEVNULL, stdout=out, stderr=error, start_new_session=True)
            watch = Watch(child.pid, case.most_seconds)
            child.wait()
            seconds = time.monotonic() - began
            watch.stop()
            left = wait_for_orphans()
        if watch.expired:
            raise Failed(f"not done after {case.most_seconds} s: {self.text('stderr')[-1500:]}")
        if left:
            raise Failed(f"processes are left that had to be killed: {left}")
        return Ended(child.returncode, self.text("stdout"), self.text("stderr"), seconds,
                     watch.resident_kb / 1024, watch.writable_kb / 1024)

    def text(self, name):
        return (self.scratch / name).read_bytes().decode(errors="replace")


class Watch(threading.Thread):
    """Ends a session that takes too long; sees the most memory of its processes, resident, and private and writable."""

    PAUSE_SECONDS = 0.05

    def __init__(self, session, most_seconds):
        super().__init__(daemon=True)
        self.session, self.deadline = session, time.monotonic() + most_seconds
        self.resident_kb = self.writable_kb = 0
        self.expired, self.done = False, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(self.PAUSE_SECONDS):
            members = session_members(self.session)
            for process in members:
                resident, writable = memory_kb(process)
                self.resident_kb, self.writable_kb = max(self.resident_kb, resident), max(self.writable_kb, writable)
            if time.monotonic() > self.deadline:
                self.expired = True
                for process in members:
                    end(process)

    def stop(self):
        self.done.set()
        self.join()


def session_members(session):
    return [process for process, fields in processes() if fields[3] == str(session)]


def processes():
    """Number and fields of /proc/N/stat from the state on."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = pathlib.Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        yield int(entry), text[text.rindex(")") + 2:].split()


def memory_kb(process):
    """Most resident so far, and private and writable now; nothing of the command under test."""
    try:
        text = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0, 0
    if text.startswith("Name:\tmsmemscope\n"):
        return 0, 0
    found = [re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE) for name in ("VmHWM", "VmData")]
    return tuple(int(one.group(1)) if one else 0 for one in found)


def end(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def wait_for_orphans():
    """Waits until none is left of what the program started; returns what had to be killed."""
    deadline, killed = time.monotonic() + GRACE_SECONDS, []
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return killed
        if ended == 0:
            if time.monotonic() > deadline:
                orphans = [process for process, fields in processes() if fields[1] == str(os.getpid()) and fields[0] != "Z"]
                killed += [name_of(process) for process in orphans]
                for process in orphans:
                    end(process)
            time.sleep(0.02)


def name_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return str(process)


def normal(case, text):
    for pattern, replacement in case.varying.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def attempt(case, site):
    """Runs the case both ways and holds the two against each other; fills a trial, or raises."""
    bare = site.run(case, [], {})
    output, counts = site.scratch / "output", site.scratch / "counts"
    shutil.rmtree(output, ignore_errors=True)
    counts.write_bytes(bytes(4096))
    counts.chmod(0o666)
    words = [site.stage / "bin/msmemscope", "--device=cpu", "--data-format=none", f"--output={output}", *MODES[case.mode], "--"]
    variables = {"LD_PRELOAD": str(site.counter), "COUNTER_FILE": str(counts)} if case.counted else {}
    recorded = site.run(case, map(str, words), variables)
    lines = recorded.stderr.splitlines(keepends=True)
    ours = [line.startswith("[msmemscope]") for line in lines]
    trial = Trial(bare, recorded, "".join(line for line, own in zip(lines, ours) if own), output=output)
    recorded.stderr = "".join(line for line, own in zip(lines, ours) if not own)
    if output.exists():
        trial.processes = read_processes(site, output)
        trial.spool_mb = sum(file.stat().st_blocks for file in output.rglob("*") if file.is_file()) * 512 / 2**20
    if case.counted:
        *counted, writable_pages = struct.unpack_from("<4Q", counts.read_bytes())
        trial.counted = tuple(counted)
        recorded.writable_mb = max(recorded.writable_mb, writable_pages * os.sysconf("SC_PAGESIZE") / 2**20)
    return trial


def judge(case, trial):
    """Raises `Failed` with all that is wrong; returns what the case's own check has to say."""
    wrong = []
    bare, recorded = trial.bare, trial.recorded
    if bare.status != case.status:
        raise Failed(f"the bare run ended with {bare.status}: {(bare.stdout + bare.stderr)[-1500:]}")
    if case.refused:
        if (recorded.status, recorded.stdout, trial.processes) != (2, "", []) or case.refused not in trial.messages:
            raise Failed(f"it must be refused with status 2 and a reason: {recorded.status}, {trial.messages}")
        return "refused"
    if recorded.status != bare.status:
        wrong.append(f"status {bare.status} became {recorded.status}")
    for name in ("stdout", "stderr"):
        was, became = (normal(case, getattr(run, name)) for run in (bare, recorded))
        if was != became:
            wrong.append(f"{name} {excerpt(was, became)!r} became {excerpt(became, was)!r}")
    wrong += [f"{process['executable']} has damage: {process['damage']}" for process in trial.processes if process["damage"]]
    if trial.total("lost"):
        wrong.append(f"{trial.total('lost')} events lost")
    if case.counted:
        known = tuple(trial.total(key) for key in ("begun", "ended", "bytes"))
        missing = [counted - recorded for counted, recorded in zip(trial.counted, known)]
        own = most_own_allocations(case.mode) * len(trial.processes)
        exact = own or case.cut_short or not any(missing)
        if not (exact and 0 <= missing[0] <= own + case.cut_short and abs(missing[1] - missing[0]) <= case.cut_short):
            wrong.append(f"recorded {known} blocks, frees, bytes in {len(trial.processes)} processes; "
                         f"counted {trial.counted}")
    if case.peak_is_usable and trial.peak_mb > 1.1 * recorded.writable_mb + 16:
        wrong.append(f"the peak is said to be {trial.peak_mb:.0f} MiB, but no process had more than "
                     f"{recorded.writable_mb:.0f} MiB it could write to (resident {bare.resident_mb:.0f})")
    said = None
    if case.check:
        try:
            said = case.check(trial)
        except Failed as why:
            wrong.append(str(why))
    if wrong:
        raise Failed("; ".join(wrong))
    return said


def excerpt(text, other):
    """The first line that differs, to keep a report readable."""
    for mine, theirs in zip(text.splitlines() + [""], other.splitlines() + [""]):
        if mine != theirs:
            return mine[:300]
    return text[-300:]


def read_processes(site, output):
    done = subprocess.run([site.reader, output], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the recording cannot be read: {done.stderr[-1000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
