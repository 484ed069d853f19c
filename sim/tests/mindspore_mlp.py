"""Trains a small perceptron with MindSpore: mindspore_mlp.py [steps]. Prints the pool's statistics as JSON.

WORKLOAD_MODE=graph compiles the step as one graph (jit level O0) instead of running it operator by operator.
"""

import json
import os
import sys

import mindspore as ms
import numpy as np
from mindspore import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
graph = os.environ.get("WORKLOAD_MODE") == "graph"
ms.set_device("Ascend", 0)
ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE, jit_config={"jit_level": "O0"})
# Otherwise operators run on a thread of their own and the order of events differs from run to run.
ms.runtime.launch_blocking()
ms.set_seed(0)
model = nn.SequentialCell(nn.Dense(512, 1024), nn.ReLU(), nn.Dense(1024, 1024), nn.ReLU(), nn.Dense(1024, 10))
optimizer = nn.Adam(model.trainable_params(), learning_rate=0.01)
train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
train.set_train()
for _ in range(steps):
    inputs = ms.Tensor(np.random.randn(64, 512).astype(np.float32))
    targets = ms.Tensor(np.random.randn(64, 10).astype(np.float32))
    loss = train(inputs, targets)
ms.runtime.synchronize()
facts = {
    "device": 0,
    "steps": steps,
    "loss": float(loss.asnumpy()),
    "allocated": ms.runtime.memory_allocated(),
    "peak_allocated": ms.runtime.max_memory_allocated(),
    "reserved": ms.runtime.memory_reserved(),
    "peak_reserved": ms.runtime.max_memory_reserved(),
}
print(json.dumps(facts), flush=True)
