"""A training that keeps 4 MiB in each step: leaking_training.py list|closure|cycle|graph [device] [steps].

list: appended to a list; closure: held by a function that is registered; cycle: in a reference cycle, and the garbage
collector is off; graph: the losses are summed with what they were computed from.
"""

import gc
import sys

import torch
import torch.nn as nn

from step_marks import step

way = sys.argv[1]
device = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cpu")
if device.type == "npu":
    import torch_npu  # noqa: F401  (registers the device)
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 20
FLOATS = 4 << 18

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept, callbacks, total = [], [], 0
weight = torch.ones(FLOATS, device=device, requires_grad=True)
if way == "cycle":
    gc.disable()


class Node:
    pass


def keep_in_list():
    kept.append(torch.zeros(FLOATS, device=device))  # leaks


def keep_in_closure():
    activations = torch.zeros(FLOATS, device=device)  # leaks
    callbacks.append(lambda: activations.sum())


def keep_in_cycle():
    node = Node()
    node.payload = torch.zeros(FLOATS, device=device)  # leaks
    node.itself = node


def keep_in_graph(loss):
    global total
    # The product is kept for the gradient of the square.
    total = total + loss + ((weight * 2) ** 2).sum()  # leaks


for number in range(steps):
    inputs, targets = torch.randn(64, 256).to(device), torch.randn(64, 10).to(device)
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    if way == "graph":
        keep_in_graph(loss)
        loss.backward(retain_graph=True)
    else:
        loss.backward()
    optimizer.step()
    if way == "list":
        keep_in_list()
    elif way == "closure":
        keep_in_closure()
    elif way == "cycle":
        keep_in_cycle()
    step()
print(f"loss {float(loss.detach()):.4f}", flush=True)
