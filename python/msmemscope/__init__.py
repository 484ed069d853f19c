"""Records every allocation of this process, of the host and of NPUs, and says what leaks, grows and holds memory.

    import msmemscope

    msmemscope.config(device="npu,cpu", call_stack="c:10,python:10", output="results")
    msmemscope.start()
    train()
    msmemscope.stop()

Nothing has to be set up: `start()` brings the recorder into the running process, and a process beside this one writes the
files, also if this one is killed. Under the command (`msmemscope python train.py`) the same calls choose what the command
traces.
"""

from . import mstx, watcher
from ._native import MemScopeError, __version__
from ._recording import MemScopeWarning, config, start, step, stop, wait

__all__ = ["MemScopeError", "MemScopeWarning", "__version__", "config", "mstx", "start", "step", "stop", "wait", "watcher"]
