"""Blocks to be watched: what is allowed, and what is said of the rest."""

import json
import os
import subprocess
import sys
import unittest

from recorded import RecordedCase

COMMAND = os.path.join(os.path.dirname(sys.executable), "msmemscope")

#: A tensor as far as the watcher asks it, on memory that is there.
TENSOR = """
import ctypes
import msmemscope
from msmemscope import watcher

class Device:
    def __init__(self, type, index=None):
        self.type, self.index = type, index
    def __str__(self):
        return self.type

class Tensor:
    def __init__(self, shape=(4, 8), strides=(8, 1), device=Device("cpu")):
        self.shape, self.strides, self.device = shape, strides, device
        self.memory = ctypes.create_string_buffer(4096)
    def data_ptr(self):
        return ctypes.addressof(self.memory)
    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count
    def stride(self):
        return self.strides
    def element_size(self):
        return 4
    def untyped_storage(self):
        return self

def refusal(*block, **more):
    try:
        watcher.watch(*block, **more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"

tensor = Tensor()
"""
BEGIN = "msmemscope.config(device='cpu', output=output)\nmsmemscope.start()\n"


class Watcher(RecordedCase):
    def test_what_cannot_be_watched_is_refused_by_name_value_and_what_is_allowed(self) -> None:
        cases = [
            ("tensor", "TypeError: watch() missing 1 required keyword-only argument: 'name'"),
            ("tensor, name=''", "ValueError: name has 0 characters; allowed are 1 to 64"),
            ("tensor, name='x' * 65", "ValueError: name has 65 characters; allowed are 1 to 64"),
            ("tensor, name=b'x'", "TypeError: name must be a str, not bytes"),
            ("tensor, name='x', dump_nums=0", "ValueError: dump_nums is 0; allowed are -1, for no limit, and numbers from 1"),
            ("tensor, name='x', dump_nums=-2", "ValueError: dump_nums is -2; allowed are -1, for no limit, and numbers from 1"),
            ("tensor, name='x', dump_nums=1.5", "TypeError: dump_nums must be an int, not float"),
            ("tensor, name='x', length=8", "TypeError: length goes with an address; a tensor knows its own"),
            ("'x', name='x'", "TypeError: the block must be a tensor, or an address and length=..., not str"),
            ("4096, name='x'", "TypeError: length is missing; an address needs one"),
            ("4096, length=-1, name='x'", "ValueError: length is -1; allowed are 1 up to the end of the address space"),
            ("4096, length=0, name='x'", "ValueError: length is 0; allowed are 1 up to"),
            ("4096, length=2**64, name='x'", "ValueError: length is 18446744073709551616; allowed are 1 up to"),
            ("4096, length=True, name='x'", "TypeError: length must be an int, not bool"),
            ("-1, length=8, name='x'", "ValueError: the address is -1; allowed are 1 to 2**64 - 1"),
            ("'x', length=8, name='x'", "TypeError: the address must be an int, not str"),
            ("16, length=8, name='x'", "ValueError: 8 bytes at 0x10 cannot be read; a watched block must be memory"),
            ("Tensor((0,), (1,)), name='x'", "ValueError: the tensor has no memory: its shape is (0,)"),
            ("Tensor(device=Device('meta')), name='x'", "ValueError: the tensor is on meta; watched can be tensors on the cpu"),
            ("tensor, name='x'", "none"),
            ("tensor.data_ptr(), length=128, name='x', dump_nums=2", "none"),
        ]
        program = TENSOR + BEGIN + "".join(f"print(refusal({words}))\n" for words, _ in cases)
        said = self.run_program(program).out.splitlines()
        for (words, expected), found in zip(cases, said):
            self.assertTrue(found.startswith(expected), f"watch({words}): {found}")
        self.assertEqual(len(said), len(cases))

    def test_where_nothing_is_recorded_it_says_how_to(self) -> None:
        said = self.run_program(TENSOR + "print(refusal(tensor, name='x'))")
        self.assertIn("MemScopeError: nothing is recorded in this process; call msmemscope.start()", said.out)

    def test_a_block_is_removed_once_more_but_not_one_that_never_was_watched(self) -> None:
        program = TENSOR + BEGIN + """
watcher.watch(tensor, name="x")
watcher.remove(tensor)
watcher.remove(tensor)
watcher.watch(tensor.data_ptr(), length=100, name="x", dump_nums=2)
watcher.remove(tensor.data_ptr(), length=100)
try:
    watcher.remove(tensor.data_ptr(), length=99)
except ValueError as error:
    print(error)
"""
        self.assertRegex(self.run_program(program).out, "no block of 99 bytes at 0x[0-9a-f]+ was watched")

    def test_of_a_view_with_gaps_all_bytes_between_its_ends_are_watched(self) -> None:
        program = TENSOR + BEGIN + """
view = Tensor((3, 4), (16, 2))
watcher.watch(view, name="view")
watcher.remove(view.data_ptr(), length=(2 * 16 + 3 * 2 + 1) * 4)
"""
        self.run_program(program)

    def test_bytes_are_kept_up_to_the_limit_that_config_has_and_then_check_sums(self) -> None:
        program = TENSOR + """
msmemscope.config(device="cpu", output=output, watch=",nothing,full-content", watch_max_bytes="200")
msmemscope.start()
watcher.watch(tensor, name="first")
watcher.watch(Tensor(), name="second")
msmemscope.stop()
msmemscope.wait()
"""
        self.run_program(program)
        done = subprocess.run([COMMAND, "analyze", self.output, "watch", "--json"], stdout=subprocess.PIPE, check=True)
        (process,) = [process["watch"] for process in json.loads(done.stdout)["processes"] if "watch" in process]
        # Each has 128 bytes: the second does not fit any more, and is watched all the same.
        self.assertEqual([(problem["problem"], problem["value"]) for problem in process["problems"]], [("budget", 200)])
        self.assertEqual([block["name"] for block in process["blocks"]], ["first", "second"])

    def test_a_thousand_blocks_and_no_more_at_once(self) -> None:
        program = TENSOR + BEGIN + """
for number in range(1024):
    watcher.watch(tensor.data_ptr() + number, length=8, name=f"b{number}")
print(refusal(tensor, name="x"))
watcher.remove(tensor.data_ptr() + 77, length=8)
print(refusal(tensor, name="x"))
"""
        too_many, none = self.run_program(program).out.splitlines()
        self.assertIn("MemScopeError: no more blocks can be watched at once", too_many)
        self.assertEqual(none, "none")


if __name__ == "__main__":
    unittest.main()
