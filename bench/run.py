#!/usr/bin/env python3
"""What msmemscope costs, beside the bare run and its peers, measured in the same run on the same machine.

    python3 bench/run.py [--quick] [--only pair,py,whole,torch,operators,live,device,calls,reading,export,analyses,package,watch] [--huge]
                         [--instructions] [--check]

Sets up what it needs by itself: a C compiler and heaptrack from the distribution, memray and PyTorch in a virtual
environment under .cache, the simulated CANN in target/sim. What cannot be had is reported as not available. Results go to
bench/results, under the machine's name. Runs of all workloads and tools of a part alternate. CPU time (user + system) of
the program's timed part is the primary figure of whole runs, the tenth percentile of batches that of single calls: both are
least disturbed by what else the machine does; the load is noted.
"""
import argparse
import datetime
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import analyses
import calls
import devices
import export
import figures
import instructions
import machine
import measure
import operators
import package
import reading
import report
import tools
import watch
from tools import Workload

SECTIONS = ("pair", "py", "whole", "torch", "operators", "live", "device", "calls", "reading", "export", "analyses", "package",
            "watch")
# The sections that need the peers and their packages.
WITH_PEERS = {"pair", "py", "whole", "torch", "operators"}


def workloads(quick, sim):
    """{section: [(workload, settings of our call stacks, whether with the whole command)]}"""
    pairs = "4000" if quick else "20000"
    fibers = "400" if quick else "4000"
    py_pairs = "1000" if quick else "4000"
    flat = str(2_000_000 if quick else 10_000_000)
    deep = str(1_000_000 if quick else 4_000_000)
    rounds = "10000" if quick else "40000"
    steps = "30" if quick else "100"
    # Where a figure is a difference of runs that vary as much.
    turns = 1 if quick else 3

    def whole(name, title, events, kind, threads, settings, with_command=False):
        workload = Workload(name, f"C, {title}, {events} events", "whole_c", (events, kind, threads), turns=turns)
        return workload, settings, with_command

    return {
        "pair": [
            (Workload("pair-flat", "malloc+free pair, flat", "pair", ("0", pairs)), ("", "c"), False),
            (Workload("pair-20", "malloc+free pair, 20 frames entered for each", "pair", ("20", pairs)), ("", "c"), False),
            (Workload("pair-flat-4", "malloc+free pair, flat, on each of 4 threads", "pair", ("0", pairs, "4")),
             ("",), False),
            (Workload("pair-20-4", "malloc+free pair, 20 frames entered for each, on each of 4 threads", "pair",
                      ("20", pairs, "4")), ("c",), False),
            (Workload("labels", "a label opened and closed", "labels", (pairs,)), ("",), False),
            (Workload("ways", "malloc+free pair, one of 256 ways of 20 frames at random", "ways", ("random", pairs)),
             ("", "c"), False),
            (Workload("ways-fp", "the same, with frame pointers", "ways_fp", ("random", pairs)), ("", "c"), False),
            (Workload("ways-outer", "malloc+free pair below 30 frames that differ in an outer one", "ways",
                      ("outer", pairs)), ("", "c"), False),
            *((Workload(f"fibers-{kib}", f"malloc+free pair and switch of fibers, stacks of {kib} KiB", "fibers",
                        (kib, fibers)), ("", "c"), False) for kib in ("64", "1024", "12288"))],
        "py": [
            (Workload("py-enter", "pair from Python, 20 frames entered for each", "py_pair.py", ("enter", py_pairs)),
             ("", "python", "c,python"), False),
            (Workload("py-stay", "pairs from Python in a loop below 20 frames", "py_pair.py", ("stay", py_pairs)),
             ("", "python", "c,python"), False)],
        "whole": [
            whole("flat-1", "flat, 1 thread", flat, "flat", "1", ("", "c"), with_command=True),
            whole("flat-4", "flat, 4 threads", flat, "flat", "4", ("", "c")),
            whole("deep-1", "deep stacks, 1 thread", deep, "deep", "1", ("c",)),
            whole("deep-4", "deep stacks, 4 threads", deep, "deep", "4", ("c",)),
            (Workload("py-objects", "Python objects below 20 frames", "py_objects.py", (rounds,), turns=turns),
             ("python", "c,python"), False)],
        "torch": [
            (Workload("torch", f"PyTorch training on the CPU, {steps} steps", "torch_train.py", (steps,), turns=turns),
             ("", "c,python"), False)],
        "operators": operators.workloads(steps, turns),
        "live": [(Workload("live", "memory by live blocks", "live_blocks"), ("", "c"), False)],
        "device": devices.workloads(quick, sim),
    }


