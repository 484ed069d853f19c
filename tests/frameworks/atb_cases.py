"""A C++ model on a library with ATB's names and layouts, built for both forms of std::string."""

import json
import os
import re
import subprocess
from collections import Counter, namedtuple

from environments import REPOSITORY
from recording import Failed, analyze, compare, expect_equal, record

SOURCES = REPOSITORY / "tests/frameworks/programs/atb"
DEVICE = 1

# As in model.cpp: two tensors and their sum in one block, an intermediate tensor in a region of ATB's, each 2 x 3 floats.
TENSORS = {"left": (1, 0x0), "right": (1, 0x400), "sum": (1, 0x800)}
INTERMEDIATE = (3, 0x400)
WORKSPACE_BYTES, HEAP_BYTES, TENSOR_BYTES = 1536, 8192, 24
# The block that waste() holds for nothing.
LARGE_BYTES = 8192

EVERYTHING = ("--level=op,kernel", "--events=alloc,free,launch,access")

Told = namedtuple("Told", "event type name pointer attributes")


class Case(namedtuple("Case", "name abi check")):
    def run(self, site):
        return self.check(site, self.abi)


class Model:
    """The model, built against a library that leaves out what `left_out` says."""

    def __init__(self, site, abi, left_out=()):
        self.site = site
        self.directory = site.scratch
        self.compile("libatb.so", "atb.cpp", "-Wl,-soname,libatb.so", *left_out, abi=abi)
        self.compile("libdumper.so", "dumper.cpp", abi=abi)
        libraries = site.toolkit.directory / "lib64"
        cann = [f"-L{libraries}", "-Wl,--no-as-needed", "-lascendcl", "-lms_tools_ext", "-Wl,--allow-shlib-undefined"]
        self.compile("libmodel.so", "model.cpp", f"-L{self.directory}", "-latb", "-Wl,-rpath,$ORIGIN", *cann, abi=abi)
        host = ["cc", "-O1", "-o"]
        run([*host, self.directory / "host", SOURCES / "host.c", "-ldl"])
        run([*host, self.directory / "linked", "-DLINKED", SOURCES / "host.c", f"-L{self.directory}", "-lmodel",
             "-Wl,-rpath,$ORIGIN", f"-Wl,-rpath-link,{libraries}", "-Wl,--allow-shlib-undefined"])

    def compile(self, library, source, *options, abi):
        run(["c++", "-std=c++14", "-O1", "-g", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-o",
             self.directory / library, SOURCES / source, *options])

    def linked(self, what="model"):
        return [self.directory / "linked", what]

    def out_of_sight(self):
        return [self.directory / "host", "model", self.directory / "libmodel.so"]

    def bare(self, program, **variables):
        """What the program prints where nobody watches."""
        environment = os.environ | self.site.toolkit.variables() | variables
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def watched(self, program, *options, **variables):
        """The run under msmemscope, whose report must be the bare run's."""
        under = record(self.site.stage, self.site.output(), program, self.site.toolkit.variables() | variables,
                       options=options)
        expect_equal("exit status", 0, under.status)
        return under

    def compared(self, program, *options, **variables):
        under = self.watched(program, *options, **variables)
        expect_equal("what the program printed", [self.bare(program, **variables)], under.reports)
        return under

    def told(self, under):
        """The launches and accesses, with what the addresses are relative to."""
        (report,) = under.reports
        # A shell that starts the program has a recording too, without a device.
        (process,) = [process for process in under.processes if process.files]
        memory, workspace = int(report["left"], 16), int(report["workspace"], 16)
        rows = [row for row in process.rows(DEVICE) if row.event in ("OP_LAUNCH", "KERNEL_LAUNCH", "ACCESS")]
        return Expected(memory, workspace), [Told(row.event, row.type, row.name, row.address, row.cells["Attr"]) for row in rows]


def run(words):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))}:\n{done.stdout[-1500:]}")


def pointer(address):
    return f"0x{address:016x}"


