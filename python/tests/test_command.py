"""The same calls in a program that the command started, or that was started with the library preloaded."""

import glob
import os
import sys
import unittest

import msmemscope
from recorded import RecordedCase

COMMAND = os.path.join(os.path.dirname(sys.executable), "msmemscope")
LIBRARIES = os.path.join(os.path.dirname(msmemscope.__file__), "lib64")


class UnderCommand(RecordedCase):
    def test_start_opens_the_span_that_the_command_waits_for(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            before = bytearray(1_111_111); del before
            msmemscope.start()
            inside = bytearray(2_222_222)
            msmemscope.mstx.mark("here")
            range_id = msmemscope.mstx.range_start("step start")
            msmemscope.mstx.range_end(range_id)
            msmemscope.stop()
            msmemscope.wait()
            after = bytearray(3_333_333)
            """,
            command=[COMMAND, "--device=cpu", "--collect-mode=deferred", f"--output={self.output}", "--", sys.executable],
        )
        self.assertEqual(ended.errors.count("process recorded"), 1)
        made = [row["Attr"] for row in self.rows() if row["Event"] == "MALLOC"]
        seen = [sum(f"size:{size}," in attributes for attributes in made) for size in (1_111_112, 2_222_223, 3_333_334)]
        self.assertEqual(seen, [0, 1, 0])
        self.assertEqual([row["Event Type"] for row in self.rows() if row["Event"] == "MSTX"], ["Mark", "Range_start", "Range_end"])
        self.assertEqual(glob.glob(os.path.join(self.output, "*.log")), [], "no second keeper")

    def test_the_commands_options_stand_and_the_program_is_told(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output="/proc/nowhere")
            msmemscope.start()
            kept = bytearray(2_222_222)
            """,
            command=[COMMAND, "--device=cpu", f"--output={self.output}", "--", sys.executable],
        )
        self.assertIn("the command's options stand", ended.errors)
        self.assertTrue(self.rows())

    def test_a_library_that_was_preloaded_by_hand_is_used(self) -> None:
        recorder = os.path.join(LIBRARIES, "libascend_kernel_hook.so")
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu,npu", output=output)
            msmemscope.start()
            inside = bytearray(2_222_222)
            msmemscope.stop()
            print(open("/proc/self/maps").read().count("r-xp") > 0, len({line.split()[-1] for line in open("/proc/self/maps")
                  if "libascend_kernel_hook" in line}))
            """,
            LD_PRELOAD=recorder,
        )
        self.assertEqual(ended.out.split(), ["True", "1"])
        self.assertTrue([row for row in self.rows() if "size:2222223," in row["Attr"]])

    def test_without_a_recording_the_calls_do_nothing(self) -> None:
        ended = self.run_program(
            """
            import os, msmemscope
            msmemscope.stop()
            msmemscope.step()
            msmemscope.wait()
            msmemscope.mstx.mark("nobody hears it")
            assert msmemscope.mstx.range_start("nor this") == 0
            msmemscope.mstx.range_end(0)
            print(os.listdir("."))
            """
        )
        self.assertEqual(ended.out.strip(), "['program.py']")


if __name__ == "__main__":
    unittest.main()
