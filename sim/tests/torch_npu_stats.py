"""What torch_npu's allocator says about itself, as one line of JSON on standard output."""

import json

import torch
import torch_npu  # noqa: F401  (registers the device)


def report(**more):
    torch.npu.synchronize()
    stats = torch.npu.memory_stats()
    free, total = torch.npu.mem_get_info()
    facts = {
        "device": torch.npu.current_device(),
        "allocations": stats["allocation.all.allocated"],
        "frees": stats["allocation.all.freed"],
        "allocated": torch.npu.memory_allocated(),
        "peak_allocated": torch.npu.max_memory_allocated(),
        "reserved": torch.npu.memory_reserved(),
        "peak_reserved": torch.npu.max_memory_reserved(),
        "segments": stats["segment.all.allocated"],
        "ooms": stats["num_ooms"],
        "device_free": free,
        "device_total": total,
    }
    print(json.dumps(facts | more), flush=True)
