"""What the user has to know, each thing once."""

import threading
import warnings
from typing import Set

from .. import _native
from .._recording import MemScopeWarning

_told: Set[str] = set()
_lock = threading.Lock()


def tell_once(text: str) -> None:
    """A warning; never an exception, even if warnings are errors: the program has not asked for this call."""
    with _lock:
        if text in _told:
            return
        _told.add(text)
    try:
        warnings.warn(_native.shown(text), MemScopeWarning, stacklevel=2)
    except Exception:
        pass


def failed(what: str, error: BaseException) -> None:
    """Our own code has failed; the program goes on."""
    tell_once(f"{what} failed and is left out: {type(error).__name__}: {error}")
