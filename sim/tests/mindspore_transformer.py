"""Trains a transformer of four layers with MindSpore: mindspore_transformer.py [steps]. Prints the pool's statistics as JSON.

WORKLOAD_MODE=graph compiles the step as one graph (jit level O0) instead of running it operator by operator.
"""

import json
import os
import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 1000, 256, 4, 4, 8, 64


class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.before_attention = nn.LayerNorm((WIDTH,))
        self.before_expansion = nn.LayerNorm((WIDTH,))
        self.query, self.key, self.value, self.joined = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.expand = nn.Dense(WIDTH, 4 * WIDTH)
        self.contract = nn.Dense(4 * WIDTH, WIDTH)
        self.activation = nn.ReLU()
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.mixture = ops.BatchMatMul()
        self.softmax = nn.Softmax(axis=-1)

    def heads(self, states):
        return states.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    def construct(self, states):
        normal = self.before_attention(states)
        scores = self.scores(self.heads(self.query(normal)), self.heads(self.key(normal)))
        mixed = self.mixture(self.softmax(scores * (WIDTH // HEADS) ** -0.5), self.heads(self.value(normal)))
        states = states + self.joined(mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH))
        return states + self.contract(self.activation(self.expand(self.before_expansion(states))))


class Model(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Dense(VOCABULARY, WIDTH)
        self.layers = nn.SequentialCell(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Dense(WIDTH, VOCABULARY)

    def construct(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
graph = os.environ.get("WORKLOAD_MODE") == "graph"
ms.set_device("Ascend", 0)
ms.set_context(mode=ms.GRAPH_MODE if graph else ms.PYNATIVE_MODE, jit_config={"jit_level": "O0"})
# Otherwise operators run on a thread of their own and the order of events differs from run to run.
ms.runtime.launch_blocking()
ms.set_seed(0)
np.random.seed(0)
model = Model()
optimizer = nn.Adam(model.trainable_params(), learning_rate=0.001)
train = nn.TrainOneStepCell(nn.WithLossCell(model, nn.MSELoss()), optimizer)
train.set_train()
for _ in range(steps):
    # One-hot: an index from memory that no kernel has filled would be out of range.
    tokens = np.eye(VOCABULARY, dtype=np.float32)[np.random.randint(0, VOCABULARY, (BATCH, LENGTH))]
    loss = train(ms.Tensor(tokens), ms.Tensor(tokens))
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
