"""What the manual shows of the Python interface, one piece after the other, by a training: manual_blocks.py cpu|npu:0 OUTPUT.

Prints the addresses that the pieces are known by."""

import glob
import json
import sys

import torch
import torch.nn as nn

import msmemscope
import msmemscope.describe as describe

device, output = sys.argv[1:]
FLOATS = 1 << 18
told = {}
kept = []


def train(floats=FLOATS):
    """The user's code: leaves a block of its own behind."""
    loss = model(torch.randn(32, 64).to(device)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept.append(torch.zeros(floats, device=device))
    return kept[-1]


def note(name, tensor):
    told[name] = tensor.data_ptr()


msmemscope.config(call_stack="c:10,python:5", events="launch,alloc,free,access", level="0", device=device.partition(":")[0],
                  analysis="leaks,decompose,inefficient", watch="op0,op1,full-content", data_format="csv", output=output)
msmemscope.start()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
note("span", train())
msmemscope.stop()

# A second span, in steps.
msmemscope.start()
for _ in range(10):
    train()
    msmemscope.step()

# Labels: of a function, of a piece of code in both ways, of a tensor.


@describe.describer(owner="test1")
def train1():
    note("test1", train())


train1()
with describe.describer(owner="test2"):
    note("test2", train())
describe.describer(owner="test3").__enter__()
note("test3", train())
describe.describer(owner="test3").__exit__()
labelled = torch.randn(FLOATS).to(device)
describe.describer(labelled, owner="test4")
note("test4", labelled)

# Snapshots: of a device, of several, of all, and around a piece of code. Without an NPU there is no device 0 to ask.
msmemscope.take_snapshot(device_mask=0)
msmemscope.take_snapshot(device_mask=[0, 1], name="test_list")
msmemscope.take_snapshot(device_mask=(0, 1), name="test_tuple")
msmemscope.take_snapshot(name="test_all")
with msmemscope.TakeSnapshot(name="test_around"):
    train()

# Names for code, within a trace of all calls.
@msmemscope.RecordFunction("decorated_pass")
def forward_pass(floats):
    return train(floats)


def named_code():
    with msmemscope.RecordFunction("forward_pass"):
        train()
    forward_pass(FLOATS)


msmemscope.tracer.start()
named_code()
msmemscope.tracer.stop()

# What is allocated from A to B has to be freed by C.
for place in ("A", "B", "C"):
    msmemscope.mstx.mark("test")
    if place == "A":
        leaked, freed = torch.zeros(FLOATS + 512, device=device), torch.zeros(FLOATS, device=device)
    if place == "B":
        del freed
note("leaked", leaked)

# A block that is watched, by tensor and by address.
test_tensor = torch.randn(2, 3).to(device)
msmemscope.watcher.watch(test_tensor, name="test", dump_nums=2)
test_tensor.add_(1)
msmemscope.watcher.remove(test_tensor)
msmemscope.watcher.watch(test_tensor.data_ptr(), length=24, name="test", dump_nums=2)
msmemscope.watcher.remove(test_tensor.data_ptr(), length=24)
msmemscope.stop()
msmemscope.wait()

# Files, read again by the analyzers.
place = "cpu" if device == "cpu" else "0"
(file,) = glob.glob(f"{output}/*/device_{place}/dump/memscope_dump_*.csv")
with_leak = msmemscope.check_leaks(input_path=file, mstx_info="test", start_index=0)
msmemscope.check_inefficient(input_path=file, mem_size=0, inefficient_type=["early_allocation"], idle_threshold=3000)
msmemscope.analyze("leaks", input_path=file, mstx_info="test", start_index=0)
told["analyzers"] = msmemscope.list_analyzers()
told["parameters"] = sorted(msmemscope.get_analyzer_config("leaks")["parameters"])
print(json.dumps(told), flush=True)
