"""Records itself and loads its data by two workers: attached_workers.py fork|spawn OUTPUT. Prints their process numbers."""

import json
import os
import sys

import torch

import msmemscope

way, output = sys.argv[1:]
FLOATS = 1 << 18


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((FLOATS,), float(os.getpid()), dtype=torch.float64)


if __name__ == "__main__":
    msmemscope.config(device="cpu", call_stack="python:5", output=output)
    msmemscope.start()
    loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2, multiprocessing_context=way)
    workers = set()
    for batch in loader:
        workers |= {int(pid) for pid in batch[:, 0]}
        msmemscope.step()
    msmemscope.stop()
    print(json.dumps({"main": os.getpid(), "workers": sorted(workers)}), flush=True)
