"""Events of device memory on the simulated CANN: the driver's and those of a framework's pool.

What the existing tool needs for the same is known from its own measurements on other machines and only noted: it does not
run without an NPU.
"""
import figures as f
import machine
from figures import BOTH, C, FLAT, Figure
from tools import Workload

FRAMES, LIVE, MANY_LIVE, STEPS, ROUTES, THREADS = 30, 256, 100_000, 200, 8, 4
SIMULATED_CANN = "ascend-toolkit/latest"
# Nanoseconds on the thread for one event.
FLAT_TARGET, C_TARGET, BOTH_TARGET, BYTES_TARGET = 100, 1000, 2000, 20
EXISTING = {FLAT: "existing tool 4-13 us", C: "existing tool 66-140 us", BOTH: "existing tool 280 us"}
TARGETS = {FLAT: FLAT_TARGET, C: C_TARGET, BOTH: BOTH_TARGET}
STACKS = {FLAT: "no stacks", C: f"{FRAMES} C frames", BOTH: f"{FRAMES} Python and {FRAMES} C frames"}


def environment(sim):
    libraries = sim / SIMULATED_CANN / "lib64"
    # No memory behind the addresses: what mmap costs varies by more than what is to be measured.
    return {"LD_LIBRARY_PATH": f"{libraries}:{libraries / 'driver'}", "SIM_MAP_MEMORY": "0"}


def unavailable(sim):
    libraries = sim / SIMULATED_CANN / "lib64"
    return None if libraries.exists() else f"no simulated CANN in {sim}; make sim"


def workloads(quick, sim):
    """As run.workloads has them."""
    batches, python_batches = ("1000", "400") if quick else ("4000", "4000")
    where = {"device": "npu", "environment": environment(sim)}

    def events(name, title, kind, threads=1, live=LIVE, steps=0, routes=1):
        words = (kind, str(FRAMES), batches, str(threads), str(live), str(steps), str(routes))
        return Workload(f"device-{kind}{name}", title, "device", words, **where), ("", "c"), False

    def python(mode, title):
        words = (str(machine.BUILT / "device.so"), mode, python_batches)
        return Workload(f"device-py-{mode}", title, "py_device.py", words, **where), ("", "c,python"), False

    return [
        events("", f"driver event, {FRAMES} frames entered for a pair", "hal"),
        events("-live", f"the same with {MANY_LIVE} live blocks", "hal", live=MANY_LIVE),
        events("-steps", f"the same with {STEPS} steps", "hal", steps=STEPS),
        events("-threads", f"the same on each of {THREADS} threads", "hal", threads=THREADS),
        events("", f"pool event, {FRAMES} frames entered for a pair", "pool"),
        events("-routes", "the same, another stack for each pair", "pool", routes=ROUTES),
        events("-live", f"the same with {MANY_LIVE} live blocks", "pool", live=MANY_LIVE),
        events("-steps", f"the same with {STEPS} steps", "pool", steps=STEPS),
        events("-threads", f"the same on each of {THREADS} threads", "pool", threads=THREADS),
        python("stay", f"pool event below {FRAMES} Python and {FRAMES} C frames, in a loop"),
        python("enter", f"pool event, {FRAMES} Python and {FRAMES} C frames entered for a pair"),
        python("routes", "the same, another stack for each pair"),
    ]


def device_figures(results):
    def p10(series, tool):
        return f.added(series, tool, "p10_ns")

    rows = [("device-hal", FLAT, ""), ("device-hal", C, ""), ("device-pool", FLAT, ""), ("device-pool", C, ""),
            ("device-pool-routes", C, ", changing"), ("device-py-stay", BOTH, " in a loop"), ("device-py-enter", BOTH, ""),
            ("device-py-routes", BOTH, ", changing"), ("device-hal-live", FLAT, f", {MANY_LIVE} live blocks"),
            ("device-hal-live", C, f", {MANY_LIVE} live blocks"), ("device-pool-live", FLAT, f", {MANY_LIVE} live blocks"),
            ("device-pool-live", C, f", {MANY_LIVE} live blocks"), ("device-hal-steps", FLAT, f", {STEPS} steps"),
            ("device-hal-steps", C, f", {STEPS} steps"), ("device-pool-steps", FLAT, f", {STEPS} steps"),
            ("device-pool-steps", C, f", {STEPS} steps")]
    rows = [row for row in rows if row[0] in results]
    found = []
    for workload, tool, more in rows:
        series, kind = results[workload], "driver" if "-hal" in workload else "pool"
        value = p10(series, tool)
        note = f.why(series, tool)
        if value is not None:
            note = f"bare {series['bare'].best('p10_ns'):.0f} ns; {EXISTING[tool]}"
        found.append(Figure(f"{kind} event, {STACKS[tool]}{more}: added", value, "ns", TARGETS[tool], note))
    for workload, tool, more in rows:
        series, kind = results[workload], "driver" if "-hal" in workload else "pool"
        value = f.bytes_per_event(series, tool)
        found.append(Figure(f"{kind} event, {STACKS[tool]}{more}: size", value, "bytes", BYTES_TARGET, f.why(series, tool)))
    return found

