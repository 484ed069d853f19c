"""What the program calls its memory and its code, and snapshots of it."""

import os
import re
import sys
import unittest
from typing import Dict, List, Optional

import msleaks
import msleaks.describe
import msmemscope
from msmemscope import describe
from recorded import RecordedCase

COMMAND = os.path.join(os.path.dirname(sys.executable), "msmemscope")
#: Blocks that the interpreter asks the C library for, each of a size that nothing else has.
SIZES = """
import ctypes, msmemscope
from msmemscope import describe
kept = []
def block(size):
    data = bytearray(size)
    kept.append(data)
    return data
def address(data, offset=0):
    return ctypes.addressof(ctypes.c_char.from_buffer(data)) + offset
msmemscope.config(device="cpu", output=output)
"""


class Described(RecordedCase):
    def run_described(self, program: str) -> None:
        self.run_program(SIZES + re.sub(r"^ {12}", "", program, flags=re.M))

    def owners(self) -> Dict[int, Optional[str]]:
        """By the size of the block, which is a byte more than that of the array."""
        found: Dict[int, Optional[str]] = {}
        for row in self.rows():
            if row["Event"] == "MALLOC":
                size = re.search(r"size:(\d+)", row["Attr"])
                owner = re.search(r"owner:([^}]*?)(,alloc_type:.*)?}", row["Attr"])
                assert size
                found[int(size[1]) - 1] = owner[1] if owner else None
        return found

    def of(self, *sizes: int) -> List[Optional[str]]:
        owners = self.owners()
        return [owners[size] for size in sizes]

    def test_code_is_labelled_in_every_way_the_manual_has(self) -> None:
        self.run_described(
            """
            msmemscope.start()
            @describe.describer(owner="test1")
            def train1():
                block(1000001)
            train1()
            with describe.describer(owner="test2"):
                block(1000002)
            describe.describer(owner="test3").__enter__()
            block(1000003)
            describe.describer(owner="test3").__exit__()
            data = block(1000004)
            describe.describer(address(data), owner="test4")
            block(1000005)
            msmemscope.stop()
            """
        )
        self.assertEqual(
            self.of(1000001, 1000002, 1000003, 1000004, 1000005),
            ["HOST@test1", "HOST@test2", "HOST@test3", "HOST@test4", None],
        )

    def test_labels_nest_a_hundred_deep_and_are_closed_by_exceptions(self) -> None:
        self.run_described(
            """
            msmemscope.start()
            def deeper(depth):
                if not depth:
                    block(1000001)
                    raise KeyError(depth)
                with describe.describer(owner=f"d{depth}"):
                    deeper(depth - 1)
            for _ in range(10):
                try:
                    deeper(100)
                except KeyError:
                    pass
                else:
                    raise AssertionError("the exception did not pass")
            block(1000002)
            msmemscope.stop()
            """
        )
        deep = "HOST@" + "@".join(f"d{depth}" for depth in range(100, 0, -1))
        self.assertEqual(self.of(1000001, 1000002), [deep, None])

    def test_generators_and_coroutines_are_labelled_while_they_run(self) -> None:
        self.run_described(
            """
            import asyncio, inspect
            msmemscope.start()
            @describe.describer(owner="generator")
            def generate():
                received = yield block(1000001)
                assert received == "sent"
                try:
                    yield block(1000003)
                except LookupError:
                    yield block(1000005)
                return "done"
            def delegate():
                return (yield from generate())
            generator = delegate()
            next(generator)
            block(1000002)
            generator.send("sent")
            block(1000004)
            generator.throw(LookupError())
            try:
                next(generator)
            except StopIteration as end:
                assert end.value == "done"
            closed = []
            @describe.describer(owner="closed")
            def unending():
                try:
                    while True: yield
                finally:
                    closed.append(block(1000006))
            generator = unending(); next(generator); generator.close(); assert closed

            @describe.describer(owner="coroutine")
            async def waits(event):
                block(1000011)
                await event.wait()
                block(1000013)
                return "answer"
            @describe.describer(owner="asynchronous")
            async def items(event):
                yield block(1000014)
                await event.wait()
                try:
                    yield block(1000015)
                finally:
                    block(1000016)
            async def main():
                event = asyncio.Event()
                task = asyncio.ensure_future(waits(event))
                await asyncio.sleep(0)
                block(1000012)
                event.set()
                assert await task == "answer"
                found = items(event)
                async for item in found:
                    block(len(item) + 100)
                    if len(item) == 1000015:
                        break
                await found.aclose()
                cancelled = asyncio.ensure_future(waits(asyncio.Event()))
                await asyncio.sleep(0)
                cancelled.cancel()
                try:
                    await cancelled
                except asyncio.CancelledError:
                    block(1000017)
            asyncio.run(main())
            assert inspect.iscoroutinefunction(waits) and waits.__name__ == "waits"
            block(1000018)
            msmemscope.stop()
            """
        )
        self.assertEqual(self.of(1000001, 1000003, 1000005), ["HOST@generator"] * 3)
        self.assertEqual(self.of(1000006, 1000011, 1000013), ["HOST@closed", "HOST@coroutine", "HOST@coroutine"])
        self.assertEqual(self.of(1000014, 1000015, 1000016), ["HOST@asynchronous"] * 3)
        others = (1000002, 1000004, 1000012, 1000114, 1000115, 1000017, 1000018)
        self.assertEqual(self.of(*others), [None] * len(others))

    def test_methods_of_all_kinds_are_decorated(self) -> None:
        self.run_described(
            """
            msmemscope.start()
            class Model:
                @describe.describer(owner="method")
                def method(self): block(1000001)
                @describe.describer(owner="static")
                @staticmethod
                def static(): block(1000002)
                @classmethod
                @describe.describer(owner="class")
                def of_class(cls): block(1000003)
            Model().method(); Model.static(); Model.of_class()
            msmemscope.stop()
            """
        )
        self.assertEqual(self.of(1000001, 1000002, 1000003), ["HOST@method", "HOST@static", "HOST@class"])

    def test_a_block_is_labelled_by_any_address_in_it_and_anew(self) -> None:
        self.run_described(
            """
            msmemscope.start()
            data = block(1000001)
            describe.describer(address(data, 500000), owner="first")
            describe.describer(address(data, 1000000), owner="second")
            with describe.describer(owner="window"):
                data = block(1000002)
            describe.describer(address(data), owner="own")
            class Tensor:
                def __init__(self, pointer): self.pointer = pointer
                def data_ptr(self): return self.pointer
            describe.describer(Tensor(address(block(1000003), 64)), owner="tensor")
            describe.describer(Tensor(0), owner="no memory")
            class Distributed:
                _local_tensor = Tensor(address(block(1000004)))
            describe.describer(Distributed(), owner="part")
            class Array:
                __array_interface__ = {"data": (address(block(1000005)), False)}
            describe.describer(Array(), owner="array")
            msmemscope.stop()
            """
        )
        self.assertEqual(
            self.of(1000001, 1000002, 1000003, 1000004, 1000005),
            ["HOST@second", "HOST@window@own", "HOST@tensor", "HOST@part", "HOST@array"],
        )

    def test_64_threads_have_their_own_labels_and_none_is_lost(self) -> None:
        self.run_described(
            """
            import threading
            msmemscope.start()
            barrier = threading.Barrier(64)
            decorated = describe.describer(owner="shared")(block)
            function = msmemscope.RecordFunction("turn")
            def work(number):
                own = describe.describer(owner=f"t{number}")
                barrier.wait()
                for turn in range(200):
                    with own, function:
                        if turn % 50 == 0:
                            decorated(1000000 + 1000 * number + turn)
                        try:
                            with describe.describer(owner="inner"):
                                raise ValueError
                        except ValueError:
                            pass
                block(2000000 + number)
            threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            msmemscope.stop()
            """
        )
        owners = self.owners()
        for number in range(64):
            for turn in (0, 50, 100, 150):
                self.assertEqual(owners[1000000 + 1000 * number + turn], f"HOST@t{number}@shared")
            self.assertIsNone(owners[2000000 + number])

    def test_a_label_that_is_open_when_the_recording_begins_or_forks_holds(self) -> None:
        self.run_described(
            """
            import os
            with describe.describer(owner="outer"):
                msmemscope.start()
                block(1000001)
                child = os.fork()
                if not child:
                    block(1000002)
                    os._exit(0)
                os.waitpid(child, 0)
            block(1000003)
            msmemscope.stop()
            """
        )
        self.assertEqual(self.of(1000001, 1000002, 1000003), ["HOST@outer", "HOST@outer", None])

    def test_a_thousand_spans_and_windows_in_between(self) -> None:
        self.run_described(
            """
            for turn in range(1000):
                msmemscope.start()
                with describe.describer(owner="window"), msmemscope.RecordFunction("turn"):
                    if turn % 250 == 0:
                        block(1000000 + turn)
                msmemscope.stop()
            """
        )
        self.assertEqual(self.of(1000000, 1000250, 1000500, 1000750), ["HOST@window"] * 4)

    def test_named_code_is_among_the_functions_with_the_tracer_and_without(self) -> None:
        program = """
            import threading
            if {traced}: msmemscope.tracer.start()
            with msmemscope.RecordFunction("before"): pass
            msmemscope.start()
            @msmemscope.RecordFunction("forward_pass")
            def forward():
                with msmemscope.RecordFunction("layer, \\"1\\""):
                    raise KeyError
            for _ in range(3):
                try: forward()
                except KeyError: pass
            thread = threading.Thread(target=msmemscope.RecordFunction("thread")(lambda: None))
            thread.start(); thread.join()
            msmemscope.stop()
            with msmemscope.RecordFunction("after"): pass
            if {traced}: msmemscope.tracer.stop()
            """
        for traced in (False, True):
            with self.subTest(traced=traced):
                self.output = os.path.join(self.directory, f"output_{traced}")
                self.run_described(program.format(traced=traced))
                rows = self.rows("python_trace")
                names = [row["FuncInfo"] for row in rows]
                self.assertEqual((names.count("forward_pass"), names.count('layer, "1"'), names.count("thread")), (3, 3, 1))
                # What is named outside of a span is seen if the trace of calls is on.
                self.assertEqual(("before" in names, "after" in names), (traced, traced))
                self.assertFalse([name for name in names if "_span.py" in name or "_function.py" in name])
                outer = [row for row in rows if row["FuncInfo"] == "forward_pass"]
                inner = [row for row in rows if row["FuncInfo"] == 'layer, "1"']
                for around, within in zip(outer, inner):
                    times = (around["StartTime(ns)"], within["StartTime(ns)"], within["EndTime(ns)"], around["EndTime(ns)"])
                    self.assertEqual(sorted(map(int, times)), list(map(int, times)))
                self.assertEqual(any("forward" in name and ".py" in name for name in names), traced)

    def test_the_command_sees_the_same(self) -> None:
        self.run_program(
            SIZES.replace('msmemscope.config(device="cpu", output=output)\n', "")
            + 'with describe.describer(owner="mine"):\n    describe.describer(address(block(1000001)), owner="own")\n',
            command=[COMMAND, "--device=cpu", f"--output={self.output}", "--", sys.executable],
        )
        self.assertEqual(self.of(1000001), ["HOST@mine@own"])

    def test_snapshots_say_what_is_in_use(self) -> None:
        self.run_described(
            """
            msmemscope.take_snapshot(name="before")
            msmemscope.start()
            block(50000001)
            msmemscope.take_snapshot()
            with msmemscope.TakeSnapshot(name="load"):
                block(30000001)
            @msmemscope.TakeSnapshot(None, "call")
            def call(): raise KeyError
            try:
                call()
            except KeyError:
                pass
            msmemscope.stop()
            msmemscope.take_snapshot(name="after")
            """
        )
        rows = [row for row in self.rows() if row["Event"] == "SNAPSHOT"]
        names = ["before", "Memory Snapshot", "load Start", "load End", "call Start", "call End", "after"]
        self.assertEqual([row["Name"] for row in rows], names)
        numbers = [
            {key: float(value) for key, value in re.findall(r"(\w+):([\d.]+)", row["Attr"])} for row in rows
        ]
        keys = {"reserved", "max_reserved", "allocated", "max_allocated", "total", "free", "device_rate", "reserved_rate"}
        for row in numbers:
            self.assertEqual(set(row), keys)
            self.assertGreaterEqual(row["max_allocated"], row["allocated"])
            self.assertGreaterEqual(row["total"], row["free"])
        self.assertGreaterEqual(numbers[1]["allocated"] - numbers[0]["allocated"], 50_000_000)
        self.assertGreaterEqual(numbers[3]["allocated"] - numbers[2]["allocated"], 30_000_000)
        self.assertGreaterEqual(numbers[3]["reserved"], 80_000_000)

    def test_snapshots_have_the_numbers_of_torch_npu_where_it_is_used(self) -> None:
        self.run_program(
            """
            import sys, types
            class Npu:
                def is_initialized(self): return True
                def device_count(self): return 2
                def current_device(self): return 0
                def memory_stats(self, device): return {}
                def memory_reserved(self, device): return [2000, 0][device]
                def max_memory_reserved(self, device): return 3000
                def memory_allocated(self, device): return 500
                def max_memory_allocated(self, device): return 700
                def mem_get_info(self, device):
                    assert device == 0, "a device that is not used must not be begun with"
                    return 60000, 80000
            torch = sys.modules["torch"] = types.ModuleType("torch")
            sys.modules["torch_npu"] = types.ModuleType("torch_npu")
            torch.npu = Npu()
            import msmemscope
            msmemscope.config(device="npu", output=output)
            msmemscope.take_snapshot(0, "one")
            msmemscope.take_snapshot((1, 0, 1), name="both")
            msmemscope.take_snapshot(name="all")
            try:
                msmemscope.take_snapshot([0, 2])
            except ValueError as error:
                assert "2 for device_mask; allowed: the devices torch_npu sees, which are 2" in str(error), error
            else:
                raise AssertionError("there is no such device")
            torch.npu.memory_reserved = lambda device: 1 / 0
            msmemscope.take_snapshot(0, "failed")
            """
        )
        told = "reserved:2000,max_reserved:3000,allocated:500,max_allocated:700,total:80000,free:60000,"
        rows = {device: [row for row in self.rows(device=device) if row["Event"] == "SNAPSHOT"] for device in ("0", "1")}
        self.assertEqual([row["Name"] for row in rows["0"]], ["one", "both", "all", "failed"])
        self.assertEqual([row["Name"] for row in rows["1"]], ["both", "all"])
        for row in rows["0"][:3]:
            self.assertEqual(row["Attr"], "{" + told + "device_rate:25.000000,reserved_rate:25.000000}")
        for row in [*rows["1"], rows["0"][3]]:
            self.assertIn("reserved:0,max_reserved:0,allocated:0,max_allocated:0", row["Attr"])

    def test_a_snapshot_needs_no_span_and_its_settings_stand(self) -> None:
        ended = self.run_described_with_warnings()
        self.assertIn("take_snapshot", ended)
        self.assertEqual([row["Name"] for row in self.rows() if row["Event"] == "SNAPSHOT"], ["alone"])

    def run_described_with_warnings(self) -> str:
        program = SIZES + 'msmemscope.take_snapshot(name="alone")\nmsmemscope.config(device="cpu", call_stack="c")\n'
        return self.run_program(program).errors


