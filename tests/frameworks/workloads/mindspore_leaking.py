"""Trains a small perceptron with MindSpore and keeps 4 MiB in each step: mindspore_leaking.py [steps]."""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from step_marks import step

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
ms.set_device("Ascend", 0)
ms.set_context(mode=ms.PYNATIVE_MODE)
# Otherwise operators run on a thread of their own, where no line of Python is seen.
ms.runtime.launch_blocking()
ms.set_seed(0)
model = nn.SequentialCell(nn.Dense(256, 512), nn.ReLU(), nn.Dense(512, 10))
optimizer = nn.Adam(model.trainable_params(), learning_rate=0.01)
train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
train.set_train()
weight = ms.Tensor(np.ones(4 << 18, np.float32))
kept = []


def keep():
    kept.append(ops.mul(weight, 2.0))  # leaks


for _ in range(steps):
    inputs = ms.Tensor(np.random.randn(64, 256).astype(np.float32))
    targets = ms.Tensor(np.random.randn(64, 10).astype(np.float32))
    loss = train(inputs, targets)
    keep()
    ms.runtime.synchronize()
    step()
print(f"loss {float(loss.asnumpy()):.4f}", flush=True)
