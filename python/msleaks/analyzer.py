"""As `msmemscope.analyzer`."""

from msmemscope.analyzer import *
from msmemscope.analyzer import __all__ as __all__
