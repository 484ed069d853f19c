"""A C program that calls the driver, ACL and mstx as frameworks do; runs everywhere."""

import signal
import subprocess
from collections import namedtuple

from environments import REPOSITORY
from recording import Failed, expect_equal, record

SOURCE = REPOSITORY / "tests/frameworks/programs/device.c"
DEVICE = 1
PINNED_BYTES = 8192

# As in device.c, for each pool: 20 blocks of 512 bytes, of which 5 go, in a pool that says it has reserved 1 MiB.
POOL_TYPES = ["PTA", "PTA_WORKSPACE", "ATB", "MINDSPORE"]
POOL_BLOCKS, POOL_FREED, POOL_BLOCK_BYTES, POOL_RESERVED = 20, 5, 512, 1 << 20


class Case(namedtuple("Case", "name check")):
    def run(self, site):
        return self.check(site)


def compile_program(site, *link):
    program = site.scratch / "device"
    subprocess.run(["cc", "-O1", "-g", "-o", program, SOURCE, *link, "-ldl"], check=True)
    return program


def linked(site, toolkit):
    libraries = toolkit.directory / "lib64"
    return compile_program(site, "-Wl,--no-as-needed", f"-L{libraries}", "-lascendcl", "-lms_tools_ext",
                           "-Wl,--allow-shlib-undefined")


def check_killed(run, device=DEVICE, pool_device=0):
    """Everything that had happened when the program was killed is in the export.

    The program uses device 1 and says that its pools are on device 0; the machine's numbers may be others."""
    # The command ends as its program did.
    expect_equal("exit status of a program that was killed", -signal.SIGKILL, run.status)
    (report,) = run.reports
    (process,) = run.processes
    driver = process.pool(device, "HAL")
    expect_equal("driver allocations", report["blocks"] + report["freed"], driver.allocations)
    expect_equal("driver frees", report["freed"], driver.frees)
    alive = {int(address, 16) for address in driver.live}
    expect_equal("the blocks that were alive", set(), {int(address, 16) for address in report["addresses"]} ^ alive)
    expect_equal("the largest `used` of the driver", driver.peak, max(driver.uses, default=None))
    for event_type in POOL_TYPES:
        pool = process.pool(pool_device, event_type)
        expect_equal(f"{event_type} blocks and frees", (POOL_BLOCKS, POOL_FREED), (pool.allocations, pool.frees))
        expect_equal(f"{event_type} total", POOL_RESERVED, max(pool.totals, default=None))
        if event_type != "PTA_WORKSPACE":  # There the size of a block is the pool's whole use.
            expect_equal(f"{event_type} used", POOL_BLOCKS * POOL_BLOCK_BYTES, max(pool.uses, default=None))
    pinned = [row for row in process.rows("cpu") if row.event == "MALLOC" and row.attributes.get("pinned") == "true"]
    expect_equal("sizes of pinned host memory", [PINNED_BYTES], [row.number("size") for row in pinned])
    # They belong to the device that is set.
    marks = [(row.type, row.name) for row in process.rows(device) if row.event == "MSTX"]
    expected = [("Mark", 'before, "quoted"'), ("Range_start", "step start"), ("Range_end", "step start")]
    expect_equal("marks and ranges", expected, marks)
    types = {row.type for row in process.rows(pool_device) if row.is_memory()}
    expect_equal("pools (a domain of another name is none)", set(POOL_TYPES), types)
    return f"{driver.allocations} driver allocations, {len(alive)} alive, {len(POOL_TYPES)} pools"


def killed(site, program, way, toolkit):
    return check_killed(record(site.stage, site.output(), [program, "killed", way], toolkit.variables(), "npu,cpu"))


def killed_linked(site):
    return killed(site, linked(site, site.toolkit), "linked", site.toolkit)


def killed_linked_without_inner(site):
    return killed(site, linked(site, site.toolkit_without_inner), "linked", site.toolkit_without_inner)


def killed_out_of_sight(site):
    return killed(site, compile_program(site), "local", site.toolkit)


def killed_out_of_sight_without_inner(site):
    return killed(site, compile_program(site), "local", site.toolkit_without_inner)


def killed_with_devices_of_other_numbers(site):
    variables = site.toolkit.variables() | {"ASCEND_RT_VISIBLE_DEVICES": "3,5"}
    program = [linked(site, site.toolkit), "killed", "linked"]
    return check_killed(record(site.stage, site.output(), program, variables, "npu,cpu"), device=5, pool_device=3)


