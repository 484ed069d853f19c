"""The life of a program: threads, processes it starts, interpreters it has, allocators below it, and how it ends."""

import os
import subprocess
import sys
import sysconfig
import unittest

import msmemscope
from recorded import PATIENCE, PROGRAMS, RecordedCase

LIBDIR = sysconfig.get_config_var("LIBDIR") or ""
LIBPYTHON = os.path.join(LIBDIR, sysconfig.get_config_var("LDLIBRARY") or "-")
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
PACKAGES = os.path.dirname(os.path.dirname(msmemscope.__file__))


class Life(RecordedCase):
    def made(self, size: int) -> int:
        """How many blocks of a bytearray of this size were recorded."""
        return sum(f"size:{size + 1}," in row["Attr"] for row in self.rows() if row["Event"] == "MALLOC")

    def test_a_handler_of_a_signal_may_call_what_it_interrupts(self) -> None:
        ended = self.run_program(
            """
            import signal, msmemscope
            from msmemscope import _recording
            make = _recording.Settings
            def interrupted(*arguments):
                _recording.Settings = make
                signal.raise_signal(signal.SIGUSR1)
                return make(*arguments)
            def handle(*_):
                msmemscope.config(device="cpu", output=output)
                print("handled")
            signal.signal(signal.SIGUSR1, handle)
            _recording.Settings = interrupted
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            kept = bytearray(800_000)
            msmemscope.stop()
            """
        )
        self.assertEqual((ended.out.strip(), self.made(800_000)), ("handled", 1))

    def test_64_threads_call_everything_at_once(self) -> None:
        self.run_program(
            """
            import threading, msmemscope
            msmemscope.config(device="cpu", call_stack="python:3,c:3", output=output)
            msmemscope.start()
            together = threading.Barrier(64)
            def work(number):
                together.wait()
                for turn in range(50):
                    msmemscope.mstx.mark(f"mark {number}")
                    inside = msmemscope.mstx.range_start(f"range {number}")
                    kept = bytearray(700_000 + number)
                    msmemscope.mstx.range_end(inside)
                    if number % 8 == 0:
                        msmemscope.start()
                    if number % 8 == 1:
                        msmemscope.step()
            threads = [threading.Thread(target=work, args=[number]) for number in range(64)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            msmemscope.stop()
            """
        )
        rows = self.rows()
        for number in range(64):
            self.assertEqual(self.made_of(rows, 700_000 + number), 50, number)
            marks = [row for row in rows if row["Event"] == "MSTX" and row["Name"] == f"mark {number}"]
            self.assertEqual(len(marks), 50)
        self.assertEqual(sum(row["Event Type"] == "STEP" for row in rows), 8 * 50)

    @staticmethod
    def made_of(rows: "list[dict[str, str]]", size: int) -> int:
        return sum(f"size:{size + 1}," in row["Attr"] for row in rows if row["Event"] == "MALLOC")

    def test_threads_that_start_and_stop_against_each_other_never_hang(self) -> None:
        ended = self.run_program(
            """
            import threading, msmemscope
            msmemscope.config(device="cpu", output=output)
            def work():
                for _ in range(30):
                    msmemscope.start()
                    msmemscope.stop()
                    msmemscope.wait()
            threads = [threading.Thread(target=work) for _ in range(16)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            msmemscope.start()
            kept = bytearray(888_888)
            msmemscope.stop()
            print("whole")
            """
        )
        self.assertEqual(ended.out.strip(), "whole")
        self.assertEqual(self.made(888_888), 1)

    def test_threads_that_are_at_work_at_the_end_do_not_harm_it(self) -> None:
        for number in range(4):
            self.output = os.path.join(self.directory, f"output{number}")
            ended = self.run_program(
                """
                import threading, time, msmemscope
                msmemscope.config(device="cpu", output=output)
                msmemscope.start()
                def forever():
                    while True: bytes(10_000)
                for _ in range(4): threading.Thread(target=forever, daemon=True).start()
                time.sleep(0.1)
                print("over")
                """
            )
            self.assertEqual(ended.out, "over\n")
            # Who hears all that is said has waited for the files.
            self.assertGreater(len(self.rows()), 0)

    def test_children_forked_by_threads_are_recorded_and_end(self) -> None:
        self.run_program(
            """
            import os, threading, time, msmemscope
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            stopped = False
            def allocate():
                while not stopped:
                    bytearray(50_000)
                    time.sleep(0.0001)
            busy = [threading.Thread(target=allocate) for _ in range(4)]
            for thread in busy: thread.start()
            def fork(number):
                child = os.fork()
                if child == 0:
                    kept = bytearray(610_000 + number)
                    msmemscope.step()
                    msmemscope.stop()
                    msmemscope.start()
                    msmemscope.wait()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            forks = [threading.Thread(target=fork, args=[number]) for number in range(12)]
            for thread in forks: thread.start()
            for thread in forks: thread.join()
            stopped = True
            for thread in busy: thread.join()
            msmemscope.stop()
            """
        )
        rows = self.rows()
        self.assertEqual([self.made_of(rows, 610_000 + number) for number in range(12)], [1] * 12)

    def test_programs_it_starts_run_as_always_and_are_not_recorded(self) -> None:
        self.run_program(
            """
            import os, subprocess, sys, msmemscope
            msmemscope.config(device="cpu,npu", output=output)
            msmemscope.start()
            for way in (dict(), dict(env=dict(os.environ)), dict(close_fds=False), dict(start_new_session=True)):
                done = subprocess.run([sys.executable, "-c", "print(sum(range(10)))"], capture_output=True, text=True, **way)
                assert (done.stdout, done.stderr, done.returncode) == ("45\\n", "", 0), done
            assert os.system("exit 3") >> 8 == 3
            kept = bytearray(555_555)
            msmemscope.stop()
            """
        )
        self.assertEqual(self.made(555_555), 1)
        self.assertEqual(len({row["Process Id"] for row in self.rows()}), 1)

    def test_spawned_workers_that_record_themselves_have_files_of_their_own(self) -> None:
        self.run_program(
            """
            import multiprocessing, msmemscope
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            def work(number):
                return len(bytearray(640_000 + number))
            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(2) as pool:
                    assert pool.map(work, range(4)) == [640_000 + number for number in range(4)]
                    pool.close()
                    pool.join()
            """
        )
        rows = self.rows()
        self.assertEqual([self.made_of(rows, 640_000 + number) for number in range(4)], [1] * 4)
        self.assertGreater(len({row["Process Id"] for row in rows}), 1)

    def test_another_interpreter_in_the_process_is_no_danger(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            for name in ("_interpreters", "_xxsubinterpreters"):
                try:
                    interpreters = __import__(name)
                    break
                except ImportError:
                    interpreters = None
            TRIES = "\\n".join([
                "try:",
                "    import msmemscope",
                "    msmemscope.start()",
                "    msmemscope.stop()",
                "    print('works')",
                "except ImportError as error:",
                "    print('refused:', error)",
            ])
            msmemscope.config(device="cpu", call_stack="python:5", output=output)
            msmemscope.start()
            if interpreters is None:
                print("none")
            else:
                run = getattr(interpreters, "run_string", None) or interpreters.exec
                other = interpreters.create()
                run(other, "kept = [bytearray(720_000) for _ in range(3)]")
                run(other, TRIES)
                interpreters.destroy(other)
            msmemscope.start()
            kept = bytearray(730_000)
            msmemscope.stop()
            """
        )
        self.assertRegex(ended.out, "works|refused: .*interpreter|none")
        if ended.out.strip() != "none":
            self.assertEqual(self.made(720_000), 3)
        self.assertEqual(self.made(730_000), 1)

    @unittest.skipUnless(os.path.exists(TCMALLOC), "tcmalloc is not there")
    def test_tcmalloc_stays_the_allocator(self) -> None:
        self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output)
            blocks = [bytearray(100_000) for _ in range(100)]
            msmemscope.start()
            del blocks
            import sqlite3, decimal
            kept = [bytearray(77_777) for _ in range(50)]
            msmemscope.stop()
            """,
            LD_PRELOAD=TCMALLOC,
        )
        self.assertEqual(self.made(77_777), 50)

    @unittest.skipUnless(LIBPYTHON.endswith(".so") and os.path.exists(LIBPYTHON), "this Python is not a library")
    def test_an_interpreter_at_a_fixed_address_keeps_working(self) -> None:
        program = os.path.join(self.directory, "fixed")
        source = os.path.join(PROGRAMS, "fixed_address.c")
        subprocess.run(
            ["cc", "-O1", "-no-pie", "-fno-pie", "-fno-builtin", "-rdynamic", "-o", program, source, f"-L{LIBDIR}", f"-Wl,-rpath,{LIBDIR}",
             "-l" + os.path.basename(LIBPYTHON)[3:-3]],
            check=True,
        )  # fmt: skip
        ended = self.run_program(
            """
            import ctypes, msmemscope
            ctypes.CDLL(None).take(1)
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            import sqlite3, decimal
            kept = [bytearray(77_777) for _ in range(50)]
            ctypes.CDLL(None).take(10)
            msmemscope.stop()
            """,
            command=[program],
            PYTHONHOME=sys.base_prefix,
            PYTHONPATH=PACKAGES,
        )
        self.assertNotIn("Warning", ended.errors)
        self.assertEqual(self.made(77_777), 50)
        self.assertEqual(self.made(66_665), 10)

    def test_the_first_process_of_a_container_has_its_files_when_it_ends(self) -> None:
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.getuid() or subprocess.run([*unshare, "true"], capture_output=True).returncode:
            self.skipTest("name spaces of processes are not permitted")
        program = """
            import os, msmemscope
            assert os.getpid() == 1
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            kept = bytearray(4_321_000)
            """
        ended = self.run_program(program, command=[*unshare, sys.executable])
        self.assertIn("1 process recorded", ended.errors)
        self.assertEqual(self.made(4_321_000), 1)
        # All processes of the container end with the first: what was recorded is there, and becomes files later.
        self.output = os.path.join(self.directory, "killed")
        self.run_program(program + "os._exit(0)", command=[*unshare, sys.executable])
        command = os.path.join(os.path.dirname(sys.executable), "msmemscope")
        subprocess.run([command, "export", self.output], check=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(self.made(4_321_000), 1)


if __name__ == "__main__":
    unittest.main()
