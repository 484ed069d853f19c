"""Figures and runs as text."""
import figures as f


def number(value, digits=2):
    if value is None:
        return "-"
    if abs(value) >= 100 or digits == 0:
        return f"{value:.0f}"
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def table(rows, markdown):
    """Rows of equal length, the first being the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for index, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append(f"| {' | '.join(cells)} |" if markdown else "  ".join(cells).rstrip())
        if index == 0:
            lines.append(f"|{'|'.join('-' * (width + 2) for width in widths)}|" if markdown
                         else "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def figure_table(figures, markdown=False):
    rows = [["figure", "value", "target", "verdict", "peers in the same run", "note"]]
    for figure in figures:
        peers = ", ".join(f"{name} {number(value)}" for name, value in figure.peers.items())
        rows.append([figure.title, f"{number(figure.value)} {figure.unit}".strip() if figure.value is not None else "-",
                     f"<= {number(figure.target)}" if figure.target is not None else "", figure.verdict, peers,
                     figure.note])
    return table(rows, markdown)


def _missing(one):
    return f"not available: {one.unavailable}" if one.unavailable else "not run"


def _runs(one):
    return f"{len(one.runs)}, then {one.unavailable}" if one.unavailable else str(len(one.runs))


def pair_table(series, markdown=False):
    rows = [["tool", "runs", "p10 ns", "median ns", "best p10 ns", "added ns (best p10)", "load"]]
    for name, one in series.items():
        if not one.runs:
            rows.append([name, "0", _missing(one), "", "", "", ""])
            continue
        more = f.added(series, name, "p10_ns")
        rows.append([name, _runs(one), number(one.median("p10_ns"), 1), number(one.median("median_ns"), 1),
                     number(one.best("p10_ns"), 1), number(more, 1), number(one.median("load"), 1)])
    return table(rows, markdown)


def whole_table(series, markdown=False):
    rows = [["tool", "runs", "CPU s", "CPU x median", "CPU x best", "wall x", "all-process CPU x",
             "added ns per event: median / best", "bytes per event", "peak RSS added MB", "load"]]
    for name, one in series.items():
        if not one.runs:
            rows.append([name, "0", _missing(one)] + [""] * 8)
            continue
        more = [number(f.added_ns_per_event(series, name, pick), 0) for pick in (f.median, f.best)]
        memory = f.added(series, name, "hwm_kb", f.median)
        rows.append([
            name, _runs(one), number(one.median("cpu_s")), number(f.ratio(series, name, "cpu_s")),
            number(f.ratio(series, name, "cpu_s", f.best)), number(f.ratio(series, name, "wall_s")),
            number(f.ratio(series, name, "all_cpu_s")), " / ".join(more), number(f.bytes_per_event(series, name), 1),
            number(None if memory is None else memory / 1024, 1), number(one.median("load"), 1)])
    return table(rows, markdown)


def event_table(series, markdown=False):
    rows = [["tool", "runs", "p10 ns", "median ns", "best p10 ns", "added ns (best p10)", "added ns of CPU time: median / best",
             "bytes per event", "load"]]
    for name, one in series.items():
        if not one.runs:
            rows.append([name, "0", _missing(one)] + [""] * 6)
            continue
        cpu = [number(f.added_ns_per_event(series, name, pick), 0) for pick in (f.median, f.best)]
        rows.append([name, _runs(one), number(one.median("p10_ns"), 1), number(one.median("median_ns"), 1),
                     number(one.best("p10_ns"), 1), number(f.added(series, name, "p10_ns"), 1),
                     " / ".join(cpu) if name != "bare" else "-", number(f.bytes_per_event(series, name) or None, 1),
                     number(one.median("load"), 1)])
    return table(rows, markdown)


def live_table(series, markdown=False):
    counts = next((list(one.runs[0].figures["rss_kb"]) for one in series.values() if one.runs), [])
    rows = [["tool", *(f"RSS MB at {int(count):.0e}" for count in counts)]]
    for name, one in series.items():
        cells = [number(min(run.figures["rss_kb"][count] for run in one.runs) / 1024, 1) if one.runs else _missing(one)
                 for count in counts]
        rows.append([name, *cells])
    return table(rows, markdown)