MIB = 1 << 20
DEVICE_TOTAL, USED_BY_OTHERS = 1024 * MIB, 100 * MIB


def usage(site):
    """What is sampled outside the program stands in the rows of what it did meanwhile."""
    shared = site.scratch / "machine"
    shared.mkdir()
    variables = site.toolkit.variables() | {
        "SIM_STATE_DIR": str(shared), "SIM_HBM_BYTES": str(DEVICE_TOTAL), "SIM_HBM_OTHER_BYTES": str(USED_BY_OTHERS)}
    output = site.output()
    run = record(site.stage, output, [linked(site, site.toolkit), "usage", output], variables, "npu,cpu")
    expect_equal(f"exit status ({run.messages[-500:]})", 0, run.status)
    (report,) = run.reports
    (process,) = run.processes
    by_address = {int(row.address, 16): row for row in process.rows(DEVICE) if row.event == "MALLOC" and row.type == "HAL"}
    # The driver tells a device's use in MiB.
    device_used = [(used + USED_BY_OTHERS) // MIB * MIB for used in report["used"]]
    for address, own, everybody in zip(report["probes"], report["used"], device_used):
        row = by_address[int(address, 16)]
        expect_equal(f"use of the device at {address}", (own, everybody),
                     (row.number("process_used"), row.number("device_used")))

    (start,) = [row for row in process.rows(DEVICE) if row.type == "START_TRACE"]
    expect_equal("the device where tracing begins", {"free": str(DEVICE_TOTAL - device_used[0]), "total": str(DEVICE_TOTAL)},
                 start.attributes)
    snapshots = [row for row in process.rows(DEVICE) if row.event == "SNAPSHOT"]
    expect_equal("snapshots", ["half way", "OOM_Snapshot", "OOM_Snapshot_After"], [row.name for row in snapshots])
    held, peak = report["used"][0] + report["used"][1], report["used"][0] + report["used"][1]
    for row, allocated, everybody in zip(snapshots, (held, 2 * report["used"][1]), device_used):
        expected = {"reserved": allocated, "max_reserved": peak, "allocated": allocated, "max_allocated": peak,
                    "total": DEVICE_TOTAL, "free": DEVICE_TOTAL - everybody}
        expect_equal(f"numbers of {row.name}", expected, {key: row.number(key) for key in expected})
        expect_equal(f"rates of {row.name}", (f"{everybody * 100 / DEVICE_TOTAL:.6f}", "100.000000"),
                     (row.attributes["device_rate"], row.attributes["reserved_rate"]))

    pinned = [row for row in process.rows("cpu") if row.attributes.get("pinned") == "true"]
    told = [(row.event, int(row.address, 16)) for row in pinned]
    allocated, registered = int(report["pinned"], 16), int(report["registered"], 16)
    expect_equal("pinned memory", [("MALLOC", allocated), ("MALLOC", registered), ("FREE", registered), ("FREE", allocated)],
                 told)
    for row in pinned:
        if not report["touched"] <= row.number("process_used") <= report["peak"]:
            raise Failed(f"process_used of pinned memory: {row.number('process_used')}, not from {report['touched']} "
                         f"to {report['peak']}")
    if "whose allocation was not seen" in run.messages:
        raise Failed(f"frees without an allocation: {run.messages}")
    return f"{len(report['probes'])} blocks, {len(snapshots)} snapshots, {len(pinned)} rows of pinned memory"


def no_cann(site):
    run = record(site.stage, site.output(), [compile_program(site), "absent"])
    expect_equal("exit status", 0, run.status)
    (report,) = run.reports
    for name, outcome in report.items():
        if outcome["answer"] in (0, -1) or outcome["written"]:
            raise Failed(f"{name} where there is no CANN: {outcome} (-1: not exported)")
    expect_equal("files of a device", [], [file for process in run.processes for file in process.files])
    return f"{len(report)} functions give errors"


CASES = [
    Case("device killed, linked with CANN", killed_linked),
    Case("device killed, linked with CANN of an older driver", killed_linked_without_inner),
    Case("device killed, CANN loaded out of sight", killed_out_of_sight),
    Case("device killed, CANN of an older driver loaded out of sight", killed_out_of_sight_without_inner),
    Case("device killed, devices with other numbers", killed_with_devices_of_other_numbers),
    Case("device usage, sampled outside", usage),
    Case("device without CANN", no_cann),
]
