"""What the Python package costs before anything is recorded: its import, and start(), which brings the recorder into a program
that runs."""
import json
import sys
from pathlib import Path

import machine
import measure
import tools
from figures import Figure

IMPORT_TARGET_MS = 30
STARTED_TARGET_MS = 150
RUNS = 5
PROGRAM = """
import json, sys, time
def took(work):
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)
def load():
    global msmemscope
    import msmemscope
figures = {"import": took(load)}
if sys.argv[2]:
    __import__(sys.argv[2])
msmemscope.config(device="cpu,npu", analysis="none", data_format="none", output=sys.argv[1])
figures["start"] = took(msmemscope.start)
def spans():
    for _ in range(1000):
        msmemscope.stop()
        msmemscope.start()
figures["span"] = took(spans)
print(json.dumps(figures))
"""


def _installed(scratch):
    """The package of dist/, and why not."""
    wheels = sorted((machine.REPOSITORY / "dist").glob("msmemscope-*.whl"))
    if len(wheels) != 1:
        return None, "no wheel in dist; make wheel"
    target = Path(scratch) / "package"
    code, text, *_ = measure.execute([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                                      str(target), str(wheels[0])], timeout=600)
    return (target, None) if code == 0 else (None, text.strip().splitlines()[-1])


def _least(python, package, framework, repetitions, scratch):
    """The least of each figure: whatever else the machine does only adds to it."""
    runs = []
    for number in range(repetitions * RUNS):
        output = str(Path(scratch) / f"package-{framework}{number}")
        code, text, *_ = measure.execute([python, "-c", PROGRAM, output, framework], timeout=600,
                                         environment={"PYTHONPATH": str(package)})
        if code != 0:
            raise measure.RunFailed(f"exit code {code}: {(text.strip().splitlines() or ['no output'])[-1][:200]}")
        runs.append(json.loads(next(line for line in text.splitlines() if line.startswith("{"))))
    return {key: min(run[key] for run in runs) for key in runs[0]}


def run(repetitions, scratch, missing):
    machine.say("the Python package: import, start, spans")
    package, why = _installed(scratch)
    if why:
        return [Figure("import msmemscope", None, "ms", IMPORT_TARGET_MS, f"not available: {why}")]
    bare = _least(tools.interpreter(), package, "", repetitions, scratch)
    figures = [Figure("import msmemscope", bare["import"], "ms", IMPORT_TARGET_MS),
               Figure("first start() in a bare interpreter, keeper included", bare["start"], "ms", STARTED_TARGET_MS),
               Figure("stop() and start() of one more span", bare["span"], "us", None)]
    if missing.get("torch"):
        why = f"not available: {missing['torch']}"
        return [*figures, Figure("first start() after import torch", None, "ms", STARTED_TARGET_MS, why)]
    torch = _least(tools.interpreter(), package, "torch", 1, scratch)
    return [*figures, Figure("first start() after import torch", torch["start"], "ms", STARTED_TARGET_MS,
                             "each reference of its libraries is looked at")]