def tools_for(workload, settings, with_command, stage, missing):
    if workload.name == operators.NAME:
        return operators.chosen(stage, missing)
    chosen = [tools.Tool(), *(tools.Ours(stage, call_stack) for call_stack in settings)]
    if with_command:
        chosen.append(tools.OursWithCommand(stage, settings[0]))
    # The peers know nothing of devices and labels, and of live blocks only the one figure above.
    if workload.name in ("live", "labels") or workload.device != "cpu":
        return chosen
    chosen.append(tools.Heaptrack(missing["heaptrack"]))
    if not workload.is_python:
        chosen.append(tools.BarePython())
    return chosen + [tools.Memray([], missing["memray"]), tools.Memray(["--native"], missing["memray"])]


def set_up(arguments, sections):
    """Returns {peer: None or why it is missing}."""
    if not arguments.no_setup:
        machine.install_package("cc", "gcc")
    if arguments.no_setup or not WITH_PEERS & set(sections):
        missing = machine.python_packages_present()
        missing["heaptrack"] = None if shutil.which("heaptrack") else "not installed"
    else:
        missing = {"heaptrack": None if machine.install_package("heaptrack", "heaptrack") else "cannot be installed"}
        missing.update(machine.install_python_packages(arguments.torch))
    missing.setdefault("pandas", "not installed")
    if "analyses" in sections and not arguments.no_setup:
        missing["pandas"] = machine.install_pandas()
    missing["sim"] = None
    if {"device", "watch"} & set(sections):
        failed = None if arguments.no_setup else machine.build_simulated_cann()
        missing["sim"] = failed or devices.unavailable(arguments.sim)
    machine.build_programs()
    return missing


def versions(stage):
    return {name: version for name, version in {
        "msmemscope": tools.version_of([str(stage.command), "--version"]) if stage.command else None,
        "memray": tools.version_of([tools.interpreter(), "-m", "memray", "--version"]),
        "heaptrack": tools.version_of(["heaptrack", "--version"]),
        "torch": tools.version_of([tools.interpreter(), "-c", "from torch import version; print(version.__version__)"]),
    }.items() if version}


