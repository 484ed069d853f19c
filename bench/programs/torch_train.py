"""torch_train.py [STEPS]: trains a small transformer on the CPU. The timed part is the training loop."""
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

    for _ in range(3):
        train()
    with Timed() as timed:
        for _ in range(steps):
            train()
    assert losses[-1] < losses[0], losses
    report(cpu_s=timed.cpu_s, wall_s=timed.wall_s, steps=steps, first_loss=losses[0], last_loss=losses[-1])


main()
