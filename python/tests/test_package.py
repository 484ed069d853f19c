"""The package as it is installed: the wheel and nothing else."""

import importlib.metadata
import os
import subprocess
import sys
import unittest

import msleaks
import msleaks.mstx
import msmemscope
import msmemscope.mstx
from recorded import PATIENCE, RecordedCase

COMMANDS = os.path.dirname(sys.executable)


class Package(RecordedCase):
    def test_it_needs_nothing_else(self) -> None:
        self.assertFalse(importlib.metadata.requires("msmemscope"))

    def test_the_import_reads_no_environment_and_loads_no_framework(self) -> None:
        said = subprocess.run(
            [sys.executable, "-I", "-c", "import sys, msmemscope; print('torch' in sys.modules, 'ctypes' in sys.modules)"],
            env={},
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(said.stdout.split(), ["False", "False"])

    def test_a_panic_is_an_exception_and_not_the_end_of_python(self) -> None:
        said = self.run_program(
            """
from msmemscope import _native
try:
    _native.provoke_panic("of a hostile file")
except BaseException as panic:
    print(type(panic).__name__, panic)
print("and python goes on")
"""
        )
        self.assertEqual(said.out, "PanicException of a hostile file\nand python goes on\n")

    def test_both_commands_are_there_by_their_names(self) -> None:
        for name in ("msmemscope", "msleaks"):
            said = subprocess.run(
                [os.path.join(COMMANDS, name), "--version"], check=True, capture_output=True, text=True, timeout=PATIENCE
            )
            self.assertEqual(said.stdout.split(), [name, msmemscope.__version__])

    def test_the_command_finds_its_libraries_in_the_package(self) -> None:
        subprocess.run(
            [os.path.join(COMMANDS, "msmemscope"), "--device=cpu", f"--output={self.output}", "--", "/bin/echo", "hello"],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        self.assertTrue(self.rows())

    def test_the_status_of_a_program_is_the_commands(self) -> None:
        done = subprocess.run(
            [os.path.join(COMMANDS, "msmemscope"), f"--output={self.output}", "--", "sh", "-c", "exit 7"],
            capture_output=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 7)

    def test_the_old_name_gives_the_same_functions(self) -> None:
        for name in ("config", "start", "stop", "step", "wait", "MemScopeError"):
            self.assertIs(getattr(msleaks, name), getattr(msmemscope, name), name)
        self.assertIs(msleaks.mstx.mark, msmemscope.mstx.mark)

    def test_the_old_name_writes_the_old_names(self) -> None:
        self.run_program(
            """
            import msleaks
            msleaks.config(device="cpu")
            msleaks.start()
            kept = bytearray(1_000_000)
            msleaks.stop()
            """
        )
        self.output = os.path.join(self.directory, "leaksDumpResults")
        self.assertTrue(self.rows("leaks_dump"))

    def test_every_public_name_says_what_it_is(self) -> None:
        for module in (msmemscope, msmemscope.mstx):
            self.assertTrue(module.__doc__)
            for name in module.__all__:
                if name != "__version__":
                    self.assertTrue(getattr(module, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
