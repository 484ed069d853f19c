"""The old name of msmemscope: the same functions. What they write has the old names."""

from typing import TYPE_CHECKING

import msmemscope as _msmemscope
from msmemscope import (
    MemScopeError,
    MemScopeWarning,
    RecordFunction,
    TakeSnapshot,
    __version__,
    cleanup_framework_hooks,
    config,
    init_framework_hooks,
    open,
    record,
    start,
    step,
    stop,
    take_snapshot,
    wait,
)
from msmemscope._recording import use_brand as _use_brand

from . import describe, mstx, tracer

if TYPE_CHECKING:
    from msmemscope import (
        Run,
        analyze,
        analyzer,
        check_inefficient,
        check_leaks,
        get_analyzer_config,
        list_analyzers,
        reports,
        run,
        watcher,
    )

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

_use_brand("msleaks")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(_msmemscope, name)
