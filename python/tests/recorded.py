"""Programs that record themselves, run and looked at."""

import csv
import glob
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from typing import Dict, List, Optional

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
#: Longer than anything takes on the slowest machine: what is not done by then never will be.
PATIENCE = 300

# Shells start what is to run in the background with interrupts ignored, and so would all programs be that are started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class RecordedCase(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.output = os.path.join(self.directory, "output")

    def compile(self, source: str, name: str, *flags: str) -> str:
        """A shared library of a C program, which is a file of `programs` or the text itself."""
        path = os.path.join(self.directory, name)
        file = os.path.join(PROGRAMS, source)
        if not os.path.exists(file):
            file = path + ".c"
            with open(file, "w") as text:
                text.write(source)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-o", path, file, *flags, "-ldl"],
            check=True,
        )
        return path

    def start(self, program: str, *arguments: str, command: Optional[List[str]] = None, **variables: str) -> "subprocess.Popen[str]":
        """Starts a Python program, in which `output` is the directory for results."""
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        environment["PYTHONFAULTHANDLER"] = "1"
        environment.update(variables)
        file = os.path.join(self.directory, "program.py")
        with open(file, "w") as text:
            text.write(f"output = {self.output!r}\n" + textwrap.dedent(program))
        return subprocess.Popen(
            [*(command or [sys.executable]), file, *arguments],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_program(self, program: str, *arguments: str, status: int = 0, **more: object) -> "Ended":
        """Runs it to its end."""
        process = self.start(program, *arguments, **more)  # type: ignore[arg-type]
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            # Where each of its threads is, if it can still say so.
            process.send_signal(signal.SIGABRT)
            out, errors = process.communicate()
            self.fail(f"it hangs: {errors}")
        self.assertEqual(process.returncode, status, errors)
        return Ended(out, errors)

    def hidden(self) -> List[str]:
        """What a listing of the output does not show."""
        found: List[str] = []
        for _, directories, files in os.walk(self.output):
            found += [name for name in [*directories, *files] if name.startswith(".")]
        return found

    def rows(self, kind: str = "memscope_dump", device: str = "cpu") -> List[Dict[str, str]]:
        """All rows of all processes."""
        rows: List[Dict[str, str]] = []
        for path in sorted(glob.glob(os.path.join(self.output, "*", f"device_{device}", "dump", f"{kind}_*.csv"))):
            with open(path, newline="") as file:
                rows += csv.DictReader(file)
        return rows


class Ended:
    """What a program has said."""

    def __init__(self, out: str, errors: str) -> None:
        self.out = out
        self.errors = errors
