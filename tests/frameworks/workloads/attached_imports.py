"""Records its host memory from MOMENT on, below an allocator that knows of each call whether the recorder saw it:
attached_imports.py MOMENT OUTPUT, with the witness preloaded. before: start() before torch is imported; imported: after it."""

import ctypes
import json
import sys

import msmemscope

moment, output = sys.argv[1:]
if moment == "imported":
    import torch
msmemscope.config(device="cpu", output=output, data_format="none", analysis="none")
msmemscope.start()
witness = ctypes.CDLL(None)
assert witness.witness_begin(), "the wrappers are not in the process"
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
for inputs in torch.utils.data.DataLoader(torch.randn(640, 256), batch_size=64):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()
counts = (ctypes.c_long * 4)()
witness.witness_end(counts)
msmemscope.stop()
print(json.dumps(dict(zip(("allocations", "missed", "frees", "missed_frees"), counts))), flush=True)
