"""Trains with MindSpore and records itself from MOMENT on: attached_mindspore.py MOMENT OUTPUT.

Prints the pool's statistics, and what it had allocated before. The moments are those of attached_torch.py; MindSpore's pool is
made when the device is initialised."""

import json
import sys

import msmemscope

moment, output = sys.argv[1:]


def reached(this):
    if moment == this:
        msmemscope.config(device="npu", output=output)
        msmemscope.start()


if moment == "configured":
    msmemscope.config(device="npu", output=output)
reached("before")
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import nn  # noqa: E402

ms.set_device("Ascend", 0)
ms.set_context(mode=ms.PYNATIVE_MODE)
ms.runtime.launch_blocking()
reached("imported")
held = 0
if moment not in ("before", "imported"):
    ms.runtime.synchronize()
    reached("initialised")
    earlier = ms.ops.mul(ms.Tensor(np.ones(1000, np.float32)), 2.0)
    ms.runtime.synchronize()
    held = ms.runtime.memory_allocated()
    reached("allocated")
if moment == "configured":
    msmemscope.start()

ms.set_seed(0)
model = nn.SequentialCell(nn.Dense(512, 1024), nn.ReLU(), nn.Dense(1024, 10))
optimizer = nn.Adam(model.trainable_params(), learning_rate=0.01)
train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
train.set_train()
for _ in range(3):
    train(ms.Tensor(np.ones((64, 512), np.float32)), ms.Tensor(np.ones((64, 10), np.float32)))
    msmemscope.step()
ms.runtime.synchronize()
msmemscope.stop()
print(json.dumps({"held": held, "peak_allocated": ms.runtime.max_memory_allocated(),
                  "peak_reserved": ms.runtime.max_memory_reserved()}), flush=True)
