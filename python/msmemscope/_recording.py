"""The recording of this process: what it is to be, and its spans."""

import atexit
import os
import sys
import threading
import warnings
from types import ModuleType
from typing import Callable, Dict, List, Optional, Union

from . import _native, _users_mstx
from ._native import MemScopeError, Settings
from .describe import tell_open_labels

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

#: Keywords that have two names, and the one that the grammar knows.
_SAME = {"output_path": "output", "format": "data_format"}
_Path = Union[None, str, "os.PathLike[str]"]


class MemScopeWarning(UserWarning):
    """Something will be missing from the recording, or has no effect; the message says what."""


class _Recording:
    """What is known before the recorder is in the process, and which recording has begun."""

    def __init__(self) -> None:
        # A signal's handler may begin or end a span while this thread is about to.
        self.lock = threading.RLock()
        self.brand = "msmemscope"
        self.words: Dict[str, str] = {}
        self.settings: Optional[Settings] = None
        #: What the recording that has begun was configured with.
        self.begun_with: Optional[Dict[str, str]] = None
        #: It has no span yet, only snapshots.
        self.is_only_prepared = False
        #: Between `start()` and `stop()`.
        self.is_open = False
        #: Whether frameworks that allocate from now on find the recorder.
        self.is_announced = False

    def settle(self) -> Settings:
        """The settings; those of no `config()` at all if there was none."""
        if self.settings is None:
            self.settings = Settings(self.brand, list(self.words.items()))
        return self.settings

    def announce(self, settings: Settings) -> List[str]:
        """Frameworks decide when they first use an NPU whether they report their pools: those that come now do.

        Gives what is to be said of those that have decided.
        """
        if self.is_announced or not settings.npu:
            return []
        self.is_announced = True
        # Preloaded, the library was there before any of them.
        return _missed_pools() if _native.announce(_PACKAGE) else []


_recording = _Recording()


def _spare_threads() -> None:
    """Threads that are at work when CPython 3.10 is torn down use what it has freed, and crash if the process lives on.

    Without us it ends at once; so it does with us then, and does not wait for the files.
    """
    if len(sys._current_frames()) > 1:
        _native.hurry()


if sys.version_info[:2] == (3, 10):
    atexit.register(_spare_threads)
os.register_at_fork(after_in_child=lambda: setattr(_recording, "lock", threading.RLock()))


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
    watch_max_bytes: Optional[str] = None,
    output: _Path = None,
    output_path: _Path = None,
    data_format: Optional[str] = None,
    format: Optional[str] = None,
) -> None:
    """Says what the next `start()` records, and where files go.

    The keywords have the values of the command line's options: `device` (`"npu"`, `"npu:0,npu:1"`, `"cpu"`), `level` (`"op"`,
    `"kernel"`), `events` (`"alloc,free,launch,access"`, `"traceback"`), `call_stack` (`"c:20,python:10"`), `analysis` (`"leaks"`), `watch`,
    `watch_max_bytes` (`"500M"`), `output` or `output_path` (a directory), `data_format` or `format` (`"csv"`, `"db"`). What is not given has its default;
    an empty text switches an item off. Every call begins from the defaults.

    Raises `ValueError` for a value that is not allowed, `TypeError` for one that is no text, and `MemScopeError` if the
    recording has begun already and something else is asked for.
    """
    given: Dict[str, _Path] = {
        "device": device,
        "level": level,
        "events": events,
        "call_stack": call_stack,
        "analysis": analysis,
        "watch": watch,
        "watch_max_bytes": watch_max_bytes,
        "output": output,
        "output_path": output_path,
        "data_format": data_format,
        "format": format,
    }
    words = _checked(given)
    with _recording.lock:
        settings = Settings(_recording.brand, list(words.items()))
        if _recording.begun_with is not None:
            if words != _recording.begun_with and _recording.is_only_prepared:
                _warn(["the recording has begun with take_snapshot(), and its settings stand; call config() before it"])
            elif words != _recording.begun_with:
                raise MemScopeError(
                    "the recording has begun, and its settings stand; call config() before the first start()"
                )
            return
        _recording.words, _recording.settings = words, settings
        notes = _recording.announce(settings)
    _warn(notes)


