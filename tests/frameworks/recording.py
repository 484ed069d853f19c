"""Runs a program under msmemscope and reads what it exported."""

import collections
import csv
import json
import os
import re
import signal
import subprocess

TIMEOUT_SECONDS = 300


class Failed(Exception):
    """What was expected and what was found."""


def expect_equal(what, expected, found):
    if expected != found:
        raise Failed(f"{what}: expected {expected!r}, found {found!r}")


Run = collections.namedtuple("Run", "status reports messages processes output")


def record(stage, output, program, variables=None, devices="npu", options=()):
    """Runs `program` and gives its status, the JSON lines it printed, what msmemscope said, and the exports by process."""
    words = [stage / "bin/msmemscope", f"--device={devices}", f"--output={output}", *options, "--", *map(str, program)]
    return observe(words, output, variables)


def observe(words, output, variables=None, status=None):
    """As [`record`], of a command that records into `output`, or a program that records itself; it may end in one way only."""
    unwanted = ("LD_PRELOAD", "PYTHONPATH", "LD_LIBRARY_PATH", "ASCEND_HOME_PATH")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    # A group of its own, so that the ranks of a run that hangs end with it; frameworks leave files where they run.
    child = subprocess.Popen(words, env=inherited | (variables or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True, cwd=output.parent)
    try:
        printed, messages = child.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise Failed(f"not done after {TIMEOUT_SECONDS} s: {child.communicate()[1][-1500:]}") from None
    # Ranks share the pipe, so two reports may be in one line.
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    reports = [json.loads(text) for line in lines for text in re.findall(r"\{.*?\}(?=\{|$)", line)]
    if status is not None and child.returncode != status:
        raise Failed(f"status {child.returncode} instead of {status}: {messages[-1500:]}")
    processes = [Process(directory) for directory in sorted(output.glob("msmemscope_*_*"))]
    return Run(child.returncode, reports, messages, processes, output)


def analyze(stage, paths, *words):
    """What `msmemscope analyze --json` says: its list of processes."""
    words = [stage / "bin/msmemscope", "analyze", *paths, *words, "--json"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))}: status {done.returncode}, {done.stderr[-1500:]}")
    return json.loads(done.stdout)["processes"]


Launch = collections.namedtuple("Launch", "event name device base compared difference")


def compare(stage, base, compared, output, *options):
    """The rows that `--compare` writes of two recordings, without their two lines of headings."""
    words = [stage / "bin/msmemscope", "--compare", f"--input={base},{compared}", f"--output={output}", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        raise Failed(f"the comparison ended with status {done.returncode}: {done.stderr}")
    (file,) = (output / "compare").iterdir()
    with open(file, newline="") as text:
        return [Launch(*row) for row in list(csv.reader(text))[2:]]


class Process:
    """The export of one process."""

    def __init__(self, directory):
        self.number = int(directory.name.split("_")[1])
        files = directory.glob("device_*/dump/memscope_dump_*.csv")
        self.files = {file.parent.parent.name.removeprefix("device_"): file for file in files}
        self.read = {}

    def rows(self, device):
        """The rows in the file of a device (a number, or "cpu"), which is read when it is first asked for."""
        device = str(device)
        if device not in self.read:
            if device not in self.files:
                raise Failed(f"process {self.number} has no file of device {device}, only of {sorted(self.files)}")
            with open(self.files[device], newline="") as text:
                self.read[device] = list(map(Row, csv.DictReader(text)))
        return self.read[device]

    def pool(self, device, event_type):
        return Pool([row for row in self.rows(device) if row.is_memory() and row.type == event_type])


class Row:
    def __init__(self, cells):
        self.cells = cells
        self.event = cells["Event"]
        self.type = cells["Event Type"]
        self.name = cells["Name"]
        self.address = cells["Ptr"]
        self.attributes = {}
        for pair in filter(None, cells["Attr"].strip("{}").split(",")):
            key, _, value = pair.partition(":")
            self.attributes[key] = value

    def is_memory(self):
        return self.event in ("MALLOC", "FREE")

    def number(self, key):
        if key not in self.attributes:
            raise Failed(f"row {self.cells['ID']} ({self.event} {self.type}) has no {key}: {self.cells['Attr']!r}")
        return int(self.attributes[key])


class Pool:
    """The memory of one kind on one device as its rows tell it."""

    def __init__(self, rows):
        self.allocations = self.frees = self.peak = 0
        self.live = {}
        self.totals = [row.number("total") for row in rows if "total" in row.attributes]
        self.uses = [row.number("used") for row in rows if "used" in row.attributes]
        held = 0
        for row in rows:
            if row.event == "MALLOC":
                if row.address in self.live:
                    raise Failed(f"{row.type} block {row.address} is allocated while it is alive")
                self.allocations += 1
                self.live[row.address] = row.number("size")
                held += row.number("size")
                self.peak = max(self.peak, held)
            else:
                if row.address not in self.live:
                    raise Failed(f"{row.type} block {row.address} is freed while it is not alive")
                self.frees += 1
                held -= self.live.pop(row.address)