class Wrong(unittest.TestCase):
    """What cannot be is said, and nothing is recorded for it."""

    def test_labels_and_names_are_texts(self) -> None:
        for make, argument in ((lambda text: describe.describer(owner=text), "owner"), (msmemscope.RecordFunction, "name")):
            for wrong in (7, None, b"bytes"):
                with self.assertRaisesRegex(TypeError, f"{argument} must be a str"):
                    make(wrong)  # type: ignore[arg-type]
            for bad in ("", "x" * 1025, "a\0b"):
                with self.assertRaisesRegex(ValueError, f"{argument}; allowed: 1 to 1024 characters"):
                    make(bad)

    def test_a_target_has_memory(self) -> None:
        for wrong in (-1, 0, 1 << 64):
            with self.assertRaisesRegex(ValueError, "target; allowed: an address"):
                describe.describer(wrong, owner="a")
        for other in (True, "text", [1], object(), print):
            with self.assertRaisesRegex(TypeError, "target must be a tensor, an array or an address"):
                describe.describer(other, owner="a")

        class Meta:
            def data_ptr(self) -> int:
                raise RuntimeError("no storage")

        with self.assertRaisesRegex(ValueError, "no memory of its own: no storage"):
            describe.describer(Meta(), owner="a")

    def test_functions_are_decorated_and_nothing_else(self) -> None:
        for wrong in (7, "text", int):
            with self.assertRaisesRegex(TypeError, "decorates functions"):
                describe.describer(owner="a")(wrong)  # type: ignore[type-var]

    def test_devices_are_numbers(self) -> None:
        for wrong in ("0", 1.5, True, [None], ("0",), {0}):
            for take in (msmemscope.take_snapshot, msmemscope.TakeSnapshot):
                with self.assertRaisesRegex(TypeError, "device_mask; allowed: None, the number of a device"):
                    take(wrong)  # type: ignore[arg-type]
        for bad in (-1, [0, -1], 1024, [], ()):
            with self.assertRaisesRegex(ValueError, "device_mask; allowed: None, the number of a device"):
                msmemscope.take_snapshot(bad)

    def test_the_old_name_gives_the_same(self) -> None:
        for name in ("RecordFunction", "TakeSnapshot", "take_snapshot"):
            self.assertIs(getattr(msleaks, name), getattr(msmemscope, name))
        self.assertIs(msleaks.describe.describer, describe.describer)


if __name__ == "__main__":
    unittest.main()
