"""The old name of msmemscope: the same functions. What they write has the old names."""

from msmemscope import (
    MemScopeError,
    MemScopeWarning,
    __version__,
    cleanup_framework_hooks,
    config,
    init_framework_hooks,
    start,
    step,
    stop,
    wait,
)
from msmemscope._recording import use_brand as _use_brand

from . import mstx

__all__ = [
    "MemScopeError",
    "MemScopeWarning",
    "__version__",
    "cleanup_framework_hooks",
    "config",
    "init_framework_hooks",
    "mstx",
    "start",
    "step",
    "stop",
    "wait",
]

_use_brand("msleaks")
