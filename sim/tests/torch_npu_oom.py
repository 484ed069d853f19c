"""Allocates until the device is full (run with SIM_HBM_BYTES), then frees. Prints the statistics and the error's first line."""

import torch

from torch_npu_stats import report

held = []
error = None
try:
    while len(held) < 10_000:
        held.append(torch.empty(16 << 20, dtype=torch.uint8, device="npu:0"))
except torch.OutOfMemoryError as caught:
    error = str(caught).splitlines()[0]
blocks = len(held)
held.clear()
torch.npu.empty_cache()
report(blocks=blocks, error=error)
