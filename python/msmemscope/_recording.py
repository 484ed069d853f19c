"""The recording of this process: what it is to be, and its spans."""

import os
import sys
import threading
import warnings
from typing import Dict, List, Optional

from . import _native
from ._native import MemScopeError, Settings

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

#: Keywords that have two names, and the one that the grammar knows.
_SAME = {"output_path": "output", "format": "data_format"}


class MemScopeWarning(UserWarning):
    """Something will be missing from the recording, or has no effect; the message says what."""


class _Recording:
    """What is known before the recorder is in the process, and which recording has begun."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.brand = "msmemscope"
        self.words: Dict[str, str] = {}
        self.settings: Optional[Settings] = None
        #: What the recording that has begun was configured with.
        self.begun_with: Optional[Dict[str, str]] = None

    def settle(self) -> Settings:
        """The settings; those of no `config()` at all if there was none."""
        if self.settings is None:
            self.settings = Settings(self.brand, list(self.words.items()))
        return self.settings


_recording = _Recording()
os.register_at_fork(after_in_child=lambda: setattr(_recording, "lock", threading.Lock()))


def use_brand(name: str) -> None:
    """From now on output has the names of that brand, unless a recording has begun."""
    with _recording.lock:
        if _recording.begun_with is None and _recording.settings is None:
            _recording.brand = name


def config(
    *,
    device: Optional[str] = None,
    level: Optional[str] = None,
    events: Optional[str] = None,
    call_stack: Optional[str] = None,
    analysis: Optional[str] = None,
    watch: Optional[str] = None,
    output: Optional[str] = None,
    output_path: Optional[str] = None,
    data_format: Optional[str] = None,
    format: Optional[str] = None,
) -> None:
    """Says what the next `start()` records, and where files go.

    The keywords have the values of the command line's options: `device` (`"npu"`, `"npu:0,npu:1"`, `"cpu"`), `level` (`"op"`,
    `"kernel"`), `events` (`"alloc,free,launch,access"`, `"traceback"`), `call_stack` (`"c:20,python:10"`), `analysis` (`"leaks"`), `watch`,
    `output` or `output_path` (a directory), `data_format` or `format` (`"csv"`, `"db"`). What is not given has its default;
    an empty text switches an item off. Every call begins from the defaults.

    Raises `ValueError` for a value that is not allowed, `TypeError` for one that is no text, and `MemScopeError` if the
    recording has begun already and something else is asked for.
    """
    given = {
        "device": device,
        "level": level,
        "events": events,
        "call_stack": call_stack,
        "analysis": analysis,
        "watch": watch,
        "output": output,
        "output_path": output_path,
        "data_format": data_format,
        "format": format,
    }
    words = _checked(given)
    with _recording.lock:
        settings = Settings(_recording.brand, list(words.items()))
        if _recording.begun_with is not None:
            if words != _recording.begun_with:
                raise MemScopeError(
                    "the recording has begun, and its settings stand; call config() before the first start()"
                )
            return
        _recording.words, _recording.settings = words, settings
    _warn(settings.notes)


def _checked(given: Dict[str, Optional[str]]) -> Dict[str, str]:
    """The keywords that were given, each under one name."""
    words: Dict[str, str] = {}
    for key, value in given.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise TypeError(f"{key} must be a str, not {type(value).__name__}")
        name = _SAME.get(key, key)
        if name in words:
            raise ValueError(f"{name} and {key} are the same; give one of them")
        words[name] = value
    return words


def start() -> None:
    """Begins a span: from here on everything that was configured is traced.

    The first call brings the recorder into the process. What was allocated before is not known; what is freed of it later is
    counted. Under the command only the span begins, and the command's options stand.
    """
    with _recording.lock:
        if _recording.begun_with is None and os.environ.get("MSMEMSCOPE_RECORD") and _recording.words:
            notes = ["the command's options stand; what config() says has no effect under the command"]
        else:
            notes = []
        settings = _recording.settle()
        if _recording.begun_with is None and settings.npu:
            notes += _missed_pools()
        notes += _native.start(settings, _PACKAGE)
        _recording.begun_with = _recording.words
    _warn(notes)


def begin_calls() -> None:
    """Begins the trace of calls, and the recording if there is none yet."""
    with _recording.lock:
        notes = _native.calls_begin(_recording.settle(), _PACKAGE)
        if _recording.begun_with is None:
            _recording.begun_with = _recording.words
    _warn(notes, 4)


def end_calls() -> None:
    """Ends the trace of calls."""
    _warn(_native.calls_end(), 4)


def stop() -> None:
    """Ends the span. Its files are written in the background; `wait()` waits for them.

    What is allocated from here on is not traced; what was allocated before is still followed to its end, so that it is no
    leak if it is freed later.
    """
    _native.stop()


def step() -> None:
    """A step of the training ends here, and the next one begins."""
    _native.step()


def wait() -> None:
    """Waits until the files of all spans that have ended are written."""
    _native.wait()


def _missed_pools() -> List[str]:
    """torch_npu decides at its first allocation whether it reports its pool."""
    torch = sys.modules.get("torch")
    if torch is None or "torch_npu" not in sys.modules:
        return []
    try:
        reserved = torch.npu.memory_reserved()
    except Exception:  # whatever a half-initialised device raises: then nothing was allocated
        return []
    if not reserved:
        return []
    return [
        "torch_npu has allocated memory before start(), and does not report its pool from then on: only the driver's memory "
        "is recorded; call msmemscope.start() before the first tensor on the NPU"
    ]


def _warn(notes: List[str], level: int = 3) -> None:
    for note in notes:
        warnings.warn(note, MemScopeWarning, stacklevel=level)
