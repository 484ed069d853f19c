"""The same calls in a program that the command started, or that was started with the library preloaded."""

import glob
import os
import shutil
import subprocess
import sys
import unittest

import msmemscope
from recorded import PATIENCE, RecordedCase

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

    def test_what_is_preloaded_is_not_attached_once_more(self) -> None:
        # What would attach cannot be loaded: it must not be tried.
        directory = os.path.join(self.directory, "lib64")
        os.mkdir(directory)
        for name in os.listdir(LIBRARIES):
            path = os.path.join(directory, name)
            if "attach" in name or "probe" in name:
                open(path, "w").close()
            else:
                shutil.copy(os.path.join(LIBRARIES, name), path)
        program = """
            import msmemscope
            msmemscope.config(device=DEVICE, output=output)
            try:
                msmemscope.start()
            except msmemscope.MemScopeError as error:
                print(error)
            inside = bytearray(2_222_222)
            msmemscope.stop()
            """
        by_hand = ["libascend_kernel_hook.so", "libascend_mstx_hook.so", "libatb_abi_0_hook.so", "libatb_abi_1_hook.so",
                   "libleaks_ascend_hal_hook.so"]  # fmt: skip
        for device, names in (("npu", by_hand), ("cpu,npu", [*by_hand, "libmsmemscope_host.so"]), ("npu", [])):
            with self.subTest(device, names=names):
                self.output = os.path.join(self.directory, f"output{len(names)}")
                ended = self.run_program(
                    program.replace("DEVICE", repr(device)),
                    LD_PRELOAD=":".join(os.path.join(directory, name) for name in names),
                    LD_LIBRARY_PATH=directory,
                    MSMEMSCOPE_LIB_DIR=directory,
                )
                self.assertEqual("1 process recorded" in ended.errors, bool(names), ended.errors)
                self.assertEqual("libmsmemscope_attach.so cannot be loaded" in ended.out, not names, ended.out)
                made = sum("size:2222223," in row["Attr"] for row in self.rows() if row["Event"] == "MALLOC")
                self.assertEqual(made, int("cpu" in device))

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


class Sourced(RecordedCase):
    """`source msmemscope --load-api-env`, which a file that is executed as well as sourced has to do."""

    SHELLS = ("bash", "zsh")

    def shell(self, name: str, script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not there")
        path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | {"PATH": path} | variables
        return subprocess.run(
            [name, "-c", script, name, "argument"], env=environment, cwd=self.directory, capture_output=True, text=True, timeout=PATIENCE
        )

    def test_what_it_adds_it_takes_away_again_and_touches_nothing_else(self) -> None:
        other = self.compile("int nothing;", "other.so")
        recorder = os.path.realpath(os.path.join(LIBRARIES, "libascend_kernel_hook.so"))
        script = """
            set -eu
            source msmemscope --load-api-env; echo "$LD_PRELOAD"
            source msleaks --load-api-env; echo "$LD_PRELOAD"
            source msmemscope --unload-api-env; echo "${LD_PRELOAD-unset}" "$#" "$1"
            """
        for name in self.SHELLS:
            for before, after in (({}, "unset"), ({"LD_PRELOAD": other}, other)):
                with self.subTest(name, before=before):
                    done = self.shell(name, script, **before)
                    loaded = ":".join([recorder, *before.values()])
                    self.assertEqual((done.stderr, done.returncode), ("", 0))
                    self.assertEqual(done.stdout.splitlines(), [loaded, loaded, f"{after} 1 argument"])

    def test_a_program_of_that_shell_has_the_recorder_from_its_start(self) -> None:
        program = "import msmemscope; msmemscope.config(device='npu', output='output'); msmemscope.start(); msmemscope.stop()"
        for name in self.SHELLS:
            with self.subTest(name):
                done = self.shell(name, f'source msmemscope --load-api-env; python -c "{program}"')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("1 process recorded", done.stderr)

    def test_a_mistake_does_not_end_the_shell(self) -> None:
        for name in self.SHELLS:
            with self.subTest(name):
                done = self.shell(name, "source msmemscope --help; echo $?; source msmemscope --load-api-env; echo $? ${LD_PRELOAD-unset}", MSMEMSCOPE_LIB_DIR="/nowhere")
                self.assertEqual(done.stdout.splitlines(), ["2", "2 unset"])
                self.assertIn("--load-api-env or --unload-api-env", done.stderr)
                self.assertIn("was not found in '/nowhere'", done.stderr)


if __name__ == "__main__":
    unittest.main()
