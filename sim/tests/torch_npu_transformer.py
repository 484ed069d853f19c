"""Trains a transformer of four layers with AdamW: torch_npu_transformer.py [steps]. Prints the allocator's statistics.

PYTORCH_NPU_ALLOC_CONF=expandable_segments:True makes the allocator use virtual memory.
"""

import sys

import torch
import torch.nn as nn

from torch_npu_stats import report

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 1000, 256, 4, 4, 8, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
torch.manual_seed(0)
device = torch.device("npu:0")
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(steps):
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH)).to(device)
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(steps=steps, loss=loss.item())
