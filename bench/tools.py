"""Who is measured: nobody (the bare run), msmemscope in several settings, and its peers.

A tool turns a workload into a command line and an environment. What the figures of a run are compared with is the
tool's baseline: profilers that attach to Python only run the C workloads as libraries inside Python, and so does their
baseline.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

import machine
import spool


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    # File name in programs/ without extension for C, with .py for Python.
    program: str
    arguments: tuple = ()
    # What the option --device of msmemscope is to be.
    device: str = "cpu"
    # Of the program, with every tool.
    environment: Dict[str, str] = field(default_factory=dict, hash=False)
    # Runs in each repetition: more than one where a figure is a difference of differences between runs.
    turns: int = 1

    @property
    def is_python(self):
        return self.program.endswith(".py")

    def native(self):
        """The command line of the workload itself."""
        if self.is_python:
            return self.in_python()
        return [str(machine.BUILT / self.program), *self.arguments]

    def in_python(self):
        return [interpreter(), *self.script()]

    def script(self):
        """A Python script and its arguments that do the workload."""
        if self.is_python:
            return [str(machine.PROGRAMS / self.program), *self.arguments]
        return [str(machine.PROGRAMS / "drive.py"), str(machine.BUILT / f"{self.program}.so"), *self.arguments]


def interpreter():
    inside = machine.VENV / "bin" / "python"
    return str(inside) if inside.exists() else sys.executable


@dataclass
class Prepared:
    command: List[str]
    environment: Dict[str, str] = field(default_factory=dict)


class Tool:
    name = "bare"
    unavailable: Optional[str] = None
    # Whether each turn of a repetition is worth a run; one a repetition will do for those that take long.
    takes_turns = True

    def baseline_for(self, workload):
        """Name of the tool whose runs this one's are compared with."""
        return None if self.name == "bare" else "bare"

    def runs_in(self, repetition):
        return True

    def prepare(self, workload, output):
        return Prepared(workload.native(), workload.environment)

    def written(self, output):
        """Bytes the tool left, and the events it says they hold (None: unknown)."""
        return 0, None


class BarePython(Tool):
    name = "bare-py"
    takes_turns = False

    def baseline_for(self, workload):
        return None

    def prepare(self, workload, output):
        return Prepared(workload.in_python())


def _size(directory):
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())


class Memray(Tool):
    takes_turns = False

    def __init__(self, options, missing):
        self.options = options
        self.name = " ".join(["memray", *options])
        self.unavailable = missing

    def baseline_for(self, workload):
        return "bare" if workload.is_python else "bare-py"

    def prepare(self, workload, output):
        return Prepared([interpreter(), "-m", "memray", "run", "--quiet", *self.options,
                         "--output", str(output / "memray.bin"), *workload.script()])

    def written(self, output):
        return _size(output), None


class Heaptrack(Tool):
    name = "heaptrack --raw"
    takes_turns = False

    def __init__(self, missing):
        self.unavailable = missing

    def prepare(self, workload, output):
        return Prepared(["heaptrack", "--raw", "--output", str(output / "heaptrack"), *workload.native()])

    def written(self, output):
        return _size(output), None


class Stage:
    """An installed msmemscope: the command and the recording libraries."""

    LIBRARIES = ("libascend_kernel_hook.so", "libmsmemscope_host.so")

    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        command = self.directory / "bin" / "msmemscope"
        self.command = command if command.exists() else None
        self.libraries = [self.directory / "lib64" / name for name in self.LIBRARIES]

    @property
    def unavailable(self):
        absent = [path.name for path in self.libraries if not path.exists()]
        return f"no {' and '.join(absent)} in {self.directory}/lib64; make build" if absent else None

    # What is measured elsewhere is left out here.
    MEMORY_ONLY = ("--events=alloc,free",)

    def options(self, call_stack, output, device="cpu", events=MEMORY_ONLY):
        stacks = [f"--call-stack={call_stack}"] if call_stack else []
        return [str(self.command), f"--device={device}", "--analysis=none", *events, *stacks, f"--output={output}"]

    def environment(self, call_stack, output, device="cpu", events=MEMORY_ONLY):
        """What the command sets for a program it runs, so that the program can be measured without the command.

        The command itself is asked: it runs `env`, and what that prints is used. Without the command (a stage with
        libraries only) the same is written down here.
        """
        if self.command:
            with tempfile.TemporaryDirectory() as scratch:
                asked = subprocess.run([*self.options(call_stack, scratch, device, events), "--", "/usr/bin/env"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
                values = dict(line.split("=", 1) for line in asked.stdout.splitlines() if "=" in line)
                if "MSMEMSCOPE_RECORD" not in values:
                    raise RuntimeError(f"msmemscope did not start a program: {asked.stderr.strip()}")
                record = values["MSMEMSCOPE_RECORD"]
            # The directory is the last setting and takes the rest of the text.
            record = record[:record.index(";dir=")] + f";dir={output}"
            return {"LD_PRELOAD": values["LD_PRELOAD"], "MSMEMSCOPE_RECORD": record}
        depth = {"c": 0, "python": 0}
        for part in filter(None, call_stack.split(",")):
            kind, _, frames = part.partition(":")
            depth[kind] = int(frames or 50)
        cpu = device == "cpu"
        npus = 0 if cpu else 0xffffffff
        record = f"v=1;run=1;utc=0;c={depth['c']};py={depth['python']};cpu={cpu:d};npu={npus:x};max=0;dir={output}"
        # Host memory has a library of its own.
        libraries = self.libraries if cpu else self.libraries[:1]
        return {"LD_PRELOAD": ":".join(map(str, libraries)), "MSMEMSCOPE_RECORD": record}


class Ours(Tool):
    """The target process alone, with the recording libraries, as `msmemscope` starts it."""

    def __init__(self, stage, call_stack, events=Stage.MEMORY_ONLY):
        self.stage, self.call_stack, self.events = stage, call_stack, events
        self.name = "msmemscope " + (call_stack or "no stacks")
        self.unavailable = stage.unavailable
        self._environment = None

    def prepare(self, workload, output):
        if self._environment is None:
            self._environment = self.stage.environment(self.call_stack, "@", workload.device, self.events)
        record = self._environment["MSMEMSCOPE_RECORD"]
        environment = {**workload.environment, **self._environment,
                       "MSMEMSCOPE_RECORD": record[:record.index(";dir=")] + f";dir={output}"}
        return Prepared(workload.native(), environment)

    def written(self, output):
        recording = spool.read(output)
        if recording.lost:
            machine.say(f"{self.name}: {recording.lost} events were lost")
        return recording.bytes, recording.events


class OursWithCommand(Tool):
    """The whole command: the target, then the export of what it recorded."""

    takes_turns = False

    def __init__(self, stage, call_stack):
        self.stage, self.call_stack = stage, call_stack
        self.name = "msmemscope command " + (call_stack or "no stacks")
        self.unavailable = stage.unavailable or (None if stage.command else f"no command in {stage.directory}/bin")

    def runs_in(self, repetition):
        # One run says all.
        return repetition == 0

    def prepare(self, workload, output):
        return Prepared([*self.stage.options(self.call_stack, output, workload.device), "--", *workload.native()],
                        workload.environment)

    def written(self, output):
        return _size(output), None


def default_stage():
    return Path(os.environ.get("MSMEMSCOPE_STAGE") or machine.target_directory() / "stage")


def version_of(command):
    if not shutil.which(command[0]) and not Path(command[0]).exists():
        return None
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True).stdout
    return out.strip().splitlines()[0] if out.strip() else None
