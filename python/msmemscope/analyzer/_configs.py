"""What analyzers are told, checked when it is said."""

import os
import stat
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Union

from .. import _native

#: As long as a path may be.
_LONGEST_PATH = 4096
_TYPES = ("early_allocation", "late_deallocation", "temporary_idleness")
_PATHS = "a csv or db file, or the directory of a recording"


@dataclass(frozen=True)
class AnalyzerConfig:
    """What every analyzer needs: where to read. A csv or db file, or the directory of a recording.

    Raises `TypeError`, `ValueError`, `FileNotFoundError` or `PermissionError`, with the argument, its value and what is allowed.
    """

    input_path: "Union[str, os.PathLike[str]]"

    def __post_init__(self) -> None:
        path = _path(self.input_path)
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            raise FileNotFoundError(f"input_path: there is no {path!r}; allowed: {_PATHS}") from None
        except PermissionError:
            raise PermissionError(f"input_path: {path!r} cannot be reached; allowed: {_PATHS} that can be read") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"bad value {path!r} for input_path: {error}; allowed: {_PATHS}") from None
        if stat.S_ISDIR(mode):
            readable = os.R_OK | os.X_OK
        elif not stat.S_ISREG(mode):
            raise FileNotFoundError(f"input_path: {path!r} is not a regular file; allowed: {_PATHS}")
        elif os.path.splitext(path)[1].lower() not in (".csv", ".db"):
            raise ValueError(f"bad value {path!r} for input_path: its name ends with neither .csv nor .db; allowed: {_PATHS}")
        else:
            readable = os.R_OK
        if not os.access(path, readable):
            raise PermissionError(f"input_path: {path!r} cannot be read; allowed: {_PATHS} that can be read")

    def wishes(self) -> _native.AnalysisWishes:
        """The same for the analysis itself."""
        return _native.AnalysisWishes()


@dataclass(frozen=True)
class LeaksConfig(AnalyzerConfig):
    """With `mstx_info` leaks between three marks of this text, A, B and C: what was allocated from A to B is to be freed by C.
    `start_index` is the number of A among the marks of the text, from 0. Without it, of the whole run."""

    mstx_info: Optional[str] = None
    start_index: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mstx_info is not None:
            _of_type("mstx_info", self.mstx_info, str, "a str")
            if not self.mstx_info.strip():
                raise ValueError(f"bad value {self.mstx_info!r} for mstx_info; allowed: the text of marks, which is not blank")
        _number("start_index", self.start_index, 0)

    def wishes(self) -> _native.AnalysisWishes:
        return _native.AnalysisWishes(mstx_info=self.mstx_info, start_index=self.start_index)


@dataclass(frozen=True)
class FluctuationConfig(AnalyzerConfig):
    """How memory goes up and down within steps, and what held it at the peak."""


@dataclass(frozen=True)
class DecomposeConfig(AnalyzerConfig):
    """`at` is a moment: `"peak"`, `"end"`, `"main"`, `"step:3"`, or seconds since the recording began."""

    at: Union[str, int, float] = "peak"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.at, bool) or not isinstance(self.at, (str, int, float)):
            raise TypeError(f"at must be a str or a number, not {type(self.at).__name__}")
        self.wishes()

    def wishes(self) -> _native.AnalysisWishes:
        return _native.AnalysisWishes(at=self.at if isinstance(self.at, str) else f"{self.at:f}")


@dataclass(frozen=True)
class InefficientConfig(AnalyzerConfig):
    """Blocks of at least `mem_size` bytes; `inefficient_type` is one or several of `early_allocation`, `late_deallocation` and
    `temporary_idleness`, `None` all of them; `idle_threshold` is how many operators between two accesses are not too many."""

    mem_size: int = 0
    inefficient_type: Union[None, str, Sequence[str]] = None
    idle_threshold: int = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not os.path.isdir(self.input_path) and not os.access(self.input_path, os.W_OK):
            path = os.fspath(self.input_path)
            raise PermissionError(f"input_path: {path!r} cannot be written, and what is found is added to it")
        _number("mem_size", self.mem_size, 0)
        _number("idle_threshold", self.idle_threshold, 1)
        self._types()

    def _types(self) -> Optional[List[str]]:
        given = self.inefficient_type
        if given is None:
            return None
        types = [given] if isinstance(given, str) else given
        if not isinstance(types, (list, tuple)):
            raise TypeError(f"inefficient_type must be a str or a list of them, not {type(given).__name__}")
        for one in types:
            _of_type("inefficient_type", one, str, "a str or a list of them")
            if one not in _TYPES:
                raise ValueError(f"bad value {one!r} for inefficient_type; allowed: {', '.join(_TYPES)}")
        if not types:
            raise ValueError(f"bad value {given!r} for inefficient_type; allowed: {', '.join(_TYPES)}")
        return list(types)

    def wishes(self) -> _native.AnalysisWishes:
        types = self._types()
        return _native.AnalysisWishes(
            mem_size=self.mem_size,
            inefficient_type=None if types is None else ",".join(types),
            idle_threshold=self.idle_threshold,
        )


@dataclass(frozen=True)
class OomConfig(AnalyzerConfig):
    """`listed` blocks and call sites are told, from 1 to 1000; `None` is the command's number."""

    listed: Optional[int] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.listed is not None:
            _number("listed", self.listed, 1, 1000)

    def wishes(self) -> _native.AnalysisWishes:
        return _native.AnalysisWishes(listed=self.listed)


def _path(value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"input_path must be a str or a path, not {type(value).__name__}")
    path = os.fsdecode(value)
    if not 0 < len(os.fsencode(path)) <= _LONGEST_PATH:
        raise ValueError(f"bad value {path[:40]!r} for input_path; allowed: {_PATHS}, of 1 to {_LONGEST_PATH} bytes")
    return path


def _of_type(key: str, value: Any, kind: type, allowed: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{key} must be {allowed}, not {type(value).__name__}")


def _number(key: str, value: Any, least: int, most: int = (1 << 63) - 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"bad value {value!r} for {key}; allowed: integers from {least} to {most}")
