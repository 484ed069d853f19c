"""As `msmemscope.mstx`."""

from msmemscope.mstx import mark, range_end, range_start

__all__ = ["mark", "range_end", "range_start"]
