"""Recordings opened, and made to be opened. What does the work is imported when it is needed."""

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Optional, Type, Union

from . import _native, _recording
from ._native import MemScopeError

if TYPE_CHECKING:
    from .run import Run


def open(path: "Union[str, os.PathLike[str]]", pid: Optional[int] = None) -> "Run":
    """Opens a recording: an output directory, the directory of a process, a csv or a db file, of this tool or of the existing one.

    `pid` chooses one process. A recording that is still being made can be read, too: each reading sees what is there by then.
    Raises `MemScopeError` if there is nothing to read.
    """
    from .run import Run

    recording = _native.Recording(os.fspath(path))
    for why in recording.unreadable:
        _recording._warn([why])
    run = Run(lambda: recording)
    return run if pid is None else run.process(pid)


class record:
    """Records what happens in a `with` block, and gives it as a `Run` afterwards.

        with msmemscope.record(device="cpu", call_stack="python:10", output="results") as run:
            train()
        print(run.leaks())

    The keywords are those of `config()`; without any, an earlier `config()` stands. Of a program that records several times, the
    run is that of this block alone. Exceptions of the block pass through, and the run can be read all the same.
    """

    _lock = threading.Lock()

    def __init__(self, **settings: "Union[str, os.PathLike[str]]") -> None:
        self._settings: Dict[str, Any] = settings
        self._span = 0
        self._opened: Optional[_native.Recording] = None
        self._is_over = False

    def __enter__(self) -> "Run":
        from .run import Run

        if _recording.is_open():
            raise MemScopeError("a span has begun already and cannot be within another; end it first, with stop()")
        if not self._lock.acquire(blocking=False):
            raise MemScopeError("record() is at work already, here or in another thread; spans cannot be nested")
        try:
            if self._settings:
                _recording.config(**self._settings)
            self._opened, self._is_over = None, False
            _recording.start()
            self._span = _native.spans()
        except BaseException:
            self._lock.release()
            raise
        return Run(self._recording)

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        try:
            _recording.stop()
        finally:
            self._is_over = True
            self._lock.release()

    def _recording(self) -> _native.Recording:
        if self._opened is None:
            if not self._is_over:
                raise MemScopeError("the span has not ended; it can be read after the with block")
            directory = _native.own_directory()
            if directory is None:
                raise MemScopeError(
                    "the recording of this process is not found where it was to be written; when the program has ended, read "
                    "it with msmemscope.open(DIR)"
                )
            self._opened = _native.Recording(directory, None, self._span)
        return self._opened
