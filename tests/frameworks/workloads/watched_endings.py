"""Blocks on the device argv[1] that are freed, resized or removed while they are watched, and two of one name."""

import ctypes
import json
import sys

import torch

import msmemscope

device = sys.argv[1]
if device != "cpu":
    import torch_npu

    torch.npu.synchronize()


def tensor():
    return torch.zeros(1024).to(device)


def refusal(*block, **more):
    try:
        msmemscope.watcher.watch(*block, **more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def capture():
    """While a graph is captured nothing is looked at, and no block of the device can be added; the capture goes well."""
    acl, side, graph = ctypes.CDLL("libascendcl.so"), torch.npu.Stream(), ctypes.c_void_p()
    stream = ctypes.c_void_p(side.npu_stream)
    began = acl.aclmdlRICaptureBegin(stream, 0)
    x.clone()
    refused = refusal(x, name="x")
    return {"began": began, "refused": refused, "ended": acl.aclmdlRICaptureEnd(stream, ctypes.byref(graph))}


x, kept, freed, resized = torch.ones(64).to(device), [tensor(), tensor()], tensor(), tensor()
for block in kept:
    msmemscope.watcher.watch(block, name="same")
msmemscope.watcher.watch(freed, name="freed")
msmemscope.watcher.watch(resized, name="resized")
memory = None
if device == "cpu":
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.realloc.argtypes = [ctypes.c_size_t], [ctypes.c_void_p, ctypes.c_size_t]
    memory = libc.malloc(1 << 20)
    ctypes.memset(memory, 1, 1 << 20)
    msmemscope.watcher.watch(memory, length=1 << 20, name="grown")
x.clone()
del freed
resized.resize_(4096)
if memory:
    memory = libc.realloc(memory, 1 << 23)
# Whoever gets the memory now may write into it.
others = [torch.ones(1024).to(device) for _ in range(8)]
x.clone()
kept[1].add_(others[0])
msmemscope.watcher.remove(kept[0])
x.clone()
captured = capture() if device != "cpu" else None
msmemscope.watcher.remove(kept[1])
if device != "cpu":
    torch.npu.synchronize()
print(json.dumps({"others": len(others), "unmapped": refusal(16, length=8, name="unmapped"), "capture": captured}))
