"""Recordings and dump files, opened: events, blocks, steps, analyses; of real runs of the package itself."""

import csv
import glob
import json
import os
import subprocess
import sys
import unittest
import warnings
from array import array
from typing import Any, Dict, List, Tuple

import msmemscope
from recorded import PATIENCE, RecordedCase

#: Twelve steps that keep a block each, marks, and something that is freed.
TRAINING = """
import msmemscope
msmemscope.config(device="cpu", call_stack="python:10", output=output, data_format=DATA_FORMAT)
msmemscope.start()
kept = []
def keep():
    kept.append(bytearray(1_000_000))
def use():
    return len(bytearray(2_000_000))
for step in range(12):
    msmemscope.mstx.mark("check")
    keep()
    use()
    msmemscope.step()
msmemscope.stop()
msmemscope.wait()
"""
#: Nothing is freed by the interpreter's end.
END = "import os\nos._exit(0)\n"


class ReadingCase(RecordedCase):
    """Tests that read one run, recorded once for all of them, as recording, csv and db."""

    places: Dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        case = cls("make")
        cls.addClassCleanup(case.doCleanups)
        case.setUp()
        cls.places = case.make()

    def make(self) -> Dict[str, str]:
        """The recording, and its files apart from it."""
        self.run_program(TRAINING.replace("DATA_FORMAT", "'csv'") + END)
        command = os.path.join(os.path.dirname(msmemscope.__file__), "bin", "msmemscope")
        places = {"recording": self.output}
        for form in ("csv", "db"):
            files = os.path.join(self.directory, form)
            subprocess.run([command, "export", self.output, f"--data-format={form}", "--output", files, "--quiet"], check=True)
            (places[form],) = glob.glob(os.path.join(files, "*", "device_cpu", "dump", f"memscope_dump_*.{form}"))
        return places

    def open(self, form: str) -> msmemscope.Run:
        return msmemscope.open(self.places[form])


def of_program(events: Any) -> List[Any]:
    """Those with a size that nothing but the program has."""
    return [event for event in events if event.size in (1_000_001, 2_000_001)]


