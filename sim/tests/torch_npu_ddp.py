"""Trains a perceptron in two processes, one device each: torch_npu_ddp.py [steps]. One line of statistics per rank."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn

RANKS = 2


def train(rank, steps):
    import torch_npu  # noqa: F401

    from torch_npu_stats import report

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29611")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    device = torch.device("npu", rank)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
    replica = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.01)
    for _ in range(steps):
        loss = replica(torch.randn(32, 512).to(device)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    report(rank=rank, steps=steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(int(sys.argv[1]) if len(sys.argv) > 1 else 3,), nprocs=RANKS)
