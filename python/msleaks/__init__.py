"""The old name of msmemscope: the same functions. What they write has the old names."""

from typing import TYPE_CHECKING

import msmemscope as _msmemscope
from msmemscope import __all__ as __all__
from msmemscope._recording import use_brand as _use_brand

if TYPE_CHECKING:
    from msmemscope import *
else:
    from . import describe, mstx, tracer

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(_msmemscope, name)

    def __dir__() -> "list[str]":
        return sorted(__all__)


_use_brand("msleaks")