class Reading(ReadingCase):
    def test_events_are_what_the_files_say(self) -> None:
        with open(self.places["csv"], newline="") as file:
            rows = list(csv.DictReader(file))
        for form in self.places:
            with self.subTest(form):
                events = list(self.open(form).events)
                self.assertEqual(
                    [(event.event, event.type, event.name or "N/A") for event in events],
                    [(row["Event"], row["Event Type"], row["Name"]) for row in rows],
                )
                self.assertEqual([event.thread for event in events], [int(row["Thread Id"]) for row in rows])
                sizes = [event.size for event in events if event.event == "MALLOC"]
                self.assertEqual(sum(sizes), sum(attribute(row, "size") for row in rows if row["Event"] == "MALLOC"))

    def test_recording_csv_and_db_have_the_same_events_and_blocks(self) -> None:
        told = {form: [self.comparable(event) for event in self.open(form).events] for form in self.places}
        self.assertEqual(told["csv"], told["db"])
        self.assertEqual(told["csv"], told["recording"])
        blocks = {form: [self.comparable(block) for block in self.open(form).blocks] for form in self.places}
        self.assertEqual(blocks["csv"], blocks["db"])
        self.assertEqual(blocks["csv"], blocks["recording"])
        used = {form: [event.used for event in of_program(self.open(form).events)] for form in self.places}
        self.assertEqual(used["csv"], used["db"])
        self.assertEqual(used["csv"], used["recording"])

    def comparable(self, thing: Any) -> Dict[str, Any]:
        """Files number events anew, and rows have times of their own, a nanosecond apart. What is told where tracing begins was
        there already: in a recording it is in use from the first of it on, in files it comes one by one."""
        told: Dict[str, Any] = thing.to_dict()
        for key in ("id", "time", "made", "used"):
            told.pop(key, None)
        told["freed"] = told.get("freed") is not None
        return told

    def test_a_batch_is_columns_that_say_what_its_events_say(self) -> None:
        for form in self.places:
            with self.subTest(form):
                count = 0
                for batch in self.open(form).events.batches(100):
                    count += len(batch)
                    for place, event in enumerate(batch):
                        self.assertEqual(batch.id[place], event.id)
                        self.assertEqual(batch.size[place], event.size)
                        self.assertEqual(batch.step[place], event.step or 0)
                        self.assertEqual(batch.block[place], event.block or 0)
                        self.assertEqual(batch.text(batch.name[place]), event.name)
                        self.assertEqual(batch.frames(batch.stack[place]), event.stack)
                    self.assertEqual(batch[-1].id, batch.id[-1])
                    with self.assertRaises(IndexError):
                        batch[len(batch)]
                self.assertEqual(count, len(list(self.open(form).events)))

    def test_columns_are_buffers_of_numbers(self) -> None:
        (batch,) = self.open("recording").events.batches(1 << 20)
        formats = {"id": "Q", "time": "Q", "thread": "I", "event": "B", "device": "i", "size": "Q", "stack": "I"}
        for name, form in formats.items():
            column = getattr(batch, name)
            self.assertEqual((column.format, len(column), column.readonly), (form, len(batch), True))
            self.assertIs(column, getattr(batch, name))
        self.assertEqual(sum(array("Q", batch.size)), sum(batch.size))
        self.assertEqual(bytes(batch.size), batch.size.tobytes())

    def test_a_column_outlives_its_run(self) -> None:
        size = next(self.open("recording").events.batches()).size
        self.assertGreater(sum(size), 12_000_000)

    def test_filters_choose_by_device_pool_kind_step_and_time(self) -> None:
        for form in self.places:
            with self.subTest(form):
                run = self.open(form)
                events = list(run.events)
                malloc = run.events.filter(event="MALLOC")
                self.assertEqual(len(list(malloc)), sum(event.event == "MALLOC" for event in events))
                self.assertEqual(len(list(run.events.filter(event=["MALLOC", "free"]))), len(list(run.events.filter(pool="HOST"))))
                self.assertEqual(list(run.events.filter(device=3, event="MALLOC")), [])
                self.assertEqual(len(list(run.events.filter(device="cpu", pool="HOST"))), len(list(run.events.filter(pool="HOST"))))
                in_step = of_program(run.events.filter(step=3))
                self.assertEqual([(event.event, event.size) for event in in_step], [("MALLOC", 1_000_001), ("MALLOC", 2_000_001), ("FREE", 2_000_001)])
                self.assertEqual(len(of_program(run.events.filter(step=range(2, 5)))), 9)
                start = run.processes[0].start_ns
                third = next(event for event in events if event.step == 3)
                cut = (third.time - start) / 1e9
                before, after = run.events.filter(time=(None, cut)), run.events.filter(time=(cut, None))
                self.assertEqual(len(list(before)) + len(list(after)), len(events))
                # Seconds as floats are not exact to the nanosecond.
                self.assertIn(len(list(before)) - events.index(third), (0, 1))
                self.assertEqual(len(of_program(run.blocks.filter(step=2))), 2)

    def test_wrong_filters_say_what_is_allowed(self) -> None:
        events = self.open("csv").events
        for filters, allowed in (
            ({"device": "gpu"}, "npu:0"),
            ({"pool": "SWIMMING"}, "PTA_WORKSPACE"),
            ({"event": "MELLOC"}, "KERNEL_LAUNCH"),
            ({"step": 0}, "from 1 on"),
            ({"step": "2"}, "from 1 on"),
            ({"time": (-1, None)}, "seconds"),
        ):
            with self.subTest(str(filters)), self.assertRaises(ValueError) as raised:
                list(events.filter(**filters))
            self.assertIn(allowed, str(raised.exception))
            self.assertIn(next(iter(filters)), str(raised.exception))
        with self.assertRaises(TypeError):
            events.filter(time=3)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            events.filter(device=[1.5])  # type: ignore[list-item]

    def test_wrong_arguments_are_named_with_what_is_allowed(self) -> None:
        # As programs that are not checked have it.
        run: Any = self.open("recording")
        for call, kind, message in (
            (lambda: run.events.filter(device=3.5), TypeError, "device must be a str or an int, or several of them, not float"),
            (lambda: run.events.batches(0), ValueError, "bad value 0 for size; allowed: integers from 1"),
            (lambda: run.blocks.batches("9"), TypeError, "size must be an int, not str"),
            (lambda: run.leaks("check", -1), ValueError, "bad value -1 for start_index; allowed: integers from 0"),
            (lambda: run.leaks(5), TypeError, "mstx_info must be a str, not int"),
            (lambda: run.inefficient(mem_size=-1), ValueError, "bad value -1 for mem_size; allowed: integers from 0"),
            (lambda: run.inefficient(idle_threshold=0), ValueError, "bad value 0 for idle_threshold; allowed: integers from 1"),
            (lambda: msmemscope.open(self.places["recording"], pid=1), msmemscope.MemScopeError, "is of process 1; recorded: "),
        ):  # type: Tuple[Any, Any, str]
            with self.assertRaisesRegex(kind, message):
                call()

    def test_blocks_know_their_beginning_and_end(self) -> None:
        for form in self.places:
            with self.subTest(form):
                blocks = of_program(self.open(form).blocks)
                kept = [block for block in blocks if block.size == 1_000_001]
                self.assertEqual([block.made_step for block in kept], list(range(1, 13)))
                used = [block for block in blocks if block.size == 2_000_001]
                self.assertEqual([block.freed_step for block in used], list(range(1, 13)))
                self.assertTrue(all(block.freed is not None and block.freed > block.made for block in used))
                self.assertIn("keep", kept[0].stack[0])
                self.assertEqual((kept[0].device, kept[0].pool, kept[0].owner), ("cpu", "HOST", None))

    def test_steps_processes_and_pools(self) -> None:
        for form in self.places:
            with self.subTest(form):
                run = self.open(form)
                (process,) = run.processes
                self.assertEqual([step.number for step in run.steps], list(range(1, 14)))
                self.assertTrue(all(step.end_ns is not None and step.begin_ns <= step.end_ns for step in run.steps[:12]))
                self.assertIsNone(run.steps[12].end_ns)
                (pool,) = run.pools
                self.assertEqual((pool.device, pool.pool, run.devices), ("cpu", "HOST", ("cpu",)))
                self.assertGreaterEqual(pool.peak_bytes, 14_000_000)
                self.assertEqual(process.events, len(list(run.events)))
                self.assertEqual(run.process(process.pid).processes, run.processes)
                with self.assertRaisesRegex(msmemscope.MemScopeError, str(process.pid)):
                    run.process(1)

    def test_a_dictionary_of_a_report_is_the_command_s_document(self) -> None:
        command = os.path.join(os.path.dirname(msmemscope.__file__), "bin", "msmemscope")
        for form, place in self.places.items():
            run = self.open(form)
            for word, report in (
                ("leaks", run.leaks()),
                ("fluctuation", run.fluctuation()),
                ("decompose", run.decompose()),
                ("oom", run.oom()),
            ):
                with self.subTest(f"{word} of {form}"):
                    said = subprocess.run([command, "analyze", place, word, "--json"], check=True, capture_output=True, text=True)
                    self.assertEqual(report.to_dict(), json.loads(said.stdout))
                    said = subprocess.run([command, "analyze", place, word], check=True, capture_output=True, text=True)
                    self.assertEqual(report.text, said.stdout)

    def test_leaks_name_the_line(self) -> None:
        for form in self.places:
            with self.subTest(form):
                leaks = self.open(form).leaks()
                (leak,) = leaks.growing
                self.assertEqual((leak.verdict, leak.bytes, leak.blocks), ("grows", 12_000_012, 12))
                assert leak.site and leak.growth
                self.assertIn("keep", leak.site)
                self.assertEqual(leak.growth.last_step, 12)
                self.assertEqual(leaks.of(device="cpu", pool="HOST"), leaks.leaks)
                self.assertEqual(leaks.of(device="0"), ())
                self.assertFalse(leaks.too_short)

    def test_leaks_between_marks(self) -> None:
        for form in self.places:
            with self.subTest(form):
                leaks = self.open(form).leaks(mstx_info="check", start_index=2)
                self.assertEqual([leak.bytes for leak in leaks.leaks if leak.bytes > 1000], [1_000_001])
                with self.assertRaisesRegex(msmemscope.MemScopeError, '12 marks "check"'):
                    self.open(form).leaks(mstx_info="check", start_index=10)

    def test_the_peak_says_who_held_it(self) -> None:
        for form in self.places:
            with self.subTest(form):
                run = self.open(form)
                peak = run.peak()
                self.assertEqual((peak.device, peak.pool, peak.step), ("cpu", "HOST", 12))
                self.assertGreaterEqual(peak.bytes, 14_000_000)
                self.assertIn("keep", peak.sites[0].frames[0])
                self.assertEqual(peak, run.peak(device="cpu", pool="HOST"))
                with self.assertRaisesRegex(msmemscope.MemScopeError, "cpu HOST"):
                    run.peak(device=0)

    def test_decomposition_at_any_moment(self) -> None:
        for form in self.places:
            run = self.open(form)
            for at in ("peak", "end", "step:3", 0.5, 1):
                with self.subTest(f"{form} at {at}"):
                    (device,) = run.decompose(at=at).devices
                    moment = device.peak if at == "peak" else device.at
                    assert moment is not None
                    for pool in moment.pools:
                        self.assertEqual(sum(owner.bytes for owner in pool.owners), pool.bytes)
            with self.assertRaisesRegex(ValueError, "step:N"):
                run.decompose(at="noon")
            with self.assertRaisesRegex(msmemscope.MemScopeError, "never came to step 99"):
                run.decompose(at="step:99")

    def test_what_a_run_lacks_is_said_as_the_command_does(self) -> None:
        for form in self.places:
            with self.subTest(form), self.assertRaisesRegex(msmemscope.MemScopeError, "no inefficient of .*: no allocation of a device"):
                self.open(form).inefficient()

    def test_steps_and_runs_are_compared(self) -> None:
        for form in self.places:
            with self.subTest(form):
                run = self.open(form)
                (pair,) = run.compare(steps=(2, 5)).pairs
                (pool,) = pair.pools
                self.assertAlmostEqual(pool.compared - pool.base, 3_000_003, delta=10_000)
                self.assertEqual((pair.base.step, pair.compared.step, pair.operators), (2, 5, None))
                (same,) = run.compare(self.places["csv"]).pairs
                self.assertEqual(same.pools[0].base, same.pools[0].compared)
                with self.assertRaises(ValueError):
                    run.compare()
                with self.assertRaisesRegex(msmemscope.MemScopeError, "no operator in"):
                    run.compare(self.open("db"), level="op")

    def test_notebooks_get_escaped_html(self) -> None:
        run = self.open("recording")
        shown = run._repr_html_()
        self.assertIn("<table>", shown)
        self.assertIn("HOST", shown)
        report = msmemscope.reports.Leaks({"schema": 1, "processes": []}, "<script>alert('x')</script> & more")
        self.assertEqual(report._repr_html_(), "<pre>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; more</pre>")
        self.assertIn("&lt;module&gt;", run.leaks()._repr_html_())

    def test_representations_say_what_it_is(self) -> None:
        run = self.open("recording")
        self.assertRegex(repr(run), r"<Run '.*': process \d+ .*program.py>")
        self.assertRegex(repr(next(iter(run.events))), r"<Event \d+: ")
        self.assertRegex(repr(next(iter(run.blocks))), r"<Block \d+: \d+ bytes of cpu HOST at 0x[0-9a-f]+, ")
        self.assertIn("Leaks", repr(run.leaks()))

    def test_results_do_not_change(self) -> None:
        run = self.open("recording")
        (leak,) = run.leaks().growing
        for thing, name in ((leak, "bytes"), (run.steps[0], "number"), (next(iter(run.events)), "size")):
            with self.assertRaises(AttributeError):
                setattr(thing, name, 0)
        report = run.leaks()
        report.to_dict().clear()
        self.assertTrue(report.to_dict())
        self.assertEqual(report, run.leaks())

    def test_without_pandas_an_error_says_so(self) -> None:
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            with self.assertRaisesRegex(msmemscope.MemScopeError, "pip install pandas"):
                self.open("recording").to_pandas()
        else:
            self.skipTest("pandas is installed")
        with self.assertRaisesRegex(ValueError, "'events', 'blocks'"):
            self.open("recording").to_pandas("steps")