class Expected:
    """The rows of the model's operators."""

    def __init__(self, memory, workspace):
        self.places = {name: (block, memory + offset) for name, (block, offset) in TENSORS.items()}
        self.places["intermediate"] = (INTERMEDIATE[0], workspace + INTERMEDIATE[1])
        self.workspace = workspace

    def accesses(self, name, prefixes, inputs, output):
        modes = [(tensor, "UNKNOWN") for tensor in inputs] + [(output, "WRITE")]
        for tensor, mode in modes:
            block, address = self.places[tensor]
            attributes = (f"{{allocation_id:{block},addr:{pointer(address)},size:{TENSOR_BYTES},type:ATB,"
                          f"dtype:{prefixes[0]}FLOAT,format:{prefixes[1]}ND,shape:[2,3]}}")
            yield Told("ACCESS", mode, name, pointer(address), attributes)

    def kernel(self, name, path, inputs, output, accesses):
        yield Told("KERNEL_LAUNCH", "KERNEL_START", name, "N/A", f"{{path:{path}/{name}/before}}")
        if accesses:
            yield from self.accesses(name, ("TENSOR_DTYPE_", "TENSOR_FORMAT_"), inputs, output)
        yield Told("KERNEL_LAUNCH", "KERNEL_END", name, "N/A", f"{{path:{path}/{name}/after}}")

    def operator(self, name, path, *inner, accesses, named=True, ends=True):
        shown, attributes = name if named else "N/A", path if named else "N/A"
        attributes = f"{{path:{attributes},workspace_ptr:{pointer(self.workspace)},workspace_size:{WORKSPACE_BYTES}}}"
        yield Told("OP_LAUNCH", "ATB_START", shown, "N/A", attributes)
        if accesses:
            # The third input is an optional one that is not there.
            yield from self.accesses(shown, ("ACL_", "ACL_FORMAT_"), ("left", "right"), "sum")
        for rows in inner:
            yield from rows
        if ends:
            yield Told("OP_LAUNCH", "ATB_END", shown, "N/A", attributes)

    def model(self, kernels=True, accesses=True, kernel_accesses=True, named=True):
        def kernel(*what):
            return self.kernel(*what, accesses=kernel_accesses) if kernels else ()

        def operator(name, path, *inner, **more):
            return self.operator(name, path, *inner, accesses=accesses, named=named, **more)

        def add(name, path):
            return operator(name, path, kernel("0_AddF32Kernel", path, ("left", "right"), "sum"))

        double, graph = "0_1/0/7_DoubleAddOperation", "0_1/0/7_DecoderGraph"
        yield from add("AddOperation", "0_1/0/7_AddOperation")
        yield from operator("DoubleAddOperation", double,
                            kernel("0_DoubleKernel", double, ("left", "left"), "intermediate"),
                            kernel("1_AddF32Kernel", double, ("intermediate", "right"), "sum"))
        yield from operator("DecoderGraph", graph, add("InnerAddOperation", f"{graph}/0/7_InnerAddOperation"))
        yield from operator("FailsOperation", "0_1/0/7_FailsOperation")
        # It is left by an exception.
        yield from operator("ThrowsOperation", "0_1/0/7_ThrowsOperation", ends=False)
        yield from add("AddOperation", "0_1/1/7_AddOperation")


def expect_rows(what, expected, found):
    expected = list(expected)
    for place, (one, other) in enumerate(zip(expected, found)):
        expect_equal(f"{what}: launch or access number {place}", one, other)
    expect_equal(f"{what}: launches and accesses", len(expected), len(found))
    return len(found)


def everything(site, abi):
    model = Model(site, abi)
    counts = []
    for program in (model.out_of_sight(), model.linked()):
        under = model.compared(program, *EVERYTHING, "--call-stack=c")
        expected, told = model.told(under)
        counts.append(expect_rows("everything", expected.model(), told))
        (process,) = under.processes
        starts = [row for row in process.rows(DEVICE) if row.type == "ATB_START"]
        if not all("run_model" in row.cells["Call Stack(C)"] for row in starts):
            raise Failed(f"an operator without its caller: {starts[0].cells['Call Stack(C)']!r}")
        times = [int(row.cells["Timestamp(ns)"]) for row in process.rows(DEVICE)]
        expect_equal("times in the order of the rows", sorted(set(times)), times)
        pool = process.pool(DEVICE, "ATB")
        expect_equal("totals of ATB's pool", {HEAP_BYTES}, set(pool.totals))
        if "reserved 0 B (at most 8.0 KiB)" not in under.messages:
            raise Failed(f"the heap that was given up is still reserved: {under.messages}")
    many = model.compared(model.linked("many"), *EVERYTHING)
    expect_equal("bytes that a thousand operators leave on the heap", 0, many.reports[0]["kept"])
    return f"{counts[0]} rows, linked and out of sight"


