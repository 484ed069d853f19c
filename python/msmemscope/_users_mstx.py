"""The program's own package `mstx`, with which scripts for NPUs name moments and ranges.

It looks for a tool when it is first used, once: what is used after `start()` finds the recorder by itself. One that has been used before
never will; its functions are then replaced by some that tell the recorder, too.
"""

import sys
from types import ModuleType
from typing import Any, Callable, Dict

from . import _native

_NAMES = ("mark", "range_start", "range_end")


def see() -> None:
    """From now on what the package is told is recorded, if the program has imported it."""
    module = sys.modules.get("mstx")
    if module is None or not all(callable(getattr(module, name, None)) for name in _NAMES):
        return
    try:
        is_seen = bool(module.range_start(_native.MSTX_PROBE, None))
    except Exception:  # whatever has this name and other functions
        return
    if not is_seen:
        _join(module)


def _join(module: ModuleType) -> None:
    originals: Dict[str, Callable[..., Any]] = {name: getattr(module, name) for name in _NAMES}

    def mark(message: str, stream: object = None) -> None:
        originals["mark"](message, stream)
        _native.mark(message)

    def range_start(message: str, stream: object = None) -> int:
        return int(originals["range_start"](message, stream)) or _native.range_start(message)

    def range_end(range_id: int) -> None:
        originals["range_end"](range_id)
        _native.range_end(range_id)

    for function in (mark, range_start, range_end):
        setattr(module, function.__name__, function)
