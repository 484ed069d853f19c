"""The old name of msmemscope: the same functions. What they write has the old names."""

from msmemscope import MemScopeError, MemScopeWarning, __version__, config, start, step, stop, wait, watcher
from msmemscope._recording import use_brand as _use_brand

from . import mstx

__all__ = ["MemScopeError", "MemScopeWarning", "__version__", "config", "mstx", "start", "step", "stop", "wait", "watcher"]

_use_brand("msleaks")
