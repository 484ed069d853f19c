"""The old name of msmemscope: the same functions. What they write has the old names."""

from msmemscope import (
    MemScopeError,
    MemScopeWarning,
    RecordFunction,
    TakeSnapshot,
    __version__,
    config,
    start,
    step,
    stop,
    take_snapshot,
    wait,
)
from msmemscope._recording import use_brand as _use_brand

from . import describe, mstx

__all__ = [
    "MemScopeError",
    "MemScopeWarning",
    "RecordFunction",
    "TakeSnapshot",
    "__version__",
    "config",
    "describe",
    "mstx",
    "start",
    "step",
    "stop",
    "take_snapshot",
    "wait",
]

_use_brand("msleaks")