def _checked(given: Dict[str, _Path]) -> Dict[str, str]:
    """The keywords that were given, each under one name."""
    words: Dict[str, str] = {}
    for key, value in given.items():
        if value is None:
            continue
        name = _SAME.get(key, key)
        if name == "output" and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str):
            raise TypeError(f"{key} must be a str, not {type(value).__name__}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"bad value {value!r} for {key}; allowed: text that can be written as UTF-8") from None
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
        notes += _recording.announce(settings)
        is_new = not _native.is_recording()
        notes += _native.start(settings, _PACKAGE)
        _recording.begun_with = _recording.words
        decompose = settings.decompose
        _recording.is_open, _recording.is_only_prepared = True, False
    if is_new:
        tell_open_labels()
        _users_mstx.see()
    _warn(notes)
    if decompose:
        from .frameworks import registry

        registry.begin()


def prepare(level: int = 3) -> None:
    """Brings the recorder into the process, if it is not there yet, and begins no span."""
    with _recording.lock:
        if _recording.begun_with is not None:
            return
        settings = _recording.settle()
        notes = _recording.announce(settings) + _native.prepare(settings, _PACKAGE)
        _recording.begun_with = _recording.words
        _recording.is_only_prepared = True
    tell_open_labels()
    _warn(notes, level)


def begin_calls() -> None:
    """Begins the trace of calls, and the recording if there is none yet."""
    prepare(5)
    _warn(_native.calls_begin(), 4)


def end_calls() -> None:
    """Ends the trace of calls."""
    _warn(_native.calls_end(), 4)


def stop() -> None:
    """Ends the span. Its files are written in the background; `wait()` waits for them.

    What is allocated from here on is not traced; what was allocated before is still followed to its end, so that it is no
    leak if it is freed later.
    """
    registry = sys.modules.get(f"{__package__}.frameworks.registry")
    if registry is not None:
        registry.end()
    _native.stop()
    _recording.is_open = False


def is_open() -> bool:
    """Whether `start()` has begun a span that has not ended."""
    return _recording.is_open


def step() -> None:
    """A step of the training ends here, and the next one begins."""
    _native.step()


def wait() -> None:
    """Waits until the files of all spans that have ended are written.

    Raises `MemScopeError`, which says how to get them, if they cannot be written or the process that writes them is gone.
    """
    _native.wait()


def _missed_pools() -> List[str]:
    """What is to be said of frameworks that have used an NPU already, and so never will report their pools."""
    return [
        f"{name} has used an NPU before config() or start(), and does not report its pool from then on: only the driver's "
        "memory is recorded; call msmemscope.config() or msmemscope.start() before the first tensor on the NPU"
        for name in _HAS_DECIDED
        if _has_decided(name)
    ]


def _has_decided(name: str) -> bool:
    framework = sys.modules.get(name)
    try:
        return framework is not None and _HAS_DECIDED[name](framework)
    except Exception:  # whatever one raises that is half imported or has no device: then nothing was used
        return False


def _torch_npu_has_decided(_: ModuleType) -> bool:
    """It does so when it first allocates."""
    npu = sys.modules["torch"].npu
    devices = range(npu.device_count()) if npu.is_initialized() else ()
    # Of all that ever were, not only of those that are there now.
    return any(npu.memory_stats(device).get("segment.all.allocated", 0) for device in devices)


def _mindspore_has_decided(mindspore: ModuleType) -> bool:
    """It does so when it makes its pool, which is when the device is initialised; to ask for its statistics makes it, too."""
    return bool(mindspore.hal.is_initialized("Ascend"))


#: Of each framework, whether it has decided not to report its pool.
_HAS_DECIDED: Dict[str, Callable[[ModuleType], bool]] = {
    "mindspore": _mindspore_has_decided,
    "torch_npu": _torch_npu_has_decided,
}


def _warn(notes: List[str], level: int = 3) -> None:
    for note in notes:
        warnings.warn(_native.shown(note), MemScopeWarning, stacklevel=level)
