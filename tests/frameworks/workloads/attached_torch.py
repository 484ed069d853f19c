"""Trains on an NPU and records itself from MOMENT on: attached_torch.py MOMENT OUTPUT.

Prints the allocator's statistics, and what it had allocated before.

before: start() before torch is imported; imported: after that; initialised: when the device is; allocated: when it has a
tensor already; configured: as allocated, but config() comes before the import.
"""

import sys

import msmemscope

moment, output = sys.argv[1:]


def reached(this):
    """Here it begins, if this is the moment."""
    if moment == this:
        msmemscope.config(device="npu", output=output, call_stack="python:5")
        msmemscope.start()


if moment == "configured":
    msmemscope.config(device="npu", output=output, call_stack="python:5")
reached("before")
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402

from torch_npu_stats import report  # noqa: E402

reached("imported")
torch.npu.set_device(0)
torch.npu.synchronize()
reached("initialised")
earlier = torch.empty(1000, device="npu:0") if moment in ("allocated", "configured") else None
held, made = torch.npu.memory_allocated(), torch.npu.memory_stats()["allocation.all.allocated"]
reached("allocated")
if moment == "configured":
    msmemscope.start()

model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)).to("npu:0")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    loss = model(torch.randn(64, 512).to("npu:0")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    msmemscope.step()
msmemscope.stop()
report(held=held, made=made)
