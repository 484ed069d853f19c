"""Tensors of torch on the CPU, in a process that records itself: before torch is imported, after it, and once it has tensors."""

import os
import subprocess
import sys
import unittest
from typing import Dict

import msmemscope
from recorded import RecordedCase

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Made by the benchmark and by the tests of everyday programs.
INTERPRETERS = [
    os.environ.get("MSMEMSCOPE_TORCH", ""),
    os.path.join(REPOSITORY, ".cache", "programs", "torch", "bin", "python"),
    os.path.join(REPOSITORY, ".cache", "bench-venv", "bin", "python"),
]


def with_torch() -> str:
    """A Python of the version that runs this, with torch; empty if there is none."""
    question = "import sys, torch; print(*sys.version_info[:2])"
    for python in filter(os.path.exists, INTERPRETERS):
        said = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
        if said.stdout.split() == [str(number) for number in sys.version_info[:2]]:
            return python
    return ""


PYTHON = with_torch()

WALK = """
import gc, json, os, sys
def tell(*besides):
    found = {}
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    # Gradients need not be objects of Python before they are asked for.
    tensors += [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes() and not any(tensor is other for other in besides):
            found[f"{storage.data_ptr():#018x}"] = storage.nbytes()
    print(json.dumps(found), flush=True)
"""


@unittest.skipUnless(PYTHON, "no torch for this Python: tests/everyday/run.py --only torch installs one")
class Storages(RecordedCase):
    def run_with_torch(self, program: str) -> Dict[str, int]:
        place = os.path.dirname(os.path.dirname(os.path.abspath(msmemscope.__file__)))
        ended = self.run_program(WALK + program, command=[PYTHON], PYTHONPATH=place)
        found: Dict[str, int] = eval(ended.out.splitlines()[-1])
        return found

    def live_at_stop(self) -> Dict[str, int]:
        """The storages that were alive when tracing ended."""
        live: Dict[str, int] = {}
        for row in self.rows():
            if row["Event Type"] == "STOP_TRACE":
                break
            if row["Event Type"] == "PTA":
                attributes = dict(pair.split(":", 1) for pair in row["Attr"].strip("{}").split(","))
                if row["Event"] == "MALLOC":
                    live[row["Ptr"]] = int(attributes["size"])
                else:
                    del live[row["Ptr"]]
        return live

    def test_start_before_torch_is_imported(self) -> None:
        found = self.run_with_torch(
            """
import msmemscope
msmemscope.config(device="cpu", output=output)
msmemscope.start()
import torch
kept = [torch.ones(size) * 2 for size in range(1, 200)]
del kept[50:100]
tell()
msmemscope.stop()
"""
        )
        self.assertEqual(len(found), 149)
        self.assertEqual(self.live_at_stop(), found)

    def test_start_after_torch_is_imported_and_has_tensors(self) -> None:
        found = self.run_with_torch(
            """
import torch, threading
import msmemscope
early = torch.ones(777)
gone = torch.ones(888)
msmemscope.config(device="cpu", output=output)
msmemscope.start()
kept = []
def work():
    for size in range(1, 100):
        kept.append(torch.ones(size, requires_grad=True))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
del gone
(torch.cat(kept) * 2).sum().backward()
tell(early)
msmemscope.stop()
"""
        )
        # The gradients are views of one more.
        self.assertGreater(len(found), 4 * 99)
        self.assertEqual(self.live_at_stop(), found)


if __name__ == "__main__":
    unittest.main()
