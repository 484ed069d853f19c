"""Which module runs, and where it stands in the model: windows around each forward, for every module there is.

By torch's own hooks for all modules. They are Python code once a call of a module, not once an operator.
"""

import inspect
import sys
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import labels, notes, tracing
from .labels import DETAIL_2, PHASE

_FORWARD = ((PHASE, "forward"),)

#: Is told a model, by its outermost module, when it is first called, and the tensors of its arguments at the end of each call.
SeeModel = Callable[[Any], None]
SeeInputs = Callable[[Any, Any], None]


class _Running(threading.local):
    """The modules whose forward this thread is in, outermost first, each with the labels that were begun for it."""

    def __init__(self) -> None:
        self.stack: List[Tuple[int, labels.Labels]] = []


_running = _Running()
#: By the module's identity, which is whose it is only as long as the reference says so.
_paths: Dict[int, Tuple["weakref.ref[Any]", str]] = {}
#: Parts of paths that are not the model's: modules around modules, for sharding, recomputing and compiling.
_AROUND = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}


class _Seen:
    model: Optional[SeeModel] = None
    inputs: Optional[SeeInputs] = None


def install(torch: Any, see_model: SeeModel, see_inputs: SeeInputs) -> List[Any]:
    """Gives what takes the hooks off again."""
    _Seen.model, _Seen.inputs = see_model, see_inputs
    module = sys.modules["torch.nn.modules.module"]
    if "with_kwargs" in inspect.signature(module.register_module_forward_hook).parameters:
        after = module.register_module_forward_hook(_after, with_kwargs=True, always_call=True)
    else:
        after = module.register_module_forward_hook(_after_without_keywords, always_call=True)
    return [after, module.register_module_forward_pre_hook(_before)]


def forget() -> None:
    """Ends what this thread has begun; paths are found anew."""
    _Seen.model = _Seen.inputs = None
    _unwind(0)
    _paths.clear()


def path_of(module: Any) -> Optional[str]:
    known = _paths.get(id(module))
    return known[1] if known is not None and known[0]() is module else None


def _before(module: Any, args: Any) -> None:
    if tracing.is_compiling():
        return
    try:
        _begin(module)
    except Exception as error:
        notes.failed("finding the path of a module", error)


def _begin(module: Any) -> None:
    stack = _running.stack
    if stack and stack[0][0] == id(module):
        # A forward that was left by something else than an error (an interrupt) is not told.
        _unwind(0)
    path = path_of(module)
    if not stack:
        if path is None:
            path = _learn(module)
        wanted: labels.Labels = (*_FORWARD, (DETAIL_2, path))
    else:
        wanted = ((DETAIL_2, path if path is not None else type(module).__name__),)
    labels.begin(wanted)
    stack.append((id(module), wanted))


def _learn(root: Any) -> str:
    """The paths of all modules of a model, also of those that were called by themselves before; its outermost goes by the name of its
    class."""
    name = type(root).__name__
    for path, module in root.named_modules():
        words = [word for word in path.split(".") if word and word not in _AROUND]
        if not words:
            name = type(module).__name__
        _paths[id(module)] = (weakref.ref(module), ".".join(words) or name)
    _paths[id(root)] = (weakref.ref(root), name)
    if _Seen.model is not None:
        _Seen.model(root)
    return name


def _after(module: Any, args: Any, *more: Any) -> None:
    """Called with the keywords and the result; after an error with no result alone."""
    if tracing.is_compiling():
        return
    try:
        stack = _running.stack
        place = len(stack) - 1
        while place >= 0 and stack[place][0] != id(module):
            place -= 1
        if place < 0:
            return
        _unwind(place)
        if place == 0 and len(more) == 2 and _Seen.inputs is not None:
            _Seen.inputs(args, more[0])
    except Exception as error:
        notes.failed("the end of a module's forward", error)


def _after_without_keywords(module: Any, args: Any, result: Any) -> None:
    """Until torch 2.5 hooks for all modules are not told the keywords, which models are often called with."""
    stack = _running.stack
    if result is None or not stack or stack[0][0] != id(module):
        _after(module, args, None)
    else:
        _after(module, args, _keywords_of_call(), result)


def _keywords_of_call() -> Dict[str, Any]:
    """Those of the function of torch that calls hooks, as long as it has them by this name."""
    keywords = sys._getframe(2).f_locals.get("kwargs")
    return keywords if isinstance(keywords, dict) else {}


def _unwind(depth: int) -> None:
    stack = _running.stack
    while len(stack) > depth:
        labels.end(stack.pop()[1])
