"""Trains a small network on an NPU in steps, and says of each what torch_npu's allocator says: stepped_training.py [steps]."""

import json
import sys

import torch
import torch.nn as nn
import torch_npu  # noqa: F401  (registers the device)

from step_marks import step

device = torch.device("npu:0")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
told, kept = [], []
peak = peak_reserved = torch.npu.max_memory_allocated()
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 8):
    torch.npu.reset_peak_memory_stats()
    begin = torch.npu.memory_allocated()
    # Every third is twice as large, and the fifth keeps something.
    inputs = torch.randn(64 * (1 + (number % 3 == 2)), 256).to(device)
    loss = nn.functional.mse_loss(model(inputs), inputs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if number == 4:
        kept.append(torch.zeros(1 << 18, device=device))
    told.append([begin, torch.npu.max_memory_allocated(), torch.npu.memory_allocated()])
    peak = max(peak, torch.npu.max_memory_allocated())
    peak_reserved = max(peak_reserved, torch.npu.max_memory_reserved())
    step()
print(json.dumps({"steps": told, "peak": peak, "peak_reserved": peak_reserved}), flush=True)
