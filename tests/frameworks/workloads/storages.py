"""storages.py threads|autograd|fork|spawn: keeps tensors and says which storages they have, as a walk over all objects finds them.

The end is abrupt, so that what is alive for the recorder is what is alive for the walk.
"""

import gc
import json
import os
import sys
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KEPT = {}


def parts(tensor):
    """The tensors whose storages hold it, its gradient included: those need not be objects before they are asked for."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor, *([tensor.grad] if tensor.is_leaf and tensor.grad is not None else [])]


def walk():
    """{address: bytes} of the storages of all tensors there are. Those of no bytes have no address."""
    gc.collect()
    found = {}
    # Not isinstance: it asks objects that pretend to be another's.
    for tensor in [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]:
        for storage in [part.untyped_storage() for part in parts(tensor)]:
            if storage.nbytes():
                found[storage.data_ptr()] = storage.nbytes()
    return found


def tell_and_end(**more):
    print(json.dumps({"process": os.getpid(), "storages": {f"{address:#018x}": size for address, size in walk().items()}, **more}),
          flush=True)
    os._exit(0)


def threads():
    """Tensors that one thread makes, another resizes, and a third frees or keeps."""
    made = [[] for _ in range(4)]

    def make(number):
        for size in range(1, 400):
            made[number].append(torch.full((size, number + 1), float(size)))

    def change(number):
        mine = made[(number + 1) % 4]
        for place, tensor in enumerate(mine):
            if place % 3 == 0:
                mine[place] = tensor * 2
            elif place % 3 == 1:
                tensor.resize_(1000 + place)
        KEPT[number] = mine[::2]

    def drop(number):
        made[(number + 2) % 4].clear()

    for work in (make, change, drop):
        running = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


def autograd():
    """A few steps of a training, views, in-place operators, tensors without bytes, and such that torch did not allocate."""
    import numpy

    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        loss = model(torch.randn(16, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    del loss
    base = torch.arange(10000.0)
    array = numpy.ones(5000, dtype=numpy.float32)
    KEPT.update(model=model, optimizer=optimizer, view=base[100:200], turned=base.view(100, 100).t(), empty=torch.empty(0),
                clone=base.clone().add_(1).mul_(2), sparse=torch.eye(50).to_sparse(), array=array, foreign=torch.from_numpy(array))


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1000,), float(index))


def loader(method):
    """Batches that workers made, which come by shared memory, and copies of them."""
    batches = DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=method)
    KEPT["copies"] = [batch.clone() for batch in batches]
    del batches
    expected = sum(sum(range(first, first + 8)) * 1000.0 for first in range(0, 64, 8))
    assert sum(copy.sum().item() for copy in KEPT["copies"]) == expected


if __name__ == "__main__":
    torch.set_num_threads(2)
    way = sys.argv[1]
    if way in ("fork", "spawn"):
        loader(way)
    else:
        {"threads": threads, "autograd": autograd}[way]()
    tell_and_end(foreign=[f"{KEPT['foreign'].data_ptr():#018x}"] if "foreign" in KEPT else [])
