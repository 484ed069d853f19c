"""A training that leaks nothing, with what is often taken for a leak: clean_training.py [device] [steps].

AdamW makes its state in the first step, gradients are accumulated over three steps, the next batch is fetched while
one is worked on, a moving average of the weights is replaced in each step, a cache grows for two fifths of the run,
losses are noted in a list, and every tenth step there is an evaluation.
"""

import queue
import sys
import threading

import torch
import torch.nn as nn

from step_marks import step

device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
if device.type == "npu":
    import torch_npu  # noqa: F401  (registers the device)
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 50
ACCUMULATED, EVALUATED, WIDTH = 3, 10, 512

torch.manual_seed(0)
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * (steps + 2)

    def __getitem__(self, index):
        return torch.full((WIDTH,), float(index % 7)), torch.ones(10)


def fetch(batches):
    """Always two batches ahead."""
    for inputs, targets in torch.utils.data.DataLoader(Samples(), batch_size=64):
        batches.put((inputs.to(device), targets.to(device)))


model = nn.Sequential(nn.Linear(WIDTH, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
batches = queue.Queue(maxsize=2)
threading.Thread(target=fetch, args=(batches,), daemon=True).start()
average = {name: weight.detach().clone() for name, weight in model.named_parameters()}
features, losses, scores = {}, [], []

for number in range(1, steps + 1):
    inputs, targets = batches.get()
    loss = nn.functional.mse_loss(model(inputs), targets)
    (loss / ACCUMULATED).backward()
    if number % ACCUMULATED == 0:
        optimizer.step()
        optimizer.zero_grad()
    average = {name: 0.99 * average[name] + 0.01 * weight.detach() for name, weight in model.named_parameters()}
    if number <= steps * 2 // 5:
        features[number] = inputs.mean(dim=0).repeat(256)
    losses.append(loss.item())
    if number % EVALUATED == 0:
        with torch.no_grad():
            outputs = [model(inputs) for _ in range(4)]
            scores.append(sum(nn.functional.mse_loss(output, targets).item() for output in outputs))
    step()
print(f"loss {losses[-1]:.4f}, score {scores[-1] if scores else 0:.4f}", flush=True)