class Frames(ReadingCase):
    """With pandas and numpy, where they are installed."""

    @classmethod
    def setUpClass(cls) -> None:
        try:
            import pandas
        except ImportError:
            raise unittest.SkipTest("pandas is not installed") from None
        super().setUpClass()

    def test_columns_are_taken_by_numpy_without_a_copy(self) -> None:
        import numpy  # type: ignore[import-not-found]

        (batch,) = self.open("recording").events.batches(1 << 20)
        sizes = numpy.asarray(batch.size)
        self.assertEqual((sizes.dtype, int(sizes.sum())), (numpy.uint64, sum(batch.size)))
        self.assertFalse(sizes.flags.owndata)

    def test_frames_without_a_row_have_their_columns(self) -> None:
        run = self.open("recording")
        for chosen in (run.events, run.blocks):
            none = chosen.filter(pool="ATB").to_pandas()
            self.assertEqual((len(none), list(none.columns)), (0, list(chosen.to_pandas().columns)))

    def test_frames_have_a_row_for_each_event_and_block(self) -> None:
        for form in self.places:
            with self.subTest(form):
                run = self.open(form)
                events = run.to_pandas()
                self.assertEqual(len(events), len(list(run.events)))
                kept = events[(events.event == "MALLOC") & (events["size"] == 1_000_001)]
                self.assertEqual(list(kept.step), list(range(1, 13)))
                self.assertEqual(set(events.name.dropna()) & {"check"}, {"check"})
                blocks = run.to_pandas("blocks")
                self.assertEqual(len(blocks), len(list(run.blocks)))
                self.assertEqual(list(blocks.freed.isna()), [block.freed is None for block in run.blocks])
                self.assertEqual(set(blocks.device), {"cpu"})


