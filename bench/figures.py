"""The figures the project promises, computed from the runs, each with its target and verdict."""
from dataclasses import dataclass, field
from typing import Dict, Optional

FLAT, C, PYTHON, BOTH = "msmemscope no stacks", "msmemscope c", "msmemscope python", "msmemscope c,python"


@dataclass
class Figure:
    title: str
    value: Optional[float]
    unit: str
    target: Optional[float] = None   # At most; None: for information.
    note: str = ""
    peers: Dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self):
        if self.value is None:
            return "not available"
        if self.target is None:
            return ""
        return "met" if self.value <= self.target else "MISSED"


def _against(series, tool, key, pick):
    """(value, baseline's value) of a tool; None if either is missing."""
    one = series.get(tool)
    if one is None or not one.runs or one.baseline not in series:
        return None
    value, base = pick(one, key), pick(series[one.baseline], key)
    return None if value is None or base is None else (value, base)


def best(series, key):
    return series.best(key)


def median(series, key):
    return series.median(key)


def added(series, tool, key, pick=best):
    pair = _against(series, tool, key, pick)
    return None if pair is None else pair[0] - pair[1]


def ratio(series, tool, key, pick=median):
    pair = _against(series, tool, key, pick)
    return None if pair is None or not pair[1] else pair[0] / pair[1]


def events_of(series, tool):
    """Events of one run: what the program says, or what msmemscope counted in the same workload."""
    own = series[tool].median("recorded_events") or series[tool].median("events")
    if own:
        return own
    counts = [one.median("recorded_events") for one in series.values()]
    return next((count for count in counts if count), None)


def bytes_per_event(series, tool):
    one = series.get(tool)
    if one is None or not one.runs:
        return None
    events = events_of(series, tool)
    return one.median("bytes") / events if events else None


def added_ns_per_event(series, tool, pick):
    """None where the program does not know how many events its timed part has."""
    more = added(series, tool, "cpu_s", pick)
    events = series[tool].median("events")
    return more * 1e9 / events if more is not None and events else None


def why(series, tool):
    one = series.get(tool)
    return (one.unavailable or "") if one is not None else "not run"


def peers(series, compute):
    """The same figure of every peer in these runs."""
    found = {}
    for name, one in series.items():
        if name.startswith(("memray", "heaptrack")) and one.runs:
            value = compute(series, name)
            if value is not None:
                found[name] = value
    return found


def _one(series, tool, title, unit, target, compute, note=""):
    value = compute(series, tool)
    return Figure(title, value, unit, target, note if value is not None else why(series, tool), peers(series, compute))


def pair_figures(results):
    def p10(series, tool):
        return added(series, tool, "p10_ns")

    rows = [("pair-flat", FLAT, "malloc+free pair, no stack: added", 40),
            ("pair-20", FLAT, "malloc+free pair below 20 frames, no stack: added", None),
            ("pair-20", C, "malloc+free pair, 20 C frames: added", 250),
            ("labels", FLAT, "label opened and closed: added", 100),
            ("ways", C, "malloc+free pair, one of 256 ways of 20 C frames at random: added", 150),
            ("ways-fp", C, "the same with frame pointers: added", 150),
            ("ways-outer", C, "malloc+free pair, 30 C frames that differ in an outer one: added", 250),
            ("fibers-64", C, "malloc+free pair and switch of fibers, stacks of 64 KiB: added", 3000),
            ("fibers-1024", C, "malloc+free pair and switch of fibers, stacks of 1 MiB: added", 3000),
            ("fibers-12288", C, "malloc+free pair and switch of fibers, stacks of 12 MiB: added", 3000),
            ("py-enter", PYTHON, "malloc+free pair, 20 Python frames entered for each: added", 150),
            ("py-enter", BOTH, "the same with C frames too: added", None),
            ("py-stay", PYTHON, "malloc+free pair in a loop below 20 Python frames: added", None)]
    return [_one(results[workload], tool, title, "ns", target, p10)
            for workload, tool, title, target in rows if workload in results]


