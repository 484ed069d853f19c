"""Operators of torch on two streams of a device, by two threads; says which handles the streams have.

A third thread, which uses no device, and a forked child only look at a tensor: nothing may set up a device for them.
"""

import ctypes
import json
import os
import sys
import threading

import torch
import torch_npu  # noqa: F401

# One more than the threshold of this case's analysis.
OTHERS = 21
SIZE = 1 << 16


def wasted(own, others):
    """A block that waits for its first use, between two uses and for its free, while operators on `others` go on."""

    def go_on():
        with torch.npu.stream(others):
            for _ in range(OTHERS):
                kept = torch.empty(SIZE, device="npu")
                kept.add_(1)
                del kept

    with torch.npu.stream(own):
        held = torch.empty(SIZE, device="npu")
    go_on()
    with torch.npu.stream(own):
        held.add_(1)
    go_on()
    with torch.npu.stream(own):
        held.add_(1)
    go_on()
    address = held.data_ptr()
    del held
    return address


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def device_of_thread():
    """What the runtime answers a thread that asks for its device."""
    return ctypes.CDLL("libascendcl.so").aclrtGetDevice(ctypes.byref(ctypes.c_int32()))


def looked_at(tensor):
    """Operators that touch no memory of the device, and some that touch the host's."""
    torch.ones(3).add_(1)
    return tensor.detach()


def main():
    torch.npu.set_device(0)
    first, second = torch.npu.Stream(), torch.npu.Stream()
    torch.zeros(1, device="npu").add_(1)
    report = {"first": first.npu_stream, "second": second.npu_stream, "default": torch.npu.current_stream().npu_stream}
    report["one"], report["two"] = wasted(first, first), wasted(first, second)

    def in_another_thread():
        torch.npu.set_device(0)
        report["thread"] = wasted(second, second)
        report["thread_default"] = torch.npu.current_stream().npu_stream

    def without_a_device():
        looked_at(seen)
        report["without_device"] = device_of_thread()

    in_thread(in_another_thread)
    seen = torch.zeros(4, device="npu")
    in_thread(without_a_device)
    child = os.fork()
    if child == 0:
        looked_at(seen)
        os._exit(0 if torch.ones(2).sum() == 2 else 1)
    report["child_status"] = os.waitpid(child, 0)[1]
    report["child"] = child
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    sys.exit(main())