class Opening(RecordedCase):
    def test_what_cannot_be_opened_is_said_as_the_command_does(self) -> None:
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        text = os.path.join(self.directory, "a.csv")
        with open(text, "w") as file:
            file.write("neither, nor\n1, 2\n")
        command = os.path.join(os.path.dirname(msmemscope.__file__), "bin", "msmemscope")
        with self.assertRaisesRegex(msmemscope.MemScopeError, "none' does not exist"):
            msmemscope.open(os.path.join(self.directory, "none"))
        for path in (empty, text):
            with self.subTest(path):
                said = subprocess.run([command, "analyze", path, "leaks"], capture_output=True, text=True)
                self.assertEqual(said.returncode, 2)
                with self.assertRaises(msmemscope.MemScopeError) as raised:
                    msmemscope.open(path)
                self.assertIn(str(raised.exception), said.stderr)
        with self.assertRaises(TypeError):
            msmemscope.open(3)  # type: ignore[arg-type]

    def test_nothing_that_is_shown_has_what_a_terminal_would_obey(self) -> None:
        evil = "evil\x1b]0;owned\x07\x1b[31m\x9b\x7f\u202e\u2066\u200f\u2028\r\n"
        output = os.path.join(self.directory, f"output{evil}")
        program = TRAINING.replace("DATA_FORMAT", "'csv'").replace("def keep", f"@msmemscope.describe.describer(owner={evil!r})\ndef keep")
        self.output = output
        self.run_program(program + END, evil)
        run = msmemscope.open(output)
        (process,) = run.processes
        self.assertTrue(process.command.endswith(evil), "data are as they are")
        shown = [repr(run), repr(run.events), repr(process), *map(repr, run.events), *map(repr, run.blocks), run._repr_html_()]
        for report in (run.leaks(), run.fluctuation(), run.decompose(), run.oom(), run.compare(steps=(1, 2))):
            shown += [str(report), repr(report), report._repr_html_()]
        for wrong in (
            lambda: msmemscope.open(output + "x"),
            lambda: msmemscope.open(output).process(1),
            lambda: run.peak(device=evil),
            lambda: run.decompose(at=evil),
        ):
            with self.assertRaises(Exception) as raised:
                wrong()
            shown.append(str(raised.exception))
        for text in shown:
            obeyed = [one for one in text if one != "\n" and not one.isprintable() and one != "\xa0"]
            self.assertEqual(obeyed, [], text)
        self.assertIn("evil\\u{1b}]0;owned", str(run.decompose()))

    def test_an_unreadable_part_is_a_warning(self) -> None:
        self.run_program(TRAINING.replace("DATA_FORMAT", "'csv'"))
        broken = os.path.join(self.output, "msmemscope_1_20200101000000_ascend", "spool")
        os.makedirs(broken)
        with open(os.path.join(broken, "windows.spool"), "wb") as file:
            file.write(b"\0" * 10_000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = msmemscope.open(self.output)
        self.assertEqual([warning.category for warning in caught], [msmemscope.MemScopeWarning])
        self.assertEqual(len(run.leaks().growing), 1)

    def test_what_is_cut_off_is_a_warning(self) -> None:
        self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output, data_format="none")
            msmemscope.start()
            for _ in range(200_000):
                bytearray(3_000)
            msmemscope.stop()
            """
        )
        (spool,) = glob.glob(os.path.join(self.output, "*", "spool", "events.spool"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(msmemscope.open(self.output).processes[0].damage, ())
        os.truncate(spool, os.path.getsize(spool) // 2)
        with self.assertWarnsRegex(msmemscope.MemScopeWarning, "not all of '.*' can be read: lane 0: "):
            (process,) = msmemscope.open(self.output).processes
        self.assertTrue(process.damage)

    def test_a_program_reads_all_it_has_recorded_while_it_goes_on(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output, data_format="none")
            msmemscope.start()
            for _ in range(100_000):
                bytearray(3_000)
            msmemscope.stop()
            run = msmemscope.open(output)
            batches = run.events.filter(event="MALLOC").batches(1)
            sizes = list(next(batches).size)
            # What the last of them are in is filled and used again, several times.
            for _ in range(200_000):
                bytearray(5_000)
            for batch in batches:
                sizes += batch.size
            (pool,) = run.pools
            print(sizes.count(3_001), pool.live_bytes <= pool.peak_bytes)
            """
        )
        self.assertEqual(ended.out.split(), ["100000", "True"])

    def test_the_keyboard_interrupts_reading(self) -> None:
        ended = self.run_program(
            """
import msmemscope, os, signal, sys, threading, time
# Whoever runs the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
msmemscope.config(device="cpu", output=output, data_format="csv")
msmemscope.start()
kept = [bytes(100) for _ in range(300_000)]
msmemscope.stop()
msmemscope.wait()
run = msmemscope.open(output)
ways = [
    lambda: [len(batch) for batch in iter(lambda: next(run.events.batches()), None)],
    lambda: [run.leaks() for _ in iter(int, 1)],
    lambda: [msmemscope.open(output).steps for _ in iter(int, 1)],
]
for way in ways:
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        way()
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
"""
        )
        self.assertEqual(ended.out.split("\n")[:3], ["interrupted"] * 3)

    def test_threads_run_while_it_reads(self) -> None:
        ended = self.run_program(
            TRAINING.replace("DATA_FORMAT", "'csv'")
            + """
import threading
runs = [msmemscope.open(output) for _ in range(4)]
found = []
def read(run):
    found.append((len(list(run.events)) > 0, len(run.leaks().growing)))
threads = [threading.Thread(target=read, args=(run,)) for run in runs * 2]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found == [(True, 1)] * 8)
shared = iter(runs[0].events.batches(10))
counted = []
def count():
    counted.append(sum(len(batch) for batch in shared))
threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(counted) == len(list(runs[0].events)))
"""
        )
        self.assertEqual(ended.out.split(), ["True", "True"])

    def test_importing_does_not_load_what_only_reads(self) -> None:
        names = "json, dataclasses, msmemscope.run, msmemscope.reports, msmemscope.analyzer"
        program = f"import msmemscope, sys; print([name for name in {names.split(', ')!r} if name in sys.modules])"
        said = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
        self.assertEqual(said.stdout.strip(), "[]")


def attribute(row: Dict[str, str], key: str) -> int:
    """A number of the `Attr` column."""
    pairs: List[Tuple[str, ...]] = [tuple(pair.split(":", 1)) for pair in row["Attr"].strip("{}").split(",")]
    return int(dict(pair for pair in pairs if len(pair) == 2)[key])


if __name__ == "__main__":
    unittest.main()
