"""torch_train.py [STEPS [plain|mode|profiler]]: trains a small transformer on the CPU. The timed part is the training loop.

With a second word calls of torch's dispatcher are counted afterwards, and the training is done within a dispatch mode that notes
operators and tensors, or within torch's own profiler.
"""
import contextlib
import sys

import torch

from result import Timed, report

VOCABULARY, WIDTH, LENGTH, BATCH = 256, 32, 16, 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def noting_mode():
    """In Python what is recorded natively: name, and of each tensor its address, size, type and shape."""
    from torch.utils._pytree import tree_flatten
    from torch.utils._python_dispatch import TorchDispatchMode
    noted = []

    def note(name, values):
        for value in tree_flatten(values)[0]:
            if isinstance(value, torch.Tensor):
                noted.append((name, value.data_ptr(), value.numel() * value.element_size(), value.dtype, value.shape))

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if len(noted) > 100_000:
                noted.clear()
            name = f"{function.__module__}.{function.__name__}"
            note(name, (args, kwargs))
            result = function(*args, **(kwargs or {}))
            note(name, result)
            return result

    return Noting()


def within(around):
    if around == "mode":
        return noting_mode()
    if around == "profiler":
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, with_stack=True)
    return contextlib.nullcontext()


def calls_of(train):
    """Calls of the dispatcher in one step."""
    with torch.autograd.profiler.profile(use_kineto=False) as profiler:
        train()
    return sum("::" in event.name and " " not in event.name for event in profiler.function_events)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    # One thread: worker threads that spin while they wait would be counted as work.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    losses = []

    def train():
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    around = sys.argv[2] if len(sys.argv) > 2 else None
    for _ in range(3):
        train()
    with within(around), Timed() as timed:
        for _ in range(steps):
            train()
    assert losses[-1] < losses[0], losses
    counted = {"events": steps * calls_of(train)} if around else {}
    report(**counted, cpu_s=timed.cpu_s, wall_s=timed.wall_s, steps=steps, first_loss=losses[0], last_loss=losses[-1])


main()
