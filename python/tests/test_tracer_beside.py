"""The trace of Python calls beside all else: spans, the command, files of both kinds, and other tools that listen."""

import glob
import os
import sqlite3
import sys
import unittest

from traced import TracedCase

MONITORING = sys.version_info >= (3, 12)


class Spans(TracedCase):
    def test_traceback_traces_the_span(self) -> None:
        self.run_program(
            """
import msmemscope
msmemscope.config(device="cpu", events="alloc,free,traceback", output=output)
def before(): pass
def within(): pass
def after(): pass
before()
for _ in range(2):
    msmemscope.start()
    within()
    msmemscope.stop()
    after()
"""
        )
        counts = self.counts()
        self.assertEqual((counts["before"], counts["within"], counts["after"]), (0, 2, 0))
        self.assertTrue(self.rows())

    def test_calls_and_call_stacks_know_functions_by_the_same_numbers(self) -> None:
        self.run_program(
            """
import threading, msmemscope
msmemscope.config(device="cpu", events="alloc,free,traceback", call_stack="c:5,python:10", output=output)
def allocate(n): return bytearray(n)
def work():
    for number in range(200): allocate(2000 + number)
    for number in range(100):
        space = {}
        exec(compile(f"def made_{number}(): return bytearray(5000)", "made.py", "exec"), space)
        space[f"made_{number}"]()
msmemscope.start()
thread = threading.Thread(target=work)
thread.start()
work()
thread.join()
msmemscope.stop()
"""
        )
        counts = self.counts()
        self.assertEqual((counts["allocate"], sum(counts[f"made_{number}"] for number in range(100))), (400, 200))
        frames = {row["Frame"] for row in self.rows("memscope_stacks")}
        self.assertTrue(all(f"made.py(1): made_{number}" in frames for number in range(100)), frames)

    def test_without_traceback_nothing_is_traced(self) -> None:
        self.run_program(
            """
import msmemscope
msmemscope.config(device="cpu", output=output)
msmemscope.start()
def within(): pass
within()
msmemscope.stop()
"""
        )
        self.assertEqual(self.files(), [])

    def test_a_database_has_a_table_of_calls(self) -> None:
        self.run_program(
            """
import msmemscope
msmemscope.config(device="cpu", events="alloc,free,traceback", data_format="db", output=output)
def within(n): return n
msmemscope.start()
for number in range(100): within(number)
msmemscope.stop()
"""
        )
        (path,) = glob.glob(os.path.join(self.output, "*", "device_cpu", "dump", "memscope_dump_*.db"))
        connection = sqlite3.connect(path)
        self.addCleanup(connection.close)
        pid = path.split("msmemscope_")[1].split("_")[0]
        columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info(python_trace_{pid})")]
        expected = [("FuncInfo", "TEXT"), ("StartTime(ns)", "TEXT"), ("EndTime(ns)", "TEXT"), ("Thread Id", "INTEGER"), ("Process Id", "INTEGER")]
        self.assertEqual(columns, expected)
        rows = connection.execute(f"SELECT * FROM python_trace_{pid} WHERE FuncInfo LIKE '%: within'").fetchall()
        self.assertEqual(len(rows), 100)
        self.assertTrue(all(int(start) <= int(end) and process == int(pid) for _, start, end, _, process in rows))
        (traced,) = connection.execute(f"SELECT count(*) FROM python_trace_{pid} WHERE \"EndTime(ns)\" = 'N/A'").fetchone()
        self.assertEqual(traced, 1)

    def test_code_that_the_program_names_is_among_the_calls_or_alone(self) -> None:
        program = """
import sys, msmemscope
msmemscope.config(device="cpu", output=output)
def work(n): return n
@msmemscope.RecordFunction("decorated")
def named(): return work(1)
begin, end = {"calls": (msmemscope.tracer.start, msmemscope.tracer.stop), "span": (msmemscope.start, msmemscope.stop)}[sys.argv[1]]
begin()
for _ in range(3):
    with msmemscope.RecordFunction("forward, pass"):
        work(2)
named()
end()
"""
        self.run_program(program, "span")
        self.assertEqual(self.counts(), {"forward, pass": 3, "decorated": 1})
        self.output += "_calls"
        self.run_program(program, "calls")
        counts = self.counts()
        self.assertEqual(
            [counts[name] for name in ("forward, pass", "decorated", "work", "named")], [3, 1, 4, 1]
        )
        self.assertFalse([name for name in counts if "msmemscope" in name or "function_start" in name], counts)
        self.assert_nested(self.calls())

    def test_under_the_command_the_whole_program_is_traced(self) -> None:
        command = os.path.join(os.path.dirname(sys.executable), "msmemscope")
        self.run_program(
            """
import threading
def work(n): return n
def body():
    for number in range(100): work(number)
body()
thread = threading.Thread(target=body)
thread.start()
thread.join()
""",
            command=[command, "--events=traceback", "--device=cpu", f"--output={self.output}", sys.executable],
        )
        counts = self.counts()
        self.assertEqual((counts["work"], counts["body"], counts["<module>"] >= 1), (200, 2, True))
        self.assertEqual(len(self.files()), 2)


