"""Trains a small perceptron: torch_npu_mlp.py [steps]. Prints the allocator's statistics."""

import sys

import torch
import torch.nn as nn

from torch_npu_stats import report

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
torch.manual_seed(0)
device = torch.device("npu:0")
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(steps):
    inputs = torch.randn(64, 512).to(device)
    targets = torch.randn(64, 10).to(device)
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(steps=steps, loss=loss.item())
