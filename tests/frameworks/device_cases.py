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


def check_killed(run):
    """Everything that had happened when the program was killed is in the export."""
    # The command ends as its program did.
    expect_equal("exit status of a program that was killed", -signal.SIGKILL, run.status)
    (report,) = run.reports
    (process,) = run.processes
    driver = process.pool(DEVICE, "HAL")
    expect_equal("driver allocations", report["blocks"] + report["freed"], driver.allocations)
    expect_equal("driver frees", report["freed"], driver.frees)
    alive = {int(address, 16) for address in driver.live}
    expect_equal("the blocks that were alive", set(), {int(address, 16) for address in report["addresses"]} ^ alive)
    expect_equal("the largest `used` of the driver", driver.peak, max(driver.uses, default=None))
    for event_type in POOL_TYPES:
        # The program says that its pools are on device 0.
        pool = process.pool(0, event_type)
        expect_equal(f"{event_type} blocks and frees", (POOL_BLOCKS, POOL_FREED), (pool.allocations, pool.frees))
        expect_equal(f"{event_type} total", POOL_RESERVED, max(pool.totals, default=None))
        if event_type != "PTA_WORKSPACE":  # There the size of a block is the pool's whole use.
            expect_equal(f"{event_type} used", POOL_BLOCKS * POOL_BLOCK_BYTES, max(pool.uses, default=None))
    pinned = [row for row in process.rows("cpu") if row.event == "MALLOC" and row.attributes.get("pinned") == "true"]
    expect_equal("sizes of pinned host memory", [PINNED_BYTES], [row.number("size") for row in pinned])
    # They belong to the device that is set.
    marks = [(row.type, row.name) for row in process.rows(DEVICE) if row.event == "MSTX"]
    expected = [("Mark", 'before, "quoted"'), ("Range_start", "step start"), ("Range_end", "step start")]
    expect_equal("marks and ranges", expected, marks)
    types = {row.type for row in process.rows(0) if row.is_memory()}
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
    Case("device without CANN", no_cann),
]
