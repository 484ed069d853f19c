"""Trains a sharded model in two processes on the CPU, each recorded by msmemscope: WAY OUTPUT.

WAY: `fsdp1`, `fsdp2`; the latter with a backward and a forward that raise, after the training.
"""

import json
import os
import sys
import tempfile

import torch
from torch import distributed

import msmemscope

WAY, OUTPUT = sys.argv[1:3]
WIDTH = 128


def main(rank, way, output, meeting):
    msmemscope.config(device="cpu", analysis="decompose", output=output)
    msmemscope.start()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    if way == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(3):
        x = torch.randn(32, WIDTH)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        msmemscope.step()
    shards = [getattr(parameter, "_local_tensor", parameter) for parameter in model.parameters()]
    told = {"rank": rank, "weight": sum(shard.numel() * shard.element_size() for shard in shards)}
    if way == "fsdp2":
        fail(model)
    kept = torch.ones(1 << 16)  # after everything: in no window
    told["unlabelled"] = kept.numel() * kept.element_size()
    print(json.dumps(told), flush=True)
    msmemscope.stop()
    distributed.destroy_process_group()


def fail(model):
    """Both ranks alike, after their collectives. Older versions of torch cannot train any more after it."""
    def on_purpose(*_):
        raise KeyError("on purpose")

    for where in ("backward", "forward"):
        x = torch.randn(4, WIDTH, requires_grad=True)
        handle = x.register_hook(on_purpose) if where == "backward" else model[2].register_forward_pre_hook(on_purpose)
        try:
            model(x).sum().backward()
        except (KeyError, RuntimeError):
            handle.remove()
            continue
        sys.exit("it did not fail")


if __name__ == "__main__":
    if "RANK" in os.environ:
        main(int(os.environ["RANK"]), WAY, OUTPUT, os.environ["MEETING"])
    else:
        import subprocess

        with tempfile.TemporaryDirectory() as directory:
            ranks = [
                subprocess.Popen([sys.executable, __file__, WAY, OUTPUT], env={**os.environ, "RANK": str(rank), "MEETING": f"{directory}/meeting"})
                for rank in range(2)
            ]
            sys.exit(max(rank.wait() for rank in ranks))
