"""What `--compare` costs: two files of many rows with other names here and there, and two that have nothing in common."""
import random
import shutil
import tempfile
from pathlib import Path

import machine
import measure
from figures import Figure

ROWS = 1_000_000
TARGET_SECONDS, TARGET_MB = 10.0, 1000
OPERATORS_A_STEP, NAMES, LIVE = 1000, 300, 900
COLUMNS = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)"


def _write(path, rows, operators):
    """A training of a thousand operators a step, each of which takes a block; `operators` names the next one."""
    with open(path, "w") as out:
        out.write(COLUMNS + "\n")
        written, number, live = 0, 0, []

        def row(event, kind, name, pointer, attributes, stack=""):
            nonlocal written
            out.write(f"{written},{event},{kind},{name},{1764753084000000000 + written * 1000},31,35,0,{pointer},"
                      f"{attributes},{stack},\n")
            written += 1

        while written < rows:
            name = operators(number)
            number += 1
            size, pointer = 512 * (1 + number % 7), f"0x{0x12c000000000 + number * 0x1000:016x}"
            row("OP_LAUNCH", "ATEN_START", name, "N/A", "")
            row("MALLOC", "PTA", "N/A", pointer, f'"{{allocation_id:{number},addr:{pointer},size:{size},owner:PTA@ops}}"',
                f'"model.py({number % 50}): forward\ntrain.py(3): step"')
            live.append((number, pointer, size))
            row("KERNEL_LAUNCH", "KERNEL_LAUNCH", f"kernel_of_{name}", "N/A", '"{streamId:3,taskId:9}"')
            row("OP_LAUNCH", "ATEN_END", name, "N/A", "")
            if len(live) > LIVE:
                block, pointer, size = live.pop(0)
                row("FREE", "PTA", "N/A", pointer, f'"{{allocation_id:{block},addr:{pointer},size:{size}}}"')


def _files(directory):
    chance = random.Random(1)
    step = [f"aten::op{chance.randrange(NAMES)}" for _ in range(OPERATORS_A_STEP)]

    def usual(number):
        return step[number % OPERATORS_A_STEP]

    def changed(number):
        return f"aten::other{chance.randrange(NAMES)}" if chance.random() < 0.1 else usual(number)

    files = {"base": usual, "changed": changed, "random": lambda _: f"aten::op{chance.randrange(NAMES)}"}
    for name, operators in files.items():
        _write(directory / f"{name}.csv", ROWS, operators)


def run(stage, repetitions, scratch):
    """Returns figures."""
    titles = {"changed": "compare of two csv of 1e6 rows, 10 % other names",
              "random": "compare of two csv of 1e6 rows, nothing in order"}
    directory = Path(tempfile.mkdtemp(dir=scratch))
    figures = []
    try:
        machine.say("compare: writing csv files of 1e6 rows")
        _files(directory)
        for other, title in titles.items():
            try:
                if stage.unavailable or not stage.command:
                    raise measure.RunFailed(stage.unavailable or f"no command in {stage.directory}/bin")
                command = [str(stage.command), "--compare", f"--input={directory}/base.csv,{directory}/{other}.csv",
                           "--level=op,kernel", f"--output={directory}/output"]
                runs = [measure.execute(command, timeout=600) for _ in range(repetitions)]
                failed = next((text for code, text, *_ in runs if code), None)
                if failed is not None:
                    raise measure.RunFailed(failed.strip().splitlines()[-1][:200])
                cpu, wall, rss = (sorted(run[place] for run in runs)[len(runs) // 2] for place in (2, 3, 4))
                figures.append(Figure(f"{title}: wall", wall, "s", TARGET_SECONDS, f"CPU {cpu:.1f} s"))
                figures.append(Figure(f"{title}: peak memory", rss / 1024, "MB", TARGET_MB, ""))
            except (measure.RunFailed, OSError, RuntimeError) as error:
                figures.append(Figure(title, None, "s", TARGET_SECONDS, str(error)))
        return figures
    finally:
        shutil.rmtree(directory, ignore_errors=True)
