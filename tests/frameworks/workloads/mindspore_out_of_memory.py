"""Fills the device from one line and is refused there, by a driver that has less left than MindSpore thinks (run with SIM_HBM_BYTES)."""

import ctypes
import json

import mindspore as ms
import numpy as np
from mindspore import ops

ms.set_device("Ascend", 0)
ms.set_context(mode=ms.PYNATIVE_MODE)
# Otherwise operators run on a thread of their own, where no line of Python is seen.
ms.runtime.launch_blocking()
weight = ms.Tensor(np.ones(4 << 20, np.float32))
held = []


def take_behind_its_back(size):
    """As a library beside MindSpore does: what MindSpore may use it took as a limit when it began, and at that limit it refuses
    without asking the driver."""
    address = ctypes.c_void_p()
    acl = ctypes.CDLL("libascendcl.so")
    acl.aclrtMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert acl.aclrtMalloc(ctypes.byref(address), size, 0) == 0


def fill():
    while len(held) < 10_000:
        held.append(ops.mul(weight, 2.0))
        ms.runtime.synchronize()


held.append(ops.mul(weight, 2.0))
ms.runtime.synchronize()
take_behind_its_back(100 << 20)
error = None
try:
    fill()
except Exception as raised:
    error = str(raised)
print(json.dumps({"blocks": len(held), "error": (error or "")[:300]}), flush=True)
