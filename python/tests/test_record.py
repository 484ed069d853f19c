"""`with msmemscope.record(…) as run`: what happens in the block, and what can be read of it."""

import os
import sys
import unittest

import msmemscope
from recorded import RecordedCase

BEGIN = """
import msmemscope, os, sys
SETTINGS = dict(device="cpu", call_stack="python:5", output=output, data_format="csv")
def mine(things):
    return [thing.size for thing in things if thing.size > 900_000]
def refused(work):
    try:
        work()
    except msmemscope.MemScopeError as error:
        print("refused:", error)
"""


class Record(RecordedCase):
    def test_a_run_is_what_happened_in_the_block(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
before = bytearray(1_000_000)
with msmemscope.record(**SETTINGS) as run:
    inside = bytearray(2_000_000)
after = bytearray(3_000_000)
print(mine(run.events.filter(event="MALLOC")))
print([block.stack[0] for block in run.blocks if block.size == 2_000_001])
print(run.peak().bytes >= 2_000_001, os.path.dirname(run.path) == output)
"""
        )
        lines = ended.out.splitlines()
        self.assertEqual(lines[0], "[2000001]")
        self.assertRegex(lines[1], r"program.py\(\d+\): <module>'\]")
        self.assertEqual(lines[2], "True True")

    def test_each_block_is_a_run_of_its_own(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
runs = []
for number in range(1, 4):
    with msmemscope.record(**SETTINGS) as run:
        kept = bytearray(number * 1_000_000)
        msmemscope.step()
    msmemscope.step()
    del kept
    runs.append(run)
for run in runs:
    print(mine(run.events.filter(event="MALLOC")), len(run.steps))
print(sorted(set(mine(msmemscope.open(output).events.filter(event="MALLOC")))))
"""
        )
        self.assertEqual(
            ended.out.splitlines(),
            ["[1000001] 2", "[2000001] 2", "[3000001] 2", "[1000001, 2000001, 3000001]"],
        )

    def test_an_exception_passes_through_and_the_run_can_be_read(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
try:
    with msmemscope.record(**SETTINGS) as run:
        inside = bytearray(2_000_000)
        raise ValueError("the program's own")
except ValueError as error:
    print(error)
print(mine(run.events.filter(event="MALLOC")))
with msmemscope.record() as again:
    pass
print(mine(again.events.filter(event="FREE")))
"""
        )
        self.assertEqual(ended.out.splitlines(), ["the program's own", "[2000001]", "[]"])

    def test_spans_cannot_be_nested(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
with msmemscope.record(**SETTINGS) as run:
    refused(lambda: msmemscope.record().__enter__())
    refused(lambda: run.leaks())
    refused(lambda: list(run.events))
    refused(lambda: run.path)
msmemscope.start()
refused(lambda: msmemscope.record().__enter__())
msmemscope.stop()
refused(lambda: msmemscope.record(device="cpu", output=output + "2").__enter__())
with msmemscope.record() as run:
    pass
print(run.processes[0].pid == os.getpid())
"""
        )
        lines = ended.out.splitlines()
        self.assertIn("cannot be within another", lines[0])
        for line in lines[1:4]:
            self.assertIn("after the with block", line)
        self.assertIn("end it first, with stop()", lines[4])
        self.assertIn("its settings stand", lines[5])
        self.assertEqual(lines[6], "True")

    def test_wrong_settings_are_refused_before_anything_begins(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
for settings in ({"device": "gpu"}, {"colour": "red"}):
    try:
        msmemscope.record(**settings).__enter__()
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
print(os.path.exists(output))
"""
        )
        lines = ended.out.splitlines()
        self.assertRegex(lines[0], "ValueError .*gpu")
        self.assertRegex(lines[1], "TypeError .*colour")
        self.assertEqual(lines[2], "False")

    def test_leaks_of_a_block_are_known_while_the_program_goes_on(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
kept = []
def keep():
    kept.append(bytearray(1_000_000))
with msmemscope.record(**SETTINGS) as run:
    for _ in range(12):
        keep()
        msmemscope.step()
print([(leak.verdict, leak.blocks, "keep" in leak.site) for leak in run.leaks().growing])
print(run.leaks() == msmemscope.open(run.path).leaks())
"""
        )
        self.assertEqual(ended.out.splitlines(), ["[('grows', 12, True)]", "True"])

    def test_a_forked_child_records_for_itself(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
with msmemscope.record(**SETTINGS) as run:
    first = bytearray(1_000_000)
child = os.fork()
if child == 0:
    with msmemscope.record() as own:
        second = bytearray(2_000_000)
    print(mine(own.events.filter(event="MALLOC")), own.processes[0].pid == os.getpid(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(mine(run.events.filter(event="MALLOC")))
"""
        )
        self.assertEqual(ended.out.splitlines(), ["[2000001] True", "[1000001]"])

    def test_under_the_command_the_span_is_read_as_well(self) -> None:
        command = os.path.join(os.path.dirname(msmemscope.__file__), "bin", "msmemscope")
        for mode in ("immediate", "deferred"):
            with self.subTest(mode):
                self.output = os.path.join(self.directory, mode)
                ended = self.run_program(
                    BEGIN
                    + """
outside = bytearray(1_000_000)
with msmemscope.record() as run:
    inside = bytearray(2_000_000)
late = bytearray(3_000_000)
print([event.size for event in run.events.filter(event="MALLOC") if event.size > 900_000 and event.stack])
""",
                    command=[
                        command, "--device=cpu", "--call-stack=python:5", f"--collect-mode={mode}", f"--output={self.output}",
                        "--", sys.executable,
                    ],
                )
                self.assertEqual(ended.out.splitlines()[-1], "[2000001]")


if __name__ == "__main__":
    unittest.main()
