"""Calls back when a module of interest has been imported, also if it is loaded lazily or reloaded.

A finder before all others asks those others, and has the loader that they found tell when the module's code has run. The loader stays
the one it is (`module.__loader__`, sources, resources and pickles are not touched): only this one instance gets a method of its own,
which takes itself off again.
"""

import os
import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence, Set

from . import notes

#: Called with the name, the module itself and whether all of its code has run.
WhenImported = Callable[[str, ModuleType, bool], None]


class _Finder:
    """Finds nothing of its own."""

    def __init__(self) -> None:
        self.wanted: Dict[str, WhenImported] = {}
        #: Names that a thread is asking the other finders for.
        self.asking = threading.local()
        #: Modules whose code was running when they became of interest: looked at again as soon as there is an occasion.
        self.half_run: Set[str] = set()

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if fullname not in self.wanted:
            return None
        asked: Set[str] = self.asking.__dict__.setdefault("names", set())
        if fullname in asked:
            # Another finder that asks all others has come round to us.
            return None
        asked.add(fullname)
        try:
            spec = _ask_others(self, fullname, path, target)
        finally:
            asked.discard(fullname)
        if spec is not None and spec.loader is not None:
            try:
                _tell_when_run(spec.loader, fullname)
            except Exception as error:
                notes.failed(f"watching the import of {fullname}", error)
        return spec

    def invalidate_caches(self) -> None:
        """Has none; `importlib.invalidate_caches` asks every finder."""


_finder = _Finder()


def _ask_others(
    me: _Finder, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType]
) -> Optional[ModuleSpec]:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is me or find is None:
            continue
        spec: Optional[ModuleSpec] = find(fullname, path, target)
        if spec is not None:
            return spec
    return None


def _tell_when_run(loader: Any, fullname: str) -> None:
    """Has this loader call back once its module's code has run."""
    while isinstance(loader, LazyLoader):
        # It only prepares the module; the loader it holds runs the code, at the first access.
        loader = loader.__dict__["loader"]
    if hasattr(loader, "exec_module"):
        _wrap_method(loader, "exec_module", lambda module: module, fullname)
    elif hasattr(loader, "load_module"):
        _wrap_method(loader, "load_module", lambda name: sys.modules.get(fullname), fullname)


def _wrap_method(loader: Any, method: str, module_of: Callable[[Any], Any], fullname: str) -> None:
    """In front of one instance's method. A loader that is a class serves many modules, and is left alone."""
    if isinstance(loader, type) or method in getattr(loader, "__dict__", {}):
        return
    run = getattr(loader, method)

    def run_and_tell(argument: Any) -> Any:
        loader.__dict__.pop(method, None)
        result = run(argument)
        # Modules may put something else in their place while they run.
        module = sys.modules.get(fullname) or module_of(argument)
        if module is not None:
            _tell(fullname, module, True)
        _look_again()
        return result

    setattr(loader, method, run_and_tell)


def _tell(fullname: str, module: ModuleType, is_run: bool) -> None:
    when_imported = _finder.wanted.get(fullname)
    if when_imported is None:
        return
    try:
        when_imported(fullname, module, is_run)
    except Exception as error:
        notes.failed(f"hooking {fullname}", error)


def watch(fullname: str, when_imported: WhenImported) -> None:
    """Calls back at every import of this module from now on, and at once if it is there."""
    _finder.wanted[fullname] = when_imported
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _look_again()
    module = sys.modules.get(fullname)
    if module is None:
        return
    if _is_not_run_yet(module):
        spec = object.__getattribute__(module, "__spec__")
        _tell_when_run(spec.loader, fullname)
        return
    is_run = not _is_running(module)
    if not is_run:
        _finder.half_run.add(fullname)
    _tell(fullname, module, is_run)


def _look_again() -> None:
    for fullname in list(_finder.half_run):
        module = sys.modules.get(fullname)
        if module is None or not _is_running(module):
            _finder.half_run.discard(fullname)
            if module is not None:
                _tell(fullname, module, True)


def _is_not_run_yet(module: ModuleType) -> bool:
    """Of a lazy module that nobody has used; looking at it in any other way would load it."""
    return type(module).__module__ == "importlib.util" and type(module).__name__ == "_LazyModule"


def _is_running(module: ModuleType) -> bool:
    """What it lacks may still come."""
    return bool(getattr(module.__dict__.get("__spec__"), "_initializing", False))


def unwatch_all() -> None:
    """No module is of interest any more; the finder is gone."""
    _finder.wanted.clear()
    _finder.half_run.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def unwatch(fullname: str) -> None:
    """This module is of no interest any more."""
    _finder.wanted.pop(fullname, None)
    if not _finder.wanted:
        unwatch_all()


def _in_child() -> None:
    _finder.asking = threading.local()


os.register_at_fork(after_in_child=_in_child)
