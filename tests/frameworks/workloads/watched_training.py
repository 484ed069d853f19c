"""Two hundred operators on an NPU, of which the one of number argv[1] launches a kernel that writes where it must not. Simulated memory of
devices is the host's: a pointer of C can stand for the kernel's. Further words: `command` leaves it to the command line what is watched,
`late` launches the kernel three operators later, as a queue does, and that of an owner as well."""

import ctypes
import json
import sys

import torch
import torch_npu

fault, by_command, is_late = int(sys.argv[1]), "command" in sys.argv, "late" in sys.argv
if not by_command:
    import msmemscope
OWNED, OWNED_LATE, LATER = 50, 100, 3
runtime = ctypes.CDLL("libruntime.so")
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
runtime.simRtKernel.restype = ctypes.c_void_p
runtime.simRtKernel.argtypes = [ctypes.c_char_p, WORK]
# As a program that is linked to it finds it: whoever is preloaded comes first.
launch_kernel = ctypes.CDLL(None).rtKernelLaunchWithHandleV2
launch_kernel.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32] + [ctypes.c_void_p] * 4

torch.npu.synchronize()
# The bytes in the middle of a parameter, by tensor; a view of another tensor by its address. Kernels of ours go to neither torch's stream nor
# the default one.
base = torch.ones(64, 64).to("npu:0")
weight = torch.nn.Parameter(base + base, requires_grad=False)
bias = torch.zeros(64).to("npu:0")
side = torch.npu.Stream()


@WORK
def overwrite(_):
    if number in (fault, 200) or is_late:
        ctypes.memset(weight.data_ptr() + 4096, 7 + number % 8, 4096)


kernel = runtime.simRtKernel(b"FaultyKernel", overwrite)
arguments = (ctypes.c_void_p * 8)()


def launch():
    if launch_kernel(kernel, 1, 1, ctypes.cast(arguments, ctypes.c_void_p), None, side.npu_stream, None) != 0:
        raise RuntimeError("the kernel cannot be launched")


@torch.library.custom_op("steps::faulty", mutates_args=())
def faulty(x: torch.Tensor) -> torch.Tensor:
    if not is_late:
        launch()
    return x.clone()


@torch.library.custom_op("steps::own", mutates_args={"owned"})
def own(owned: torch.Tensor) -> None:
    """Its kernel comes later."""


if not by_command:
    msmemscope.watcher.watch(weight, name="weight")
    msmemscope.watcher.watch(bias.data_ptr(), length=bias.numel() * 4, name="bias", dump_nums=2)
x = torch.ones(64).to("npu:0")
for number in range(1, 200):
    x = torch.ops.steps.faulty(x)
    if number == OWNED:
        weight.data.add_(base)
    if number == OWNED_LATE and is_late:
        torch.ops.steps.own(weight)
    if is_late and number in (fault + LATER, OWNED_LATE + LATER):
        launch()
torch.npu.synchronize()
if by_command:
    # From its end on nobody is watched.
    x * x
    number = 200
    launch()
    x.clone()
    torch.npu.synchronize()
else:
    msmemscope.watcher.remove(weight)
    msmemscope.watcher.remove(bias.data_ptr(), length=bias.numel() * 4)
print(json.dumps({"weight": weight.data_ptr()}))