class Others(TracedCase):
    @unittest.skipIf(MONITORING, "threads have profile functions of their own before 3.12")
    def test_a_profiler_that_is_there_stays(self) -> None:
        ended = self.run_program(
            """
import cProfile, pstats, sys, threading, warnings, msmemscope
msmemscope.config(device="cpu", output=output)
def work(n): return n
profiler = cProfile.Profile()
profiler.enable()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    msmemscope.tracer.start()
for number in range(100): work(number)
def body():
    for number in range(50): work(number)
thread = threading.Thread(target=body)
thread.start()
thread.join()
profiler.disable()
msmemscope.tracer.stop()
called = {name[2]: counts[0] for name, counts in pstats.Stats(profiler).stats.items()}
print(called["work"], [str(note.message) for note in caught])
"""
        )
        self.assertRegex(ended.out, r"^100 \['another profiler is at work")
        self.assertEqual(self.counts()["work"], 50)

    @unittest.skipIf(MONITORING, "before 3.12")
    def test_a_profiler_that_takes_the_place_is_told(self) -> None:
        ended = self.run_program(
            """
import sys, warnings, msmemscope
msmemscope.config(device="cpu", output=output)
def work(n): return n
msmemscope.tracer.start()
work(1)
seen = []
sys.setprofile(lambda frame, event, argument: seen.append(event))
work(2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    msmemscope.tracer.stop()
assert sys.getprofile() is not None
sys.setprofile(None)
print([str(note.message) for note in caught], len(seen) > 0)
"""
        )
        self.assertIn("another profiler took the place", ended.out)
        self.assertIn("True", ended.out)
        self.assertEqual(self.counts()["work"], 1)

    @unittest.skipUnless(MONITORING, "sys.monitoring is of 3.12 and later")
    def test_other_tools_hear_and_are_heard_beside_us(self) -> None:
        ended = self.run_program(
            """
import cProfile, pstats, sys, msmemscope
msmemscope.config(device="cpu", output=output)
monitoring = sys.monitoring
def work(n): return n
heard = []
monitoring.use_tool_id(monitoring.COVERAGE_ID, "coverage")
monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, lambda code, offset: heard.append(code.co_name))
monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)
profiler = cProfile.Profile()
profiler.enable()
msmemscope.tracer.start()
for number in range(100): work(number)
msmemscope.tracer.stop()
for number in range(10): work(number)
profiler.disable()
called = {name[2]: counts[0] for name, counts in pstats.Stats(profiler).stats.items()}
print(heard.count("work"), called["work"], monitoring.get_tool(4), monitoring.get_tool(monitoring.COVERAGE_ID))
"""
        )
        self.assertEqual(ended.out, "110 110 None coverage\n")
        self.assertEqual(self.counts()["work"], 100)

    @unittest.skipUnless(MONITORING, "sys.monitoring is of 3.12 and later")
    def test_without_a_free_number_it_warns_and_the_program_goes_on(self) -> None:
        ended = self.run_program(
            """
import sys, warnings, msmemscope
msmemscope.config(device="cpu", output=output)
for tool in range(6): sys.monitoring.use_tool_id(tool, f"tool {tool}")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    msmemscope.tracer.start()
print([str(note.message) for note in caught], [sys.monitoring.get_tool(tool) for tool in range(6)])
sys.monitoring.free_tool_id(2)
def work(n): return n
msmemscope.tracer.start()
work(1)
msmemscope.tracer.stop()
"""
        )
        self.assertIn("other tools", ended.out)
        self.assertIn("'tool 0', 'tool 1', 'tool 2', 'tool 3', 'tool 4', 'tool 5'", ended.out)
        self.assertEqual(self.counts()["work"], 1)


