"""The process beside the program: files and a report, however the program ends."""

import glob
import os
import pty
import signal
import subprocess
import sys
import time
import unittest

from recorded import PATIENCE, RecordedCase

BEGIN = """
import os, sys, msmemscope
msmemscope.config(device="cpu", call_stack="python:5", output=output)
msmemscope.start()
def leak():
    return bytearray(3_333_333)
kept = leak()
"""


class Keeper(RecordedCase):
    def log(self) -> str:
        """What the keeper said where nobody waited for it."""
        said = ""
        for path in glob.glob(os.path.join(self.output, "*.log")):
            with open(path) as file:
                said += file.read()
        return said

    def wait_for_log(self) -> str:
        """The report of a program that is gone: the keeper may still be at it."""
        end = time.monotonic() + PATIENCE
        while "files:" not in self.log() and time.monotonic() < end:
            time.sleep(0.02)
        return self.log()

    def blocks(self) -> int:
        return sum("size:3333" in row["Attr"] for row in self.rows() if row["Event"] == "MALLOC")

    def test_a_program_that_ends_leaves_files_and_shows_the_report(self) -> None:
        ended = self.run_program(BEGIN + "msmemscope.stop()\nprint('last words')")
        self.assertIn("last words", ended.out)
        self.assertIn("1 process recorded", ended.errors)
        self.assertIn("exited", ended.errors)
        self.assertIn("program.py(7): leak", ended.errors)
        self.assertIn("frees of blocks that were allocated before start()", ended.errors)
        self.assertEqual(self.blocks(), 1)
        self.assertEqual(glob.glob(os.path.join(self.output, "*.log")), [])
        self.assertEqual(self.hidden(), [])

    def test_a_span_needs_no_stop(self) -> None:
        self.run_program(BEGIN)
        self.assertEqual(self.blocks(), 1)

    def test_what_is_freed_at_the_end_is_no_leak(self) -> None:
        # Freed by the interpreter's own end, after every atexit function of Python's.
        self.run_program(BEGIN + "sys.modules['kept'] = kept")
        freed = [row for row in self.rows() if row["Event"] == "FREE" and "size:3333" in row["Attr"]]
        self.assertEqual(len(freed), 1)

    def test_a_killed_program_has_its_files_and_report(self) -> None:
        for way in ["os.kill(os.getpid(), 9)", "os._exit(3)", "os.abort()"]:
            with self.subTest(way):
                self.output = os.path.join(self.directory, f"output{len(way)}")
                process = self.start(BEGIN + way)
                process.communicate(timeout=PATIENCE)
                self.assertNotEqual(process.returncode, 0)
                report = self.wait_for_log()
                self.assertIn("ended without exit", report)
                self.assertIn("program.py(7): leak", report)
                self.assertEqual(self.blocks(), 1)
                self.assertEqual(self.hidden(), [])

    def test_stop_writes_the_files_of_all_spans_while_the_program_goes_on(self) -> None:
        process = self.start(
            BEGIN
            + """
for _ in range(3):
    msmemscope.stop()
    outside = bytearray(4_444_444)
    del outside
    msmemscope.wait()
    print("written", flush=True)
    sys.stdin.readline()
    msmemscope.start()
    more = leak()
"""
        )
        assert process.stdin and process.stdout
        for spans in range(1, 4):
            self.assertEqual(process.stdout.readline().strip(), "written")
            self.assertEqual(self.blocks(), spans)
            process.stdin.write("\n")
            process.stdin.flush()
        process.communicate(timeout=PATIENCE)
        self.assertEqual(self.blocks(), 4)
        self.assertFalse([row for row in self.rows() if row["Event"] == "MALLOC" and "size:4444" in row["Attr"]])

    def test_the_program_has_no_child_it_did_not_start(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none")
"""
        )
        self.assertEqual(ended.out.strip(), "none")

    def test_nobody_waits_for_the_keeper_but_the_program(self) -> None:
        process = self.start(BEGIN + "print('ready', flush=True)\nsys.stdin.readline()")
        assert process.stdin and process.stdout and process.stderr
        self.assertEqual(process.stdout.readline().strip(), "ready")
        keeper = self.keeper_of(process.pid)
        self.assertNotIn(os.getsid(keeper), (os.getsid(0), process.pid))
        held = []
        for descriptor in os.listdir(f"/proc/{keeper}/fd"):
            try:
                held.append(os.readlink(f"/proc/{keeper}/fd/{descriptor}"))
            except FileNotFoundError:  # it has closed it meanwhile
                pass
        self.assertTrue(held)
        for stream in (process.stdin, process.stdout, process.stderr):
            self.assertNotIn(os.readlink(f"/proc/self/fd/{stream.fileno()}"), held)
        process.communicate("\n", timeout=PATIENCE)

    def keeper_of(self, program: int) -> int:
        """It is there, but for a moment it may have no name yet."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if self.keeps(pid, program):
                    return int(pid)
        self.fail("there is no keeper")

    @staticmethod
    def keeps(pid: str, program: int) -> bool:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return f"side-keeper\0{program}:".encode() in file.read()
        except OSError:
            return False

    def test_an_interrupt_of_the_whole_group_leaves_the_recording_whole(self) -> None:
        process = self.start(
            BEGIN
            + """
try:
    print("ready", flush=True)
    sys.stdin.readline()
except KeyboardInterrupt:
    print("interrupted")
"""
        )
        assert process.stdout
        self.assertEqual(process.stdout.readline().strip(), "ready")
        os.kill(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out.strip()), (0, "interrupted"), errors)
        self.assertIn("1 process recorded", errors)

    def test_streams_that_are_closed_are_not_missed(self) -> None:
        self.run_program("import os\nos.closerange(0, 3)" + BEGIN)
        self.assertEqual(self.blocks(), 1)

    def test_a_forked_child_that_exits_does_not_end_the_run(self) -> None:
        ended = self.run_program(
            BEGIN
            + """
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
later = leak()
msmemscope.stop()
msmemscope.wait()
"""
        )
        self.assertEqual(ended.errors.count("process recorded") + ended.errors.count("processes recorded"), 1)
        self.assertEqual(self.blocks(), 2)

    def test_multiprocessing_with_every_way_to_start_works_beside_it(self) -> None:
        for way in ["fork", "spawn", "forkserver"]:
            with self.subTest(way):
                ended = self.run_program(
                    f"""
                    import multiprocessing, msmemscope
                    def double(number): return 2 * number
                    if __name__ == "__main__":
                        multiprocessing.set_start_method({way!r})
                        msmemscope.config(device="cpu", output=output)
                        msmemscope.start()
                        with multiprocessing.Pool(2) as pool:
                            print(sum(pool.map(double, range(100))))
                        msmemscope.stop()
                    """
                )
                self.assertEqual(ended.out.strip(), "9900")

    def test_a_thousand_spans_are_one_recording(self) -> None:
        self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output)
            for number in range(1000):
                msmemscope.start()
                msmemscope.step()
                msmemscope.stop()
            """
        )
        kinds = [row["Event Type"] for row in self.rows() if row["Event"] == "SYSTEM"]
        self.assertEqual([kinds.count(kind) for kind in ("START_TRACE", "STEP", "STOP_TRACE")], [1000] * 3)

    def test_a_keeper_that_was_killed_is_missed_and_the_recording_is_whole(self) -> None:
        process = self.start(
            BEGIN
            + """