def whole_figures(results):
    def cpu(series, tool):
        return ratio(series, tool, "cpu_s")

    def memory(series, tool):
        more = added(series, tool, "hwm_kb", median)
        return None if more is None else more / 1024

    rows = [("deep-4", C, "C, deep stacks, 4 threads", 2.0),
            ("deep-1", C, "C, deep stacks, 1 thread", None),
            ("flat-1", FLAT, "C, no stacks, 1 thread", None),
            ("flat-4", FLAT, "C, no stacks, 4 threads", None),
            ("py-objects", PYTHON, "Python objects below 20 frames", 1.3),
            ("torch", BOTH, "PyTorch training on the CPU, both stacks", 1.3)]
    rows = [row for row in rows if row[0] in results]
    figures = []
    for workload, tool, title, target in rows:
        series = results[workload]
        best_value = ratio(series, tool, "cpu_s", best)
        note = f"best run {best_value:.2f}" if best_value else ""
        figures.append(_one(series, tool, f"{title}: CPU time", "x bare", target, cpu, note))
    for workload, tool, title, _ in rows:
        figures.append(_one(results[workload], tool, f"{title}: size of an event", "bytes", 8, bytes_per_event))
    for workload, tool, title, _ in rows:
        figures.append(_one(results[workload], tool, f"{title}: added to the process", "MB", 30, memory))
    return figures


def thread_figures(results):
    """Cost of an event on 4 threads over 1 thread, for information: cache lines that threads share would show.

    Without target: a quotient of two small differences, which the machine moves as much as a defect would. That no event
    takes a lock is for `scripts/check-locks` to say. CPU times of whole runs show most and vary most.
    """
    def whole(series, tool, pick):
        return added_ns_per_event(series, tool, pick)

    def pair(series, tool, pick):
        return added(series, tool, "p10_ns", pick)

    rows = [(("pair-flat", "pair-flat-4"), FLAT, "a pair, no stacks: p10", pair),
            (("pair-20", "pair-20-4"), C, "a pair, 20 C frames: p10", pair),
            (("flat-1", "flat-4"), FLAT, "whole run, no stacks: p10", pair),
            (("deep-1", "deep-4"), C, "whole run, deep stacks: p10", pair),
            (("flat-1", "flat-4"), FLAT, "whole run, no stacks: CPU time", whole),
            (("deep-1", "deep-4"), C, "whole run, deep stacks: CPU time", whole),
            (("device-pool", "device-pool-threads"), FLAT, "a pool event, no stacks: p10", pair),
            (("device-pool", "device-pool-threads"), C, "a pool event, 30 C frames: p10", pair),
            (("device-pool", "device-pool-threads"), FLAT, "a pool event, no stacks: CPU time", whole),
            (("device-pool", "device-pool-threads"), C, "a pool event, 30 C frames: CPU time", whole),
            (("device-hal", "device-hal-threads"), FLAT, "a driver event, no stacks: p10", pair),
            (("device-hal", "device-hal-threads"), C, "a driver event, 30 C frames: p10", pair)]
    return [_scaling(results, names, tool, title, cost) for names, tool, title, cost in rows
            if all(name in results for name in names)]


def _scaling(results, names, tool, title, cost):
    def growth(tool, pick):
        one, four = (cost(results[name], tool, pick) if tool in results[name] else None for name in names)
        return four / one if one and four and one > 0 else None

    value = growth(tool, best)
    note = why(results[names[0]], tool) or why(results[names[1]], tool)
    if value is not None:
        one, four = (cost(results[name], tool, best) for name in names)
        note = f"{one:.0f} -> {four:.0f} ns added, of best runs; of medians {growth(tool, median) or 0:.2f} x"
    others = {name: value for name in results[names[0]] if name.startswith(("memray", "heaptrack"))
              for value in [growth(name, best)] if value}
    return Figure(f"added cost on 4 threads over 1 thread, {title}", value, "x", None, note, others)


def live_figures(series):
    figures = []
    for tool in (FLAT, C):
        least = most = None
        if series[tool].runs and series["bare"].runs:
            mine, base = (min((run.figures["rss_kb"] for run in one.runs), key=lambda rss: rss[max(rss, key=int)])
                          for one in (series[tool], series["bare"]))
            least, most = ((mine[count] - base[count]) / 1024 for count in (min(mine, key=int), max(mine, key=int)))
        label = tool.replace("msmemscope ", "")
        figures.append(Figure(f"added memory with 2e6 live blocks, {label}", most, "MB", 30, why(series, tool)))
        figures.append(Figure(f"growth of that from 1e4 live blocks on, {label}",
                              None if most is None else most - least, "MB", 1, why(series, tool)))
    return figures
