"""Runs a framework's script under the test tool and replays the pool events the tool saw."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOOL_SOURCE = HERE.parent / "crates/acceptance/tests/tool.c"


def build_tool(directory):
    # The name is what makes frameworks report their pools.
    tool = directory / "libascend_kernel_hook.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tool, TOOL_SOURCE, "-ldl"], check=True)
    return tool


def run(script, variables, tool):
    environment = os.environ | variables | {"LD_PRELOAD": str(tool)}
    done = subprocess.run([sys.executable, HERE / script], env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{script} failed with status {done.returncode}:\n{done.stderr[-3000:]}")
    reports, events = {}, []
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            report = json.loads(line)
            reports[report["device"]] = report
        elif "=" in line:
            events.append(line.split("=", 1))
    return reports, events


def replay(events, device):
    """The framework's pool on a device as the tool's events tell it."""
    sizes, live, peak, registered, workspace, driver = {}, 0, 0, 0, 0, 0
    for kind, text in events:
        words = text.split()
        if kind == "region" and words[0] == "ptaWorkspace":
            workspace += 1
        elif kind == "region" and int(words[1]) == device:
            sizes[words[2]] = int(words[3])
            live += int(words[3])
            peak = max(peak, live)
            registered += 1
        elif kind == "gone" and words[0] != "ptaWorkspace" and words[1] in sizes:
            live -= sizes.pop(words[1])
        elif kind == "seen" and words[0] in ("halMemAlloc", "halMemCreate"):
            driver += 1
    return {"registered": registered, "peak": peak, "workspace_uses": workspace, "driver_allocations": driver}
