"""As `msmemscope.tracer`."""

from msmemscope.tracer import start, stop

__all__ = ["start", "stop"]
