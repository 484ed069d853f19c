"""Runs MindSpore's real memory pool on the simulated CANN and compares what it says with what a preloaded tool sees.

    python3 sim/tests/wheel_symbols.py <toolkit> <directory of the mindspore package>
    source <toolkit>/env.sh
    <python with mindspore 2.7.1> sim/tests/check_mindspore.py

Exit status 0 if both agree.
"""

import pathlib
import sys
import tempfile

from pool_check import build_tool, replay, run

CASES = {
    "mlp": ("mindspore_mlp.py", {}),
    "mlp as a graph": ("mindspore_mlp.py", {"WORKLOAD_MODE": "graph"}),
    "mlp without virtual memory": ("mindspore_mlp.py", {"MS_ALLOC_CONF": "enable_vmm:False"}),
}


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        tool = build_tool(pathlib.Path(directory))
        for name, (script, variables) in CASES.items():
            reports, events = run(script, variables, tool)
            for device, report in sorted(reports.items()):
                seen = replay(events, device)
                agrees = seen["peak"] == report["peak_allocated"]
                failures += not agrees
                print(
                    f"{name}: {'ok' if agrees else 'DIFFERS'} peak {report['peak_allocated']}/{seen['peak']}"
                    f" reserved {report['peak_reserved']} registered {seen['registered']}"
                    f" driver {seen['driver_allocations']}",
                    flush=True,
                )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
