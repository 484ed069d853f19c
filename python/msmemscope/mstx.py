"""Names for moments and ranges of the program, shown among the events of the recording.

A range whose name is `step start` is a step of the training.
"""

from . import _native

__all__ = ["mark", "range_end", "range_start"]


def mark(message: str, stream: object = None) -> None:
    """Names this moment. `stream` is accepted for the sake of programs that pass one."""
    _native.mark(message)


def range_start(message: str, stream: object = None) -> int:
    """Begins a range of this name; gives its number, 0 where nothing is recorded."""
    return _native.range_start(message)


def range_end(range_id: int) -> None:
    """Ends the range of this number, which `range_start` gave."""
    try:
        _native.range_end(range_id)
    except TypeError:
        raise TypeError(f"range_id must be an int, not {type(range_id).__name__}") from None
    except OverflowError:
        raise ValueError(f"bad value {range_id} for range_id; allowed: what range_start() gave") from None
