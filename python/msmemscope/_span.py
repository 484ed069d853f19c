"""Pieces of code that something is said about: with `with`, or around every call of a function."""

import functools
import inspect
from typing import Any, AsyncGenerator, Awaitable, Callable, Generator, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: Longer ones are no names.
LONGEST_TEXT = 1024


def checked_text(argument: str, text: object) -> str:
    """The text, if it can be a name."""
    if not isinstance(text, str):
        raise TypeError(f"{argument} must be a str, not {type(text).__name__}")
    if not text or len(text) > LONGEST_TEXT or "\0" in text:
        shown = repr(text if len(text) <= 40 else text[:40] + "…")
        raise ValueError(f"bad value {shown} for {argument}; allowed: 1 to {LONGEST_TEXT} characters, none of them null")
    return text


class Span:
    """A context manager and a decorator. It holds nothing of a single use: one may be used any number of times, by any number of
    threads, within itself, and may be closed through another of the same name.

    Around a generator, a coroutine or an asynchronous generator it is open only while that one runs, not while it waits: what
    others do meanwhile on the same thread is not within it.
    """

    __slots__ = ()

    def _open(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "Span":
        self._open()
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def __call__(self, function: _Function) -> _Function:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"{type(self).__name__} decorates functions, not {function!r}")
        if inspect.isasyncgenfunction(function):
            wrapped = self._around_async_generator(function)
        elif inspect.iscoroutinefunction(function):
            wrapped = self._around_coroutine(function)
        elif inspect.isgeneratorfunction(function):
            wrapped = self._around_generator(function)
        else:
            wrapped = self._around_function(function)
        return functools.wraps(function)(wrapped)  # type: ignore[return-value]

    def _around_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        opened, closed = self._open, self._close

        def call(*arguments: Any, **keywords: Any) -> Any:
            opened()
            try:
                return function(*arguments, **keywords)
            finally:
                closed()

        return call

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def generate(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
            return (yield from self._resumed(function(*arguments, **keywords)))

        return generate

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*arguments: Any, **keywords: Any) -> Any:
            return await _Awaited(self, function(*arguments, **keywords))

        return run

    def _around_async_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def generate(*arguments: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
            generator = function(*arguments, **keywords)
            step = generator.__anext__()
            while True:
                try:
                    item = await _Awaited(self, step)
                except StopAsyncIteration:
                    return
                try:
                    step = generator.asend((yield item))
                except GeneratorExit:
                    await _Awaited(self, generator.aclose())
                    raise
                except BaseException as error:
                    step = generator.athrow(error)

        return generate

    def _resumed(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same generator, within this whenever it runs."""
        resume, given = generator.send, None  # type: Callable[[Any], Any], Any
        while True:
            self._open()
            try:
                item = resume(given)
            except StopIteration as end:
                return end.value
            finally:
                self._close()
            try:
                resume, given = generator.send, (yield item)
            except GeneratorExit:
                self._open()
                try:
                    generator.close()
                finally:
                    self._close()
                raise
            except BaseException as error:
                resume, given = generator.throw, error


class _Awaited:
    """What is awaited, within a span whenever it runs."""

    __slots__ = ("_awaitable", "_span")

    def __init__(self, span: Span, awaitable: Awaitable[Any]) -> None:
        self._span, self._awaitable = span, awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        # pylint: disable=protected-access
        return self._span._resumed(self._awaitable.__await__())
