"""Records every allocation of this process, of the host and of NPUs, and says what leaks, grows and holds memory.

    import msmemscope

    msmemscope.config(device="npu,cpu", call_stack="c:10,python:10", output="results")
    msmemscope.start()
    train()
    msmemscope.stop()

    run = msmemscope.open("results")
    print(run.leaks())

Nothing has to be set up: `start()` brings the recorder into the running process, and a process beside this one writes the
files, also if this one is killed. Under the command (`msmemscope python train.py`) the same calls choose what the command
traces. Recordings and dump files are read and analyzed on any machine.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from . import describe, mstx, tracer
from ._function import RecordFunction
from ._native import MemScopeError, __version__
from ._reading import open, record
from ._recording import MemScopeWarning, config, start, step, stop, wait
from ._snapshot import TakeSnapshot, take_snapshot
from .frameworks import cleanup_framework_hooks, init_framework_hooks

if TYPE_CHECKING:
    from . import analyzer, reports, run, watcher
    from .analyzer import analyze, check_inefficient, check_leaks, get_analyzer_config, list_analyzers
    from .run import Run

__all__ = [
    "MemScopeError",
    "MemScopeWarning",
    "RecordFunction",
    "Run",
    "TakeSnapshot",
    "__version__",
    "analyze",
    "analyzer",
    "check_inefficient",
    "check_leaks",
    "cleanup_framework_hooks",
    "config",
    "describe",
    "get_analyzer_config",
    "init_framework_hooks",
    "list_analyzers",
    "mstx",
    "open",
    "record",
    "reports",
    "run",
    "start",
    "step",
    "stop",
    "take_snapshot",
    "tracer",
    "wait",
    "watcher",
]

#: What a program that only records never needs, and where it is.
_LATER = {
    "Run": "run",
    "analyze": "analyzer",
    "analyzer": "analyzer",
    "check_inefficient": "analyzer",
    "check_leaks": "analyzer",
    "get_analyzer_config": "analyzer",
    "list_analyzers": "analyzer",
    "reports": "reports",
    "run": "run",
    "watcher": "watcher",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = _import_module(f".{_LATER[name]}", __name__)
        value = module if name == _LATER[name] else getattr(module, name)
        globals()[name] = value
        return value
