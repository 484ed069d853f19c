"""Runs torch_npu's real allocator on the simulated CANN and compares what it says with what a preloaded tool sees.

    source <toolkit>/env.sh
    <python with torch 2.7.1 and torch_npu 2.7.1.post11> sim/tests/check_torch_npu.py [case ...]

Exit status 0 if every case agrees. One line per case.
"""

import pathlib
import sys
import tempfile

from pool_check import build_tool, replay, run

CASES = {
    "mlp": ("torch_npu_mlp.py", {}),
    "transformer": ("torch_npu_transformer.py", {}),
    "workspace": ("torch_npu_transformer.py", {"SIM_WORKSPACE_BYTES": "1M"}),
    "workspace_pool": ("torch_npu_transformer.py", {"SIM_WORKSPACE_BYTES": "1M", "TASK_QUEUE_ENABLE": "2"}),
    "expandable": ("torch_npu_transformer.py", {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}),
    "oom": ("torch_npu_oom.py", {"SIM_HBM_BYTES": "256M"}),
    "ddp": ("torch_npu_ddp.py", {}),
}


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        tool = build_tool(pathlib.Path(directory))
        for name in sys.argv[1:] or CASES:
            reports, events = run(*CASES[name], tool)
            for device, report in sorted(reports.items()):
                seen = replay(events, device)
                agrees = seen["registered"] == report["allocations"] and seen["peak"] == report["peak_allocated"]
                failures += not agrees
                print(
                    f"{name}: {'ok' if agrees else 'DIFFERS'} device {device}"
                    f" allocations {report['allocations']}/{seen['registered']}"
                    f" peak {report['peak_allocated']}/{seen['peak']} reserved {report['peak_reserved']}"
                    f" driver {seen['driver_allocations']} workspace {seen['workspace_uses']} ooms {report['ooms']}",
                    flush=True,
                )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