def document(about, all_figures, results, markdown):
    """The whole report."""
    tables = {"pair": report.pair_table, "py": report.pair_table, "live": report.live_table,
              "device": report.event_table}
    heading = "# {}\n" if markdown else "{}\n"
    parts = [heading.format(f"msmemscope on {about['machine']['name']}, {about['date']}"),
             f"{about['machine']['cpu']}, {about['machine']['cores']} cores, {about['machine']['memory_gb']} GB, "
             f"Linux {about['machine']['kernel']}, {about['machine']['libc']}, Python {about['machine']['python']}; "
             + ", ".join(f"{name}: {version}" for name, version in about["versions"].items())
             + f"; revision {about['revision']}; {about['repetitions']} repetitions"
             + ("; quick" if about["quick"] else "")
             + f"; load {about['load'][0]:.1f} at the start, {about['load'][1]:.1f} at the end.\n",
             report.figure_table(all_figures, markdown)]
    if max(about["load"]) > 0.75 * about["machine"]["cores"]:
        parts.insert(2, "The machine was busy: read differences below 30 % as noise.\n")
    for section, series in results:
        first = next(iter(series.values()))
        title = about["titles"][first.workload]
        parts.append(f"\n## {title}\n" if markdown else f"\n{title}\n")
        parts.append(tables.get(section, report.whole_table)(series, markdown))
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 repetitions of shorter runs")
    parser.add_argument("--repetitions", type=int, metavar="N", help="runs of each tool on each workload [default: 5]")
    parser.add_argument("--only", default=",".join(SECTIONS), metavar="LIST", help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--stage", default=tools.default_stage(), metavar="DIR", help="installed msmemscope [default: target/stage]")
    parser.add_argument("--sim", type=Path, default=machine.target_directory() / "sim", metavar="DIR",
                        help="the simulated CANN [default: target/sim]")
    parser.add_argument("--torch", default="2.7.1", metavar="VERSION", help="PyTorch to train with [default: 2.7.1]")
    parser.add_argument("--huge", action="store_true", help="also export 1e8 events, without and with stacks (23 GB of disk)")
    parser.add_argument("--instructions", action="store_true", help="also count instructions with valgrind")
    parser.add_argument("--no-setup", action="store_true", help="install nothing")
    parser.add_argument("--no-save", action="store_true", help="write nothing to bench/results")
    parser.add_argument("--scratch", metavar="DIR", help="where recordings go, for the time of a run [default: .cache]")
    parser.add_argument("--check", action="store_true", help="end with code 1 if a target is missed or cannot be measured")
    arguments = parser.parse_args()
    sections = arguments.only.split(",")
    unknown = [name for name in sections if name not in SECTIONS]
    if unknown:
        parser.error(f"--only does not know {', '.join(unknown)}; it takes {','.join(SECTIONS)}")
    repetitions = arguments.repetitions or (2 if arguments.quick else 5)

    stage = tools.Stage(arguments.stage)
    machine.CACHE.mkdir(exist_ok=True)
    missing = set_up(arguments, sections)
    started = machine.load()
    results, titles, all_figures, exports = [], {}, [], []
    with tempfile.TemporaryDirectory(prefix="msmemscope-bench-", dir=os.path.abspath(arguments.scratch or machine.CACHE)) as scratch:
        for section, listed in workloads(arguments.quick, arguments.sim).items():
            if section not in sections:
                continue
            why_not = {"torch": missing["torch"], "operators": missing["torch"], "device": missing["sim"]}.get(section)
            titles.update((workload.name, workload.title) for workload, _, _ in listed)
            chosen = [(workload, tools_for(workload, settings, with_command, stage, missing))
                      for workload, settings, with_command in listed]
            results += [(section, series) for series in measure.run_alternating(chosen, repetitions, scratch, why_not)]
        by_name = {next(iter(series.values())).workload: series for _, series in results}
        all_figures += (figures.pair_figures(by_name) + figures.whole_figures(by_name)
                        + operators.operator_figures(by_name) + devices.device_figures(by_name)
                        + figures.thread_figures(by_name))
        if "live" in by_name:
            all_figures += figures.live_figures(by_name["live"])
        if "calls" in sections:
            all_figures += calls.run(stage, repetitions, scratch, arguments.quick)
        if "reading" in sections:
            all_figures += reading.run(stage, repetitions, scratch)
        if "export" in sections:
            more, exports = export.run(stage, repetitions, scratch)
            all_figures += more
        if "analyses" in sections:
            all_figures += analyses.run(stage, repetitions, scratch, arguments.quick, missing["pandas"])
        if "package" in sections:
            all_figures += package.run(repetitions, scratch, missing)
        if "watch" in sections:
            all_figures += watch.run(stage, arguments.sim, repetitions, scratch, missing["sim"])
        if arguments.huge:
            more, details = export.run_huge(stage, scratch)
            all_figures += more
            exports += details
        if arguments.instructions:
            all_figures += instructions.run(stage, scratch)

    about = {"machine": machine.describe(), "date": datetime.date.today().isoformat(), "revision": machine.revision(),
             "versions": versions(stage), "repetitions": repetitions, "quick": arguments.quick,
             "load": [started, machine.load()], "titles": titles}
    print(document(about, all_figures, results, markdown=False))
    # A quick look, or a part, is no result: it must not replace the figures of a full run, nor lie beside them.
    is_whole = not arguments.quick and set(sections) == set(SECTIONS)
    if is_whole and not arguments.no_save:
        directory = machine.BENCH / "results"
        directory.mkdir(exist_ok=True)
        stem = directory / f"{about['machine']['name']}-{about['date']}"
        stem.with_suffix(".md").write_text(document(about, all_figures, results, markdown=True))
        stem.with_suffix(".json").write_text(compact({
            **about,
            "figures": [{**asdict(figure), "verdict": figure.verdict} for figure in all_figures],
            "series": [one.as_dict() for _, series in results for one in series.values()],
            "exports": exports}))
        machine.say(f"written to {stem}.md and .json")
    promised = [figure for figure in all_figures if figure.target is not None]
    missed = [figure for figure in promised if figure.verdict == "MISSED"]
    unknown = [figure for figure in promised if figure.value is None]
    for figure in missed:
        print(f"MISSED: {figure.title}: {report.number(figure.value)} {figure.unit}, target <= {report.number(figure.target)}")
    print(f"{len(promised) - len(missed) - len(unknown)} of {len(promised)} targets met"
          + (f", {len(missed)} MISSED" if missed else "") + (f", {len(unknown)} not available" if unknown else ""))
    # What could not be measured is not met either.
    return 1 if arguments.check and (missed or unknown) else 0


def compact(result):
    """A line for each figure and each series: small, and a change of one is a change of one line."""
    lines = []
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f"{json.dumps(key)}: [\n  {rows}]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    return "{" + ",\n ".join(lines) + "}\n"


if __name__ == "__main__":
    sys.exit(main())
