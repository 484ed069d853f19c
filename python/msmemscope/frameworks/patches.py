"""Functions and methods with hooks around them, put in place of the originals and taken off again."""

import inspect
import os
import threading
from functools import partial, wraps
from types import CoroutineType, ModuleType
from typing import Any, Callable, Dict, Generator, List, Optional, Protocol, Tuple

from . import notes, tracing


class Hook(Protocol):
    """What is done around a call."""

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """Before it."""

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        """After it, whether it returned or raised."""


class NotThere(Exception):
    """A module has no such function; the message is the rest of a sentence about the module."""


_lock = threading.RLock()


class Patch:
    """One function with its hooks. Passive, it only calls the original."""

    def __init__(self, what: str, owner: Any, name: str, is_own: bool, original: Any) -> None:
        self.what = what
        self.owner = owner
        self.name = name
        #: The attribute was in the owner itself, not in a base class of it.
        self.is_own = is_own
        self.original = original
        self.hooks: Tuple[Hook, ...] = ()
        self.replacement = self._wrapped(original)

    def _wrapped(self, original: Any) -> Any:
        if isinstance(original, (staticmethod, classmethod)):
            return type(original)(self._around(original.__func__))
        if isinstance(original, property) and original.fget is not None:
            return property(self._around(original.fget), original.fset, original.fdel, original.__doc__)
        if isinstance(original, type) or not callable(original):
            raise NotThere(f"has no function {self.what.rpartition('.')[2]}: it is a {type(original).__name__}")
        return self._around(original)

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def around_coroutine(*args: Any, **kwargs: Any) -> Any:
                hooks = self.hooks
                if not hooks:
                    return await function(*args, **kwargs)
                return await _Resumed(function(*args, **kwargs), self, hooks, args, kwargs)

            return around_coroutine

        @wraps(function)
        def around(*args: Any, **kwargs: Any) -> Any:
            # A compiler that follows the program through here sees nothing but the original.
            hooks = () if tracing.is_compiling() else self.hooks
            if not hooks:
                return function(*args, **kwargs)
            entered = self.enter(hooks, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self.leave(entered, args, kwargs, None, error)
                raise
            self.leave(entered, args, kwargs, result, None)
            return result

        return around

    def enter(self, hooks: Tuple[Hook, ...], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Hook]:
        """Gives those that have to be left."""
        entered: List[Hook] = []
        for hook in hooks:
            try:
                hook.enter(args, kwargs)
                entered.append(hook)
            except Exception as error:
                notes.failed(f"the hook before {self.what}", error)
        return entered

    def leave(
        self, entered: List[Hook], args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]
    ) -> None:
        """The last that was entered is the first to be left."""
        for hook in reversed(entered):
            try:
                hook.leave(args, kwargs, result, error)
            except Exception as failure:
                notes.failed(f"the hook after {self.what}", failure)

    def is_in_place(self) -> bool:
        return self.owner.__dict__.get(self.name) is self.replacement

    def put_in_place(self) -> None:
        setattr(self.owner, self.name, self.replacement)

    def take_off(self) -> None:
        """Where somebody has put something of their own around it since, it stays and is passive."""
        self.hooks = ()
        if not self.is_in_place():
            return
        if self.is_own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)


class _Resumed:
    """A coroutine whose hooks are around each stretch in which it runs, not around those in which it waits and others run."""

    def __init__(
        self,
        coroutine: "CoroutineType[Any, Any, Any]",
        patch: Patch,
        hooks: Tuple[Hook, ...],
        args: Tuple[Any, ...],
        kwargs: Dict[str, Any],
    ) -> None:
        self.coroutine, self.patch, self.hooks, self.args, self.kwargs = coroutine, patch, hooks, args, kwargs

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[], Any] = partial(self.coroutine.send, None)
        while True:
            waits_for, ended = self._stretch(resume)
            if ended is not None:
                return ended.value
            try:
                sent = yield waits_for
                resume = partial(self.coroutine.send, sent)
            except GeneratorExit:
                self.coroutine.close()
                raise
            except BaseException as thrown:
                resume = partial(self.coroutine.throw, thrown)

    def _stretch(self, resume: Callable[[], Any]) -> Tuple[Any, Optional[StopIteration]]:
        patch, args, kwargs = self.patch, self.args, self.kwargs
        entered = patch.enter(self.hooks, args, kwargs)
        try:
            waits_for = resume()
        except StopIteration as ended:
            patch.leave(entered, args, kwargs, ended.value, None)
            return None, ended
        except BaseException as error:
            patch.leave(entered, args, kwargs, None, error)
            raise
        patch.leave(entered, args, kwargs, None, None)
        return waits_for, None


#: All that were made, in their order; several of one function only if its module was loaded anew.
_patches: List[Patch] = []


def hook(module: ModuleType, path: str, added: Hook) -> None:
    """Puts a hook around `function` or `Class.method` of a module, after those it has. Raises `NotThere`."""
    with _lock:
        patch = _find_or_make(module, path)
        if added not in patch.hooks:
            patch.hooks += (added,)


def _find_or_make(module: ModuleType, path: str) -> Patch:
    owner, name, is_own, original = _look_up(module, path)
    for patch in _patches:
        if patch.owner is owner and patch.replacement is original:
            return patch
    # By another name, or inherited from a class that has hooks: this one has hooks of its own around the same function.
    alias = next((patch for patch in _patches if patch.replacement is original), None)
    patch = Patch(f"{module.__name__}.{path}", owner, name, is_own, alias.original if alias else original)
    patch.put_in_place()
    _patches.append(patch)
    return patch


def _look_up(module: ModuleType, path: str) -> Tuple[Any, str, bool, Any]:
    """Owner, attribute, whether it is the owner's own, and the attribute as it stands there. Runs no code of the module."""
    namespace: Dict[str, Any] = object.__getattribute__(module, "__dict__")
    class_name, dot, name = path.rpartition(".")
    if not dot:
        if path not in namespace:
            raise NotThere(f"has no function {path}")
        return module, path, True, namespace[path]
    found = namespace.get(class_name)
    if not isinstance(found, type):
        raise NotThere(f"has no class {class_name}")
    for base in found.__mro__:
        if name in base.__dict__:
            return found, name, base is found, base.__dict__[name]
    raise NotThere(f"has no {name} in its class {class_name}")


def unhook(is_unwanted: Callable[[Hook], bool]) -> None:
    """Takes these hooks off; a function without any is again the object it was."""
    with _lock:
        for patch in reversed(_patches[:]):
            for hook in filter(is_unwanted, patch.hooks):
                removed = getattr(hook, "removed", None)
                if removed is not None:
                    removed()
            patch.hooks = tuple(hook for hook in patch.hooks if not is_unwanted(hook))
            if not patch.hooks:
                patch.take_off()
                _patches.remove(patch)


def hooked() -> List[str]:
    """The functions that have hooks, for a person to read."""
    with _lock:
        return [patch.what for patch in _patches]


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)
