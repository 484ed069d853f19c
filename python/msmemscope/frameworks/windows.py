"""Windows of labels that one function opens and another closes.

A window belongs to the thread that opened it: what this thread allocates until it is closed has its labels. It may be closed by any
thread (autograd runs its last callbacks wherever the last node ran): then the thread it belongs to ends the labels before it does
anything else with windows. In between it does not allocate what matters, as its next work begins with a hook of ours.
"""

import os
import threading
from collections import deque
from typing import Deque, Dict, Hashable, List, Optional

from . import labels
from .labels import Labels


class _Thread:
    """The windows of one thread."""

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        #: Keys in the order in which they were opened.
        self.open: Dict[Hashable, Labels] = {}
        #: Closed by other threads.
        self.to_end: Deque[Labels] = deque()


_local = threading.local()
_lock = threading.Lock()
#: Whose the open windows are.
_owners: Dict[Hashable, _Thread] = {}


def _this_thread() -> _Thread:
    thread: Optional[_Thread] = getattr(_local, "thread", None)
    if thread is None:
        thread = _local.thread = _Thread()
    while thread.to_end:
        labels.end(thread.to_end.popleft())
    return thread


def open_window(key: Hashable, wanted: Labels) -> None:
    """Opens a window, unless there is one of this key."""
    thread = _this_thread()
    with _lock:
        if key in _owners:
            return
        _owners[key] = thread
        thread.open[key] = wanted
    labels.begin(wanted)


def close_window(key: Hashable) -> None:
    """Closes the window of this key, if there is one, whichever thread opened it."""
    thread = _this_thread()
    with _lock:
        owner = _owners.pop(key, None)
        if owner is None:
            return
        wanted = owner.open.pop(key)
        if owner is not thread:
            owner.to_end.append(wanted)
            return
    labels.end(wanted)


def open_keys() -> List[Hashable]:
    """Of all threads."""
    with _lock:
        return list(_owners)


def _in_child() -> None:
    """The forking thread goes on with the windows it had; other threads, and their windows, are gone."""
    global _lock
    _lock = threading.Lock()
    here = getattr(_local, "thread", None)
    for key in [key for key, thread in _owners.items() if thread is not here]:
        del _owners[key]


os.register_at_fork(after_in_child=_in_child)
