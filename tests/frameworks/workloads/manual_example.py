"""The manual's example: manual_example.py torch|torch_npu|mindspore OUTPUT [KEYWORD=VALUE ...].

config (which has the keywords), start, a training that keeps 4 MiB in each step, step, stop."""

import sys

import msmemscope

framework, output, *keywords = sys.argv[1:]
if framework == "torch":
    # On the host its import alone is a million allocations, which nobody wants to see here.
    import torch  # noqa: F401
STEPS, FLOATS = 20, 4 << 18
kept = []


def torch_training(device):
    import torch
    import torch.nn as nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train():
        loss = nn.functional.mse_loss(model(torch.randn(64, 256).to(device)), torch.randn(64, 10).to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(torch.zeros(FLOATS, device=device))  # leaks

    return train


def torch_npu_training():
    import torch_npu  # noqa: F401  (registers the device)

    return torch_training("npu:0")


def mindspore_training():
    import mindspore as ms
    import numpy as np
    from mindspore import nn, ops

    ms.set_device("Ascend", 0)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    # Otherwise operators run on a thread of their own, where no line of Python is seen.
    ms.runtime.launch_blocking()
    model = nn.SequentialCell(nn.Dense(256, 512), nn.ReLU(), nn.Dense(512, 10))
    optimizer = nn.Adam(model.trainable_params(), learning_rate=0.01)
    step = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
    step.set_train()
    weight = ms.Tensor(np.ones(FLOATS, np.float32))

    def train():
        step(ms.Tensor(np.ones((64, 256), np.float32)), ms.Tensor(np.ones((64, 10), np.float32)))
        kept.append(ops.mul(weight, 2.0))  # leaks
        ms.runtime.synchronize()

    return train


msmemscope.config(output=output, **dict(word.split("=", 1) for word in keywords))
msmemscope.start()
train = {"torch": lambda: torch_training("cpu"), "torch_npu": torch_npu_training, "mindspore": mindspore_training}[framework]()
for _ in range(STEPS):
    train()
    msmemscope.step()
msmemscope.stop()