print("ready", flush=True)
sys.stdin.readline()
msmemscope.stop()
try:
    msmemscope.wait()
except msmemscope.MemScopeError as error:
    print(error)
msmemscope.start()
more = leak()
"""
        )
        assert process.stdin and process.stdout
        self.assertEqual(process.stdout.readline().strip(), "ready")
        keeper = self.keeper_of(process.pid)
        os.kill(keeper, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while self.keeps(str(keeper), process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        out, errors = process.communicate("\n", timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        remedy = f"the recording is kept, write them with: msmemscope export {self.output}"
        self.assertIn(remedy, out)
        self.assertIn(remedy, errors)
        command = os.path.join(os.path.dirname(sys.executable), "msmemscope")
        subprocess.run([command, "export", self.output], check=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(self.blocks(), 2)

    def test_files_that_do_not_fit_are_an_error_of_wait_and_can_be_written_elsewhere(self) -> None:
        unshare = ["unshare", "--mount", "--propagation", "private"]
        if os.getuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
            self.skipTest("mounting is not permitted")
        room = f"mkdir -p {self.output} && mount -t tmpfs -o size=1m none {self.output} && exec {sys.executable} $0"
        ended = self.run_program(
            BEGIN
            + f"""
many = [bytearray(600) for _ in range(20000)]
msmemscope.stop()
try:
    msmemscope.wait()
except msmemscope.MemScopeError as error:
    print(error)
import subprocess
command = {os.path.join(os.path.dirname(sys.executable), "msmemscope")!r}
done = subprocess.run([command, "export", output, "--output", output + "_elsewhere"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
""",
            command=[*unshare, "sh", "-c", room],
        )
        self.assertIn("not all files could be written", ended.out)
        self.assertIn(f"msmemscope export {self.output} --output DIR", ended.out)
        self.assertIn("NOT EXPORTED: no room for", ended.errors)
        self.output += "_elsewhere"
        self.assertEqual(self.blocks(), 1)

    def test_an_output_that_cannot_be_written_is_refused_before_anything_is_loaded(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output="/proc/nowhere")
            try:
                msmemscope.start()
            except msmemscope.MemScopeError as error:
                print(error)
            print("libmsmemscope" in open("/proc/self/maps").read())
            """
        )
        self.assertIn("give another with output=", ended.out)
        self.assertEqual(ended.out.split()[-1], "False")

    def test_a_terminal_shows_how_far_the_files_are(self) -> None:
        master, terminal = pty.openpty()
        file = os.path.join(self.directory, "program.py")
        with open(file, "w") as text:
            text.write(f"output = {self.output!r}\n" + BEGIN + "many = [bytearray(600) for _ in range(50000)]\n")
        environment = {**os.environ, "TERM": "xterm"}  # one that can move its cursor
        process = subprocess.Popen([sys.executable, file], stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:  # nobody has the terminal open any longer
            pass
        finally:
            os.close(master)
        self.assertEqual(process.wait(timeout=PATIENCE), 0)
        self.assertIn(b"[msmemscope] exporting", shown)
        self.assertIn(b"1 process recorded", shown)
        self.assertEqual(self.blocks(), 1)

    def test_development_mode_is_no_obstacle(self) -> None:
        program = BEGIN + "msmemscope.stop()\nmsmemscope.wait()"
        self.run_program(program, command=[sys.executable, "-X", "dev"])
        self.assertEqual(self.blocks(), 1)

    def test_a_recording_can_be_exported_again_by_the_command(self) -> None:
        self.run_program(BEGIN + "msmemscope.stop()")
        command = os.path.join(os.path.dirname(sys.executable), "msmemscope")
        subprocess.run([command, "export", self.output, "--format=db"], check=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(len(glob.glob(os.path.join(self.output, "*", "device_cpu", "dump", "*.db"))), 1)


if __name__ == "__main__":
    unittest.main()
