"""Trains a perceptron as one rank of torchrun, one device each. Prints the allocator's statistics."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn

from torch_npu_stats import report

rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
device = torch.device("npu", rank)
# Ranks of different sizes: a mix-up of their memory shows.
width = 512 * (rank + 1)
model = nn.Sequential(nn.Linear(512, width), nn.ReLU(), nn.Linear(width, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(2):
    loss = model(torch.randn(32, 512).to(device)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(rank=rank, pid=os.getpid())
dist.destroy_process_group()