def only_what_was_asked_for(site, abi):
    model = Model(site, abi)
    expected, told = model.told(model.compared(model.out_of_sight()))
    operators = expect_rows("by default", expected.model(kernels=False, accesses=False), told)
    expected, told = model.told(model.compared(model.linked(), "--events=alloc,free"))
    expect_equal("launches and accesses without --events=launch", [], told)
    expected, told = model.told(model.compared(model.linked(), "--events=access"))
    accesses = [row for row in expected.model(kernels=False) if row.event == "ACCESS"]
    expect_rows("accesses alone", accesses, told)
    expected, told = model.told(model.compared(model.linked(), "--level=kernel", "--events=launch"))
    kernels = [row for row in expected.model(kernel_accesses=False, accesses=False) if row.event == "KERNEL_LAUNCH"]
    expect_rows("kernels alone", kernels, told)

    def probes(*options):
        (report,) = model.watched(model.linked("probes"), *options).reports
        return report["probes"]

    # Need, before, after, count in range, path.
    expect_equal("answers of Probe to an unwatched program", [0, 0, 0, 0, 0], model.bare(model.linked("probes"))["probes"])
    expect_equal("answers of Probe if nothing of ATB is asked for", [0, 0, 0, 0, 0], probes("--events=alloc,free"))
    expect_equal("answers of Probe for operators", [0, 0, 0, 0, 1], probes())
    expect_equal("answers of Probe for kernels", [1, 1, 1, 1, 1], probes(*EVERYTHING))
    return f"{operators} rows by default"


def tensors_are_still_saved(site, abi):
    """A user who saves tensors while msmemscope records gets the same ones."""
    model = Model(site, abi)
    saved = []
    for options in ((), EVERYTHING):
        under = model.compared(model.linked(), *options, ATB_SAVES="1")
        saved.append(under.reports[0]["saved"])
    expected, told = model.told(under)
    expect_rows("with tensors saved", expected.model(), told)
    dumper = model.directory / "libdumper.so"
    before_us = ["/bin/sh", "-c", f"LD_PRELOAD={dumper}:$LD_PRELOAD exec {model.directory}/linked model"]
    for program, variables in ((model.linked(), {"LD_PRELOAD": str(dumper)}), (before_us, {})):
        under = model.compared(program, *EVERYTHING, **variables)
        # One operator's two kernels and itself, before and after.
        expect_equal("what another tool saved", 6, under.reports[0]["saved"])
        expected, told = model.told(under)
        kernels = [row for row in expected.model(accesses=False) if "7_DoubleAddOperation/" in row.attributes]
        expect_equal("kernels of the operator it dumps", kernels, [row for row in told if row.event == "KERNEL_LAUNCH"])
    return f"{saved[0]} times"


def without_texts(site, abi):
    model = Model(site, abi, ["-DWITHOUT_TEXTS"])
    expected, told = model.told(model.compared(model.out_of_sight(), *EVERYTHING))
    return f"{expect_rows('without names', expected.model(named=False), told)} rows"


def without_tensors(site, abi):
    model = Model(site, abi, ["-DWITHOUT_TENSORS"])
    expected, told = model.told(model.compared(model.linked(), *EVERYTHING))
    return f"{expect_rows('without tensors of kernels', expected.model(kernel_accesses=False), told)} rows"


