"""The trace of Python calls: every call is there, once, with its beginning and its end, and nothing breaks."""

import collections
import csv
import glob
import json
import os
import signal
import time
from typing import Counter, Dict

from recorded import PATIENCE
from traced import TracedCase

#: Calls of every kind. Deterministic, so that it can be counted twice.
WORKLOAD = """
import asyncio, sys
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
def numbers(n):
    for number in range(n):
        yield number
def delegating(n):
    yield from numbers(n)
    return (yield 7)
def fails(n):
    if n == 0:
        raise ValueError(n)
    try:
        fails(n - 1)
    finally:
        len("x")
async def leaf(n):
    await asyncio.sleep(0)
    return n
async def tree(n):
    return sum(await asyncio.gather(*[leaf(number) for number in range(n)]))
async def agen(n):
    for number in range(n):
        yield number
async def consume(n):
    return [number async for number in agen(n)]
class Thing:
    def __init__(self):
        self.items = []
    def __call__(self, item):
        self.items.append(item)
        return self
    @property
    def size(self):
        return len(self.items)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return True
def thrower():
    generator = numbers(5)
    next(generator)
    try:
        generator.throw(KeyError("in"))
    except KeyError:
        pass
    fresh = numbers(5)
    try:
        fresh.throw(KeyError("before it began"))
    except KeyError:
        pass
    closed = numbers(5)
    next(closed)
    closed.close()
    # Earlier versions tell a profile function written in C of this, and none in Python, with which it is compared.
    if sys.version_info >= (3, 11):
        abandoned = delegating(3)
        next(abandoned)
        del abandoned
def workload():
    fib(12)
    deep(200)
    list(delegating(5))
    [fib(number) for number in range(5)]
    sorted([3, 1, 2], key=lambda item: -item)
    for depth in range(5):
        try:
            fails(depth)
        except ValueError:
            pass
    thing = Thing()
    for item in range(10):
        thing(item).size
    with Thing():
        fails(2)
    thrower()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(tree(7))
    loop.run_until_complete(consume(4))
    loop.close()
    "a,b".split(","); {}.get(1); str.upper("x"); divmod(7, 2); isinstance(1, int)
    try:
        divmod(1, 0)
    except ZeroDivisionError:
        pass
"""


