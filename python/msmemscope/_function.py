"""Pieces of code that are to be seen among the functions of the Python trace."""

from . import _native
from ._span import Span, checked_text


class RecordFunction(Span):
    """A piece of code under a name of its own, among the functions of the Python trace: a context manager and a decorator.

    with msmemscope.RecordFunction("forward_pass"):
        output = model(data)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = checked_text("name", name)

    def _open(self) -> None:
        _native.function_start(self.name)

    def _close(self) -> None:
        _native.function_end(self.name)

    def __repr__(self) -> str:
        return f"RecordFunction({self.name!r})"
