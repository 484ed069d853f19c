"""Two hundred operators on an NPU, of which the one of number argv[1] launches a kernel that writes where it must not. Simulated memory of
devices is the host's: a pointer of C can stand for the kernel's."""

import ctypes
import json
import sys

import torch
import torch_npu

import msmemscope

fault = int(sys.argv[1])
runtime = ctypes.CDLL("libruntime.so")
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
runtime.simRtKernel.restype = ctypes.c_void_p
runtime.simRtKernel.argtypes = [ctypes.c_char_p, WORK]
runtime.rtKernelLaunchWithHandleV2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32] + [ctypes.c_void_p] * 4

torch.npu.synchronize()
# The bytes in the middle of a parameter, by tensor; a view of another tensor by its address.
weight = torch.nn.Parameter(torch.ones(64, 64).to("npu:0"), requires_grad=False)
bias = torch.zeros(64).to("npu:0")


@WORK
def overwrite(_):
    if number == fault:
        ctypes.memset(weight.data_ptr() + 4096, 7, 4096)


kernel = runtime.simRtKernel(b"FaultyKernel", overwrite)
arguments = (ctypes.c_void_p * 8)()


@torch.library.custom_op("steps::faulty", mutates_args=())
def faulty(x: torch.Tensor) -> torch.Tensor:
    launch = ctypes.cast(arguments, ctypes.c_void_p)
    if runtime.rtKernelLaunchWithHandleV2(kernel, 1, 1, launch, None, None, None) != 0:
        raise RuntimeError("the kernel cannot be launched")
    return x.clone()


msmemscope.watcher.watch(weight, name="weight")
msmemscope.watcher.watch(bias.data_ptr(), length=bias.numel() * 4, name="bias", dump_nums=2)
x = torch.ones(64).to("npu:0")
for number in range(1, 201):
    x = torch.ops.steps.faulty(x)
    if number == 50:
        weight.data.add_(1)
torch.npu.synchronize()
msmemscope.watcher.remove(weight)
msmemscope.watcher.remove(bias.data_ptr(), length=bias.numel() * 4)
print(json.dumps({"weight": weight.data_ptr()}))
