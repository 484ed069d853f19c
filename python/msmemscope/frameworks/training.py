"""What the memory of a training is for: weights, buffers, gradients, optimizer state and inputs, by what torch tells.

Activations and temporaries show only afterwards, by when they are freed and who reads them: the recording has the phases (forward,
backward) of each thread, and its readers conclude.
"""

import sys
import threading
import warnings
import weakref
from types import ModuleType
from typing import Any, Dict, List, Optional, Set, Tuple

from .. import _native
from . import imports, labels, module_paths, notes, patches, tracing
from .hooks import Afterwards, Target
from .labels import DETAIL_1, DETAIL_2, PHASE
from .tensors import addresses, tensors_in

#: torch says so of hooks for all modules if a module is compiled; ours do nothing the second time.
_HOOKS_FIRE_TWICE = "Using `torch.compile\\(module\\)` when there are global hooks"


class _Parameters:
    """Those that were seen, with the paths of their modules."""

    def __init__(self) -> None:
        self.known: Dict[int, Tuple["weakref.ref[Any]", Optional[str]]] = {}
        self.lock = threading.Lock()

    def see(self, parameter: Any, path: Optional[str], is_new: bool = False) -> Optional[str]:
        """Gives the path that is known of it: the first it had, unless there is a new one."""
        known = self.known.get(id(parameter))
        if not is_new and known is not None and known[0]() is parameter and (path is None or known[1] is not None):
            return known[1]
        with self.lock:
            self.known[id(parameter)] = (weakref.ref(parameter), path)
        return path

    def alive(self) -> List[Tuple[Any, Optional[str]]]:
        with self.lock:
            found = [(number, reference(), path) for number, (reference, path) in self.known.items()]
            for number, parameter, _ in found:
                if parameter is None:
                    del self.known[number]
        return [(parameter, path) for _, parameter, path in found if parameter is not None]


class BackwardPhase:
    """While autograd runs, the calling thread is in the backward phase, and so is what autograd's threads do meanwhile."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        labels.begin(_BACKWARD)

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        labels.end(_BACKWARD)
        if error is None and kwargs.get("accumulate_grad"):
            for parameter, path in _parameters.alive():
                _label_gradient(parameter, path)


_BACKWARD = ((PHASE, "backward"),)
_OPTIMIZER = ((PHASE, "optimizer"),)
#: `stepping`: this thread is in the step of an optimizer.
_local = threading.local()
_parameters = _Parameters()
_HOOKS = (
    BackwardPhase(Target("torch.autograd", "_engine_run_backward")),
    BackwardPhase(Target("torch.autograd.graph", "_engine_run_backward")),
    Afterwards(Target("torch.nn.modules.module", "Module._apply"), lambda args, kwargs, result: _label_own(args[0])),
)


class _Installed:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: What takes hooks off that torch itself keeps; none before torch is there.
        self.handles: List[Any] = []
        self.wanted = False


_installed = _Installed()


def begin() -> None:
    """From here on, as soon as torch is there."""
    with _installed.lock:
        if _installed.wanted:
            return
        _installed.wanted = True
    imports.watch("torch", _torch_is_there)


def end() -> None:
    """torch is as it was."""
    with _installed.lock:
        _installed.wanted = False
        handles, _installed.handles = _installed.handles, []
    imports.unwatch("torch")
    patches.unhook(lambda hook: any(hook is ours for ours in _HOOKS))
    for handle in handles:
        handle.remove()
    module_paths.forget()


def _torch_is_there(name: str, torch: ModuleType, is_run: bool) -> None:
    if not is_run:
        return
    with _installed.lock:
        if not _installed.wanted or _installed.handles:
            return
        tracing.torch_is_there(torch)
        warnings.filterwarnings("ignore", message=_HOOKS_FIRE_TWICE)
        module = sys.modules["torch.nn.modules.module"]
        optimizer = sys.modules["torch.optim.optimizer"]
        _installed.handles = [
            *module_paths.install(torch, _see_model, _see_inputs),
            module.register_module_parameter_registration_hook(_registered("weight")),
            module.register_module_buffer_registration_hook(_registered("buffer")),
            optimizer.register_optimizer_step_pre_hook(_before_step),
            optimizer.register_optimizer_step_post_hook(_after_step),
        ]
    for hook in _HOOKS:
        patches.hook(sys.modules[hook.target.module], hook.target.path, hook)


def _label(tensor: Any, detail: str, path: Optional[str]) -> None:
    """Is told again whenever there is an occasion: memory that came back to where it was before is another block."""
    for address in addresses(tensor):
        _native.label_block(address, DETAIL_1, detail)
        if path is not None:
            _native.label_block(address, DETAIL_2, path)


def _label_weight(parameter: Any, path: Optional[str]) -> None:
    _label(parameter, "weight", path)
    _label_gradient(parameter, path)


def _label_gradient(parameter: Any, path: Optional[str]) -> None:
    gradient = parameter.grad
    if gradient is not None:
        _label(gradient, "gradient", path)


def _registered(detail: str) -> Any:
    """A module is given a parameter or a buffer; which model it will be part of shows later."""

    def hook(module: Any, name: str, tensor: Any) -> None:
        if tracing.is_compiling() or tensor is None:
            return
        try:
            path = module_paths.path_of(module)
            _label(tensor, detail, _parameters.see(tensor, path) if detail == "weight" else path)
        except Exception as error:
            notes.failed(f"labelling a {detail}", error)

    return hook


def _label_own(module: Any) -> None:
    """What a module holds itself, not its parts."""
    path = module_paths.path_of(module)
    for parameter in module._parameters.values():
        if parameter is not None:
            _label_weight(parameter, _parameters.see(parameter, path))
    for buffer in module._buffers.values():
        if buffer is not None:
            _label(buffer, "buffer", path)


def _see_model(root: Any) -> None:
    seen: Set[int] = set()
    for module in root.modules():
        for parameter in module._parameters.values():
            # What several modules share belongs to the first of them.
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                _parameters.see(parameter, module_paths.path_of(module), is_new=True)
        _label_own(module)


def _see_inputs(args: Any, kwargs: Any) -> None:
    """What no other module or operator has made for a backward pass, and no model holds."""
    parameter = sys.modules["torch"].nn.Parameter
    for tensor in (*tensors_in(args), *tensors_in(kwargs)):
        if not isinstance(tensor, parameter) and tensor.grad_fn is None and not tensor.requires_grad:
            _label(tensor, "input", None)


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if tracing.is_compiling():
        return
    try:
        # A step that raised is not told.
        _end_step()
        labels.begin(_OPTIMIZER)
        _local.stepping = True
    except Exception as error:
        notes.failed("the beginning of an optimizer's step", error)


def _end_step() -> None:
    if getattr(_local, "stepping", False):
        _local.stepping = False
        labels.end(_OPTIMIZER)


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if tracing.is_compiling():
        return
    try:
        _end_step()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                path = _parameters.see(parameter, None)
                _label_weight(parameter, path)
                for tensor in tensors_in(optimizer.state.get(parameter)):
                    _label(tensor, "optimizer_state", path)
    except Exception as error:
        notes.failed("labelling what an optimizer holds", error)
