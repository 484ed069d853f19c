"""As `msmemscope.describe`."""

from msmemscope.describe import describer

__all__ = ["describer"]
