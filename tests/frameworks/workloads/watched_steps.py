"""Two hundred operators on the CPU, of which the one of number argv[1] writes into a tensor that it was not given. argv[2]: `python` watches it by
calls, `own` begins the recording as well, `command` leaves it to the command line."""

import ctypes
import json
import sys

import torch

fault, who = int(sys.argv[1]), sys.argv[2]
full_content = "full" in sys.argv
if who != "command":
    import msmemscope
if who == "own":
    watch = ",nothing,full-content" if full_content else ""
    msmemscope.config(device="cpu", output=sys.argv[3], watch=watch, events="launch", call_stack="python:10")
    msmemscope.start()


@torch.library.custom_op("steps::make", mutates_args=())
def make(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(4096)


@torch.library.custom_op("steps::scale", mutates_args=())
def scale(x: torch.Tensor, number: int) -> torch.Tensor:
    if number == fault:
        ctypes.memset(kept.data_ptr() + 4096, 7, 4096)
    return x * 2


@torch.library.custom_op("steps::finish", mutates_args=())
def finish(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def train():
    for number in range(1, 201):
        torch.ops.steps.scale(x, number)
        x.add_(1)
        if number == 50:
            kept.add_(1)
        if number == 60:
            kept[3:9].fill_(2)


x = torch.ones(64)
kept = torch.ops.steps.make(x)
if who != "command":
    msmemscope.watcher.watch(torch.nn.Parameter(kept, requires_grad=False), name="kept")
    msmemscope.watcher.watch(x, name="x", dump_nums=2)
    msmemscope.watcher.watch(kept[5:7], name="kept")
train()
torch.ops.steps.finish(x)
if who != "command":
    msmemscope.watcher.remove(kept)
print(json.dumps({"kept": kept.data_ptr()}))
if who == "own":
    msmemscope.stop()
    msmemscope.wait()
