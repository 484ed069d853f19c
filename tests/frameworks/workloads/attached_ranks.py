"""One rank of torchrun on the CPU that records itself: attached_ranks.py OUTPUT."""

import json
import os
import sys

import torch
import torch.distributed as dist

import msmemscope

msmemscope.config(device="cpu", call_stack="python:5", output=sys.argv[1])
msmemscope.start()
dist.init_process_group("gloo")
rank = dist.get_rank()
kept = torch.zeros((1 << 20) * (rank + 1), dtype=torch.uint8)
for _ in range(3):
    total = torch.ones(1 << 16)
    dist.all_reduce(total)
    msmemscope.step()
msmemscope.stop()
print(json.dumps({"rank": rank, "pid": os.getpid(), "sum": total[0].item()}), flush=True)
dist.destroy_process_group()