class Calls(TracedCase):
    def test_every_call_is_told_as_often_as_python_itself_tells_it(self) -> None:
        ended = self.run_program(
            WORKLOAD
            + """
import collections, json
functions, natives = collections.Counter(), collections.Counter()
def count(frame, event, argument):
    if event == "call":
        code = frame.f_code
        functions[f"{code.co_filename}({code.co_firstlineno}): {getattr(code, 'co_qualname', code.co_name)}"] += 1
    elif event == "c_call":
        natives[argument.__name__] += 1
workload()   # whatever is made the first time is made
sys.setprofile(count)
workload()
sys.setprofile(None)
natives["setprofile"] -= 1
import msmemscope
msmemscope.config(device="cpu", output=output)
msmemscope.tracer.start()
workload()
msmemscope.tracer.stop()
print(json.dumps([functions, +natives]))
"""
        )
        functions, natives = json.loads(ended.out)
        rows = self.calls()
        found = collections.Counter(row["FuncInfo"] for row in rows if "N/A" not in row.values())
        native = {name: times for name, times in found.items() if name.startswith("<built-in ")}
        self.assertEqual({name: times for name, times in found.items() if name not in native}, functions)
        by_name: Counter[str] = collections.Counter()
        for name, times in native.items():
            by_name[name.split()[2].rstrip(">")] += times
        self.assertEqual(by_name, natives)
        self.assertGreater(sum(functions.values()), 1000)
        self.assert_nested(rows)
        program = os.path.join(self.directory, "program.py")
        unfinished = [row for row in rows if "N/A" in row.values()]
        self.assertEqual([(row["FuncInfo"], row["StartTime(ns)"], row["EndTime(ns)"]) for row in unfinished],
                         [(f"start: {program}(1): <module>", "N/A", "N/A")])

    def test_calls_that_began_before_or_have_not_ended_say_so(self) -> None:
        self.run_program(
            """
import msmemscope, os, signal
msmemscope.config(device="cpu", output=output)
def inner():
    msmemscope.tracer.start()
def outer():
    inner()
outer()
def last():
    os.kill(os.getpid(), signal.SIGKILL)
last()
""",
            status=-signal.SIGKILL,
        )
        said = self.wait_for_keeper()
        rows = {row["FuncInfo"].split("): ")[-1]: row for row in self.calls()}
        self.assertTrue(rows["outer"]["FuncInfo"].startswith("start: "), said)
        self.assertEqual(rows["outer"]["StartTime(ns)"], "N/A")
        self.assertNotEqual(rows["inner"]["EndTime(ns)"], "N/A")
        self.assertTrue(rows["last"]["FuncInfo"].startswith("stop: "))
        self.assertNotEqual(rows["last"]["StartTime(ns)"], "N/A")
        self.assertEqual(rows["last"]["EndTime(ns)"], "N/A")
        self.assertEqual((rows["<module>"]["StartTime(ns)"], rows["<module>"]["EndTime(ns)"]), ("N/A", "N/A"))

    def wait_for_keeper(self) -> str:
        """Until the process beside a killed one has written everything."""
        for _ in range(PATIENCE * 10):
            if self.files() and not glob.glob(os.path.join(self.output, "*", "device_*", "dump", ".*")):
                if any(glob.glob(os.path.join(self.output, "*", "config.json"))):
                    break
            time.sleep(0.1)
        return str(self.files())

    def test_threads_are_traced_whether_they_began_before_or_after(self) -> None:
        self.run_program(
            """
import threading, msmemscope
msmemscope.config(device="cpu", output=output)
def work(n):
    return n
def body(times, before, after):
    before.set()
    after.wait()
    for number in range(times):
        work(number)
def begin(count):
    threads = []
    for number in range(count):
        before = threading.Event()
        threads.append(threading.Thread(target=body, args=(1000 + number, before, gate)))
        threads[-1].start()
        before.wait()
    return threads
gate = threading.Event()
early = begin(3)
msmemscope.tracer.start()
late = begin(4)
gate.set()
for thread in early + late:
    thread.join()
msmemscope.tracer.stop()
work(0)
"""
        )
        per_thread: Counter[str] = collections.Counter()
        for row in self.calls():
            if row["FuncInfo"].endswith(": work"):
                self.assertNotIn("N/A", row.values())
                per_thread[row["Thread Id"]] += 1
        self.assertEqual(sorted(per_thread.values()), [1000, 1000, 1001, 1001, 1002, 1002, 1003])

    def test_a_forked_child_goes_on_in_a_directory_of_its_own(self) -> None:
        self.run_program(
            """
import os, msmemscope
msmemscope.config(device="cpu", output=output)
def in_child(n): return n
def in_parent(n): return n
def forks():
    child = os.fork()
    if child == 0:
        for number in range(500): in_child(number)
        return child
    assert os.waitpid(child, 0)[1] == 0
    for number in range(300): in_parent(number)
    return child
msmemscope.tracer.start()
if forks() == 0:
    os._exit(0)
msmemscope.tracer.stop()
"""
        )
        self.assertEqual(len(self.files()), 2)
        counts: Dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
        for row in self.calls():
            counts[row["Process Id"]][row["FuncInfo"].split("): ")[-1]] += 1
        own = {next(name for name in ("in_parent", "in_child") if names[name]): names for names in counts.values()}
        self.assertEqual((own["in_parent"]["in_parent"], own["in_child"]["in_child"]), (300, 500))
        # In the child it was there from the beginning.
        self.assertTrue(any(row["FuncInfo"].startswith("start: ") and row["FuncInfo"].endswith(": forks") for row in self.calls()))

    def test_twice_begun_and_ended_for_nothing_it_warns(self) -> None:
        ended = self.run_program(
            """
import warnings, msmemscope
msmemscope.config(device="cpu", output=output)
def say(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    print(*[f"{type(note.message).__name__} {note.filename == __file__} {note.message}" for note in caught], sep="; ")
say(msmemscope.tracer.stop)
say(msmemscope.tracer.start)
say(msmemscope.tracer.start)
say(msmemscope.tracer.stop)
say(msmemscope.tracer.stop)
"""
        )
        lines = ended.out.splitlines()
        self.assertEqual([lines[1], lines[3]], ["", ""])
        self.assertEqual([lines[0], lines[4]], ["MemScopeWarning True Python calls are not traced; stop() has no effect"] * 2)
        self.assertEqual(lines[2], "MemScopeWarning True Python calls are traced already; start() has no effect")

    def test_a_thousand_traces_beside_busy_threads(self) -> None:
        self.run_program(
            """
import faulthandler, threading, msmemscope
faulthandler.dump_traceback_later(200, exit=True)
msmemscope.config(device="cpu", output=output)
def in_trace(): pass
def between(): pass
def busy(n): return n if n < 2 else busy(n - 1) + busy(n - 2)
over = threading.Event()
def work():
    while not over.is_set():
        busy(6)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(1000):
    msmemscope.tracer.start()
    in_trace()
    msmemscope.tracer.stop()
    between()
over.set()
for thread in threads: thread.join()
"""
        )
        counts = self.counts()
        self.assertEqual((counts["in_trace"], counts["between"]), (1000, 0))
        for path in self.files():
            with open(path, newline="") as file:
                self.assert_nested(list(csv.DictReader(file)))

    def test_names_may_hold_anything(self) -> None:
        self.run_program(
            r"""
import msmemscope
msmemscope.config(device="cpu", output=output)
space = {}
files = ['odd,"name".py', "two\nlines\t.py", "\udc80raw.py", "\u8bad\u7ec3.py", "x" * 300]
for number, file in enumerate(files):
    exec(compile(f"def f{number}(): pass\ndef \u51fd{number}(): pass", file, "exec"), space)
msmemscope.tracer.start()
for number in range(len(files)):
    space[f"f{number}"]()
    space[f"\u51fd{number}"]()
msmemscope.tracer.stop()
"""
        )
        names = [row["FuncInfo"] for row in self.calls() if "N/A" not in row.values() and "built-in" not in row["FuncInfo"]]
        files = ['odd,"name".py', "two\\nlines\\t.py", "\ufffdraw.py", "\u8bad\u7ec3.py", "x" * 300]
        expected = [f"{file}({line}): {name}{number}" for number, file in enumerate(files) for line, name in ((1, "f"), (2, "\u51fd"))]
        self.assertEqual(names, expected)

    def test_functions_that_die_are_not_taken_for_their_successors(self) -> None:
        self.run_program(
            """
import gc, msmemscope
msmemscope.config(device="cpu", output=output)
def made(number):
    space = {}
    exec(compile(f"def made_{number}(): return {number}", "made.py", "exec"), space)
    return space[f"made_{number}"]
msmemscope.tracer.start()
for number in range(3000):
    assert made(number)() == number
msmemscope.tracer.stop()
"""
        )
        counts = self.counts()
        self.assertEqual([counts[f"made_{number}"] for number in range(3000)], [1] * 3000)
        self.assertEqual(counts["made"], 3000)

    def test_the_interpreter_may_end_while_calls_are_traced(self) -> None:
        ended = self.run_program(
            """
import atexit, sys, threading, time, msmemscope
msmemscope.config(device="cpu", output=output)
msmemscope.tracer.start()
def at_exit(): pass
atexit.register(at_exit)
class Last:
    def __del__(self): pass
last = Last()
def forever():
    while True: at_work()
def at_work(): pass
# 3.10 lets such threads go on in memory that it has freed, with or without us.
if sys.version_info[:2] != (3, 10):
    for _ in range(3): threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.05)
at_work()
print("over")
"""
        )
        self.assertEqual(ended.out, "over\n")
        counts = self.counts()
        self.assertEqual(counts["at_exit"], 1)
        self.assertGreater(counts["at_work"], 0)

    def test_a_module_of_torch_is_called_by_its_class(self) -> None:
        sources = {
            "new": """
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)
    def _call_impl(self, *args, **kwargs):
        def inner():
            return self.forward(*args, **kwargs)
        return inner()
    __call__ = _wrapped_call_impl
""",
            # Before 2.1.
            "old": """
class Module:
    def _call_impl(self, *args):
        return self.forward(*args)
    __call__ = _call_impl
""",
        }
        for version, source in sources.items():
            package = os.path.join(self.directory, version, "torch", "nn", "modules")
            os.makedirs(package)
            with open(os.path.join(package, "module.py"), "w") as file:
                file.write(source)
        self.run_program(
            """
import importlib.util
def load(version):
    spec = importlib.util.spec_from_file_location(version, version + "/torch/nn/modules/module.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
class Linear(load("new").Module):
    def forward(self, x): return x
class Block(Linear.__mro__[1]):
    def __init__(self): self.inner = Linear()
    def forward(self, x): return self.inner(x)
class Ancient(load("old").Module):
    def forward(self, x): return x
import msmemscope
msmemscope.config(device="cpu", output=output)
block, ancient = Block(), Ancient()
msmemscope.tracer.start()
for _ in range(3): block(1)
ancient(2)
msmemscope.tracer.stop()
"""
        )
        counts = self.counts()
        self.assertEqual((counts["nn.Module: Block"], counts["nn.Module: Linear"], counts["nn.Module: Ancient"]), (3, 3, 1))
        wrapped = [name for name in counts if "_wrapped_call_impl" in name]
        inner = sum(times for name, times in counts.items() if name.split(".")[-1] == "_call_impl")
        self.assertEqual((wrapped, inner), ([], 6))