def memory_held_for_nothing(site, abi):
    """As waste() of model.cpp does it: in the rows, in the report after the run, and found again in recording and file."""
    model = Model(site, abi)
    under = model.watched(model.linked("waste"), "--analysis=inefficient", EVERYTHING[1], "--call-stack=c")
    wasted = int(under.reports[0]["wasted"], 16)
    (process,) = under.processes
    rows = [row for row in process.rows(DEVICE) if row.event == "MALLOC" and "inefficient_type" in row.cells["Attr"]]
    expect_equal("blocks that are held for nothing", [pointer(wasted)], [row.address for row in rows])
    kinds = "inefficient_type:early_allocation,late_deallocation,temporary_idleness"
    if kinds not in rows[0].cells["Attr"]:
        raise Failed(f"not {kinds}: {rows[0].cells['Attr']}")
    if "inefficient memory: 3 findings in 3,005 operators" not in under.messages or "waste" not in under.messages:
        raise Failed(f"the report does not say so: {under.messages}")
    reports = []
    for source in (under.output, process.files[str(DEVICE)]):
        words = [site.stage / "bin/msmemscope", "analyze", source, "inefficient", "--json"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        (found,) = json.loads(done.stdout)["processes"]
        reports.append([(one["type"], one["byte_operators"], one["worst"]["operators"])
                        for one in found["inefficient"]["inefficient"]])
    size = LARGE_BYTES
    expected = [("temporary_idleness", 3001 * size, 3001), ("late_deallocation", size, 1), ("early_allocation", size, 1)]
    expect_equal("findings in the recording", sorted(expected), sorted(reports[0]))
    expect_equal("findings in the file", reports[0], reports[1])
    return f"{len(expected)} findings"


def streams(site, abi):
    """As streams() of model.cpp does it: what other streams do neither is room nor time for a block."""
    model = Model(site, abi)
    program = model.linked("streams")
    under = record(site.stage, site.output(), program, site.toolkit.variables(), "npu", ("--analysis=inefficient", EVERYTHING[1]))
    expect_equal(f"exit status ({under.messages[-1500:]})", 0, under.status)
    (report,) = under.reports
    expect_equal("errors that ATB logged", 0, report["errors"])
    (process,) = under.processes
    rows = process.rows(DEVICE)
    starts = [(row.name, int(row.attributes.get("stream", "0"), 16)) for row in rows if row.type == "ATB_START"]
    ends = [(row.name, int(row.attributes.get("stream", "0"), 16)) for row in rows if row.type == "ATB_END"]
    first, second = int(report["first"], 16), int(report["second"], 16)
    others = 3003
    expected = Counter({("AddOperation", first): others + 4, ("AddOperation", second): others, ("PluginOperation", 0): 1,
                        ("ForeignOperation", 0): 2})
    expect_equal("streams of operators", expected, Counter(starts))
    expect_equal("streams of their ends", starts, ends)
    held = [(row.address, kinds.group(1)) for row in rows if row.event == "MALLOC"
            for kinds in re.finditer(r"inefficient_type:([a-z_,]*),page_type", row.cells["Attr"])]
    # The driver hands out freed memory to whoever asks for it: an allocation outside of operators is one of any stream.
    kinds = {"one": "early_allocation,late_deallocation,temporary_idleness", "two": "late_deallocation"}
    expect_equal("blocks held for nothing", [(pointer(int(report[name], 16)), kinds[name]) for name in kinds], held)
    sources = (under.output, process.files[str(DEVICE)])
    reports = [analyze(site.stage, [source], "inefficient")[0]["inefficient"] for source in sources]
    expect_equal("report of the file", reports[0], reports[1])
    return f"{len(starts)} operators on two streams"


def compared_with_itself(site, abi):
    """Two runs of the same model take the same memory, operator by operator."""
    model = Model(site, abi)
    levels = "--level=op,kernel"
    runs = [model.watched(model.linked(), levels) for _ in range(2)]
    rows = compare(site.stage, *(run.output for run in runs), site.output(), levels)
    (process,) = runs[0].processes
    ends = [row.name for row in process.rows(DEVICE) if row.type in ("ATB_END", "KERNEL_END")]
    expect_equal("operators and kernels", ends, [row.name for row in rows])
    expect_equal("rows that differ", [], [row for row in rows if (row.base, row.difference) != (row.compared, "0")])
    return f"{len(rows)} rows"


CHECKS = {
    "operators, kernels and accesses": everything,
    "only what was asked for": only_what_was_asked_for,
    "two runs, compared": compared_with_itself,
    "tensors that are really saved": tensors_are_still_saved,
    "memory held for nothing": memory_held_for_nothing,
    "operators on two streams": streams,
    "whose operators have no name to ask for": without_texts,
    "whose kernels have no tensors to ask for": without_tensors,
}
CASES = [Case(f"ATB of C++ ABI {abi}: {name}", abi, check) for name, check in CHECKS.items() for abi in (0, 1)]
