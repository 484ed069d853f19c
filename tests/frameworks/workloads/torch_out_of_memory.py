"""Fills the device from one line, is refused there and at another line, then makes room and goes on (run with SIM_HBM_BYTES)."""

import json

import torch

BLOCK = 16 << 20
held = []


def fill():
    while len(held) < 10_000:
        held.append(torch.empty(BLOCK, dtype=torch.uint8, device="npu:0"))


def ask_for_too_much():
    return torch.empty(8 * BLOCK, dtype=torch.uint8, device="npu:0")


def refused(call):
    try:
        call()
    except torch.OutOfMemoryError:
        return True
    return False


cached = torch.empty(2 * BLOCK, dtype=torch.uint8, device="npu:0")
del cached
answers = [refused(fill), refused(ask_for_too_much)]
blocks = len(held)
held.clear()
torch.npu.empty_cache()
answers.append(refused(ask_for_too_much))
print(json.dumps({"blocks": blocks, "refused": answers}), flush=True)