#: Installs a profiler of its own in every way there is, and prints what it was told.
OWN_PROFILER = """
import sys, threading
import msmemscope
msmemscope.config(device="cpu", output=output)
events = []
def f(frame, event, arg):
    events.append((event, frame.f_code.co_name, getattr(arg, "__name__", None) if event.startswith("c_") else None))
def g(n): return len([abs(i) for i in range(n)]) + max(1, n)
def h():
    try: int("x")
    except ValueError: pass
def gen():
    yield 1
    yield 2
def run(): g(3); h(); list(gen())
def told(what):
    print(what, len(events), events)
    events.clear()
if sys.argv[1] == "traced": msmemscope.tracer.start()
sys.setprofile(f); run(); sys.setprofile(None)
told("by its name")
if sys.argv[1] == "traced": msmemscope.tracer.stop(); msmemscope.tracer.start()
sys.setprofile(*[f]); run(); sys.setprofile(None)
told("with arguments of a list")
if sys.argv[1] == "traced": msmemscope.tracer.stop(); msmemscope.tracer.start()
set_it = sys.setprofile
def inner():
    set_it(f)
    set_it(f)
    run()
    set_it(None)
inner()
told("in a function, twice")
try: sys.setprofile()
except TypeError as error: print(error)
threading.setprofile(f)
thread = threading.Thread(target=run); thread.start(); thread.join()
threading.setprofile(None)
events = [event for event in events if event[1] in ("run", "g", "h", "gen")]
told("in a thread")
print(sys.getprofile())
"""

#: The same by `sys.monitoring`, also with the numbers that we would have.
OWN_MONITORING = """
import sys
import msmemscope
msmemscope.config(device="cpu", output=output)
m = sys.monitoring; E = m.events
def g(n): return len([abs(i) for i in range(n)]) + max(1, n)
def h():
    try: int("x")
    except ValueError: pass
def run(): g(3); h()
def name(thing): return getattr(thing, "co_name", getattr(thing, "__name__", type(thing).__name__))
if sys.argv[1] == "traced": msmemscope.tracer.start()
for tool in (2, 4, 3, 5, 0):
    log = []
    m.use_tool_id(tool, "own")
    for event in ("PY_START", "PY_RETURN", "CALL", "C_RETURN", "C_RAISE", "RAISE", "LINE"):
        m.register_callback(tool, getattr(E, event), lambda *a, event=event: log.append((event, *map(name, a))))
    m.set_events(tool, E.PY_START | E.PY_RETURN | E.CALL | E.RAISE | E.LINE)
    m.set_events(tool, E.PY_START | E.CALL)
    run()
    m.set_events(tool, 0)
    print(tool, len(log), log)
    log.clear()
    # Of a function in one line, 3.13.0 tells the line only if somebody else hears that functions begin.
    def local():
        run()
        g(1)
    m.set_local_events(tool, local.__code__, E.CALL | E.LINE)
    local()
    m.set_local_events(tool, local.__code__, 0)
    print(tool, len(log), log, m.get_tool(tool), m.get_events(tool))
    m.set_events(tool, E.CALL)
    sys.setprofile(lambda *told: log.append(("profiled", told[1])))
    run()
    sys.setprofile(None)
    m.set_events(tool, 0)
    print(tool, len(log), log)
    for wrong in (E.C_RETURN, 1 << 30, -1, None):
        try: m.set_events(tool, wrong)
        except Exception as error: print(type(error).__name__, error)
    m.free_tool_id(tool)
    try: m.set_events(tool, E.CALL)
    except ValueError as error: print(error)
"""


class OwnProfilers(TracedCase):
    """What the program's own profiler is told is what it is told without us."""

    def compare(self, program: str) -> None:
        bare = self.run_program(program, "bare").out
        self.output += "_traced"
        self.assertEqual(self.run_program(program, "traced").out, bare)
        self.assertTrue(self.calls())

    def test_a_profile_function_is_told_the_same(self) -> None:
        self.compare(OWN_PROFILER)

    @unittest.skipUnless(MONITORING, "sys.monitoring is of 3.12 and later")
    def test_tools_of_monitoring_are_told_the_same_and_have_the_numbers_that_they_want(self) -> None:
        self.compare(OWN_MONITORING)
