"""What all reports have in common: a document of the command's, read as types."""

import copy
import dataclasses
import functools
import html
import typing
from typing import Any, Dict, List, Tuple, Type, TypeVar, Union

_T = TypeVar("_T")


@functools.lru_cache(maxsize=None)
def _hints(kind: Any) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(kind: Any, value: Any) -> Any:
    """A part of a document as the type that it is."""
    origin = typing.get_origin(kind)
    if origin is Union:
        return None if value is None else _typed(typing.get_args(kind)[0], value)
    if origin is tuple:
        return tuple(_typed(typing.get_args(kind)[0], item) for item in value or ())
    if dataclasses.is_dataclass(kind):
        hints: Dict[str, Any] = _hints(typing.cast(Any, kind))
        # A field that Python has another use for ends with an underscore.
        return kind(**{name: _typed(hint, value.get(name.rstrip("_"))) for name, hint in hints.items()})  # type: ignore[operator]
    return value


def read(kind: Type[_T], value: Dict[str, Any], **more: Any) -> _T:
    return typing.cast(_T, _typed(kind, {**value, **more}))


class Report:
    """What came of an analysis, of every process that was read."""

    def __init__(self, document: Dict[str, Any], text: str) -> None:
        self._document = document
        self._text = text

    @property
    def text(self) -> str:
        """What the command prints."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """The document of `msmemscope analyze --json`, or of `--compare --json`."""
        return copy.deepcopy(self._document)

    @property
    def lacking(self) -> Dict[int, str]:
        """By process: what it would need for this analysis and does not have."""
        return {
            process["pid"]: why
            for process in self._document.get("processes", [])
            for why in process.get("lacking", {}).values()
        }

    def _of_processes(self, word: str) -> List[Tuple[int, Dict[str, Any]]]:
        """The part of each process that has one."""
        return [(process["pid"], process[word]) for process in self._document["processes"] if word in process]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and type(self) is type(other) and self._document == other._document

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        lines = self._text.splitlines()
        return f"<{type(self).__name__}: {lines[0] if lines else 'nothing'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"
