"""What a table of a framework can say of one function of it."""

from typing import Any, Callable, Dict, Hashable, Iterable, NamedTuple, Optional, Protocol, Tuple

from . import labels, windows
from .labels import Labels

#: Gives, from the arguments of a call, the keys of the windows it opens or closes.
Keys = Callable[[Tuple[Any, ...], Dict[str, Any]], Iterable[Hashable]]
#: Is told arguments and result of a call that has returned.
Told = Callable[[Tuple[Any, ...], Dict[str, Any], Any], None]


class Target(NamedTuple):
    """A function of a module, or a method as `Class.method`."""

    module: str
    path: str

    def snapshot_name(self) -> str:
        return "@".join([self.module, *self.path.split(".")])


class During(NamedTuple):
    """What is allocated while the function runs, by its thread, has these labels."""

    target: Target
    labels: Labels

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        labels.begin(self.labels)

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        labels.end(self.labels)


class Opening(NamedTuple):
    """From the beginning of this function on, until another closes it, there is a window with these labels."""

    target: Target
    labels: Labels
    keys: Keys

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        for key in self.keys(args, kwargs):
            windows.open_window(key, self.labels)

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        """If it raises, what the window was opened for does not come."""
        if error is not None:
            for key in self.keys(args, kwargs):
                windows.close_window(key)


class Closing(NamedTuple):
    """With the end of this function windows end."""

    target: Target
    keys: Keys

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """They last until its end."""

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        for key in self.keys(args, kwargs):
            windows.close_window(key)


class Afterwards(NamedTuple):
    """Once the function has returned, something is done with what it made; while it runs there may be labels."""

    target: Target
    told: Told
    labels: Labels = ()

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        labels.begin(self.labels)

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        labels.end(self.labels)
        if error is None:
            self.told(args, kwargs, result)


class Snapshots(NamedTuple):
    """A snapshot before the function and one after it."""

    target: Target

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self._take("Start")

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        self._take("End")

    def _take(self, when: str) -> None:
        import msmemscope

        msmemscope.take_snapshot(name=f"{self.target.snapshot_name()}@{when}")


class Entry(NamedTuple):
    """What a table has for some versions of a component."""

    versions: str
    component: str
    hook_type: str
    hooks: Tuple["AnyHook", ...]


class Framework(NamedTuple):
    """The table of one framework."""

    name: str
    #: The distribution whose version the entries go by.
    distribution: str
    #: The module that has it as `__version__`, for packages that were not installed.
    package: str
    entries: Tuple[Entry, ...]


class AnyHook(Protocol):
    """One of the kinds above."""

    @property
    def target(self) -> Target: ...

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None: ...

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None: ...
