"""cpu_out_of_memory.py handled|raised|aborted: fills an address space that is limited with tensors of one line, and is refused there, at
another line twice, and by Python itself; then makes room and goes on, or dies."""

import json
import os
import resource
import sys

import torch

BLOCK = 32 << 20
held = []


def fill():
    while len(held) < 1000:
        held.append(torch.empty(BLOCK, dtype=torch.uint8))


def ask_for_too_much():
    return torch.empty(100 * BLOCK, dtype=torch.uint8)


def ask_python():
    return bytearray(200 * BLOCK)


def refused(call):
    try:
        call()
    except (RuntimeError, MemoryError) as error:
        return type(error).__name__
    return None


def address_space():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


way = sys.argv[1]
ask_for_too_much()
resource.setrlimit(resource.RLIMIT_AS, (address_space() + 20 * BLOCK, resource.RLIM_INFINITY))
answers = [refused(fill)]
answers += [refused(ask_for_too_much) for _ in range(2)]
answers += [refused(ask_python)]
print(json.dumps({"blocks": len(held), "refused": answers}), flush=True)
if way == "aborted":
    os.abort()
if way == "raised":
    ask_for_too_much()
held.clear()
held.append(torch.empty(BLOCK, dtype=torch.uint8))
