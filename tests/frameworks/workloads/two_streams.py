"""Operators of torch on two streams of a device, by two threads; says which handles the streams have."""

import json
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

    thread = threading.Thread(target=in_another_thread)
    thread.start()
    thread.join()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    sys.exit(main())
