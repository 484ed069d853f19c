"""PyTorch: sharded training, by its two ways (FSDP). Names as in torch 2.3 to 2.15."""

import threading
import weakref
from typing import Any, Dict, Hashable, Iterable, List, Optional, Tuple

from . import tracing, windows
from .hooks import AnyHook, Closing, During, Entry, Framework, Opening, Target
from .labels import COMPONENT, DETAIL_1, PROCESS, Labels

_RUNTIME = "torch.distributed.fsdp._runtime_utils"
_FLAT_PARAM = "torch.distributed.fsdp._flat_param"
#: The package of the second way, and its name until torch 2.5.
_FULLY_SHARD = "torch.distributed.fsdp._fully_shard"
_COMPOSABLE = "torch.distributed._composable.fsdp"

_BACKWARD = "window of a backward pass"


def _labels(component: str, process: str) -> Labels:
    return ((COMPONENT, component), (PROCESS, process))


def _detail(text: str) -> Labels:
    return ((DETAIL_1, text),)


def _argument(args: Tuple[Any, ...], kwargs: Dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


class _Passes:
    """Backward passes that are running, in whichever threads; with the last of them all their windows end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0

    def enter(self) -> None:
        with self.lock:
            self.running += 1

    def leave(self) -> None:
        with self.lock:
            self.running -= 1
            if self.running:
                return
        for key in windows.open_keys():
            if isinstance(key, tuple) and key and key[0] == _BACKWARD:
                windows.close_window(key)


_passes = _Passes()


class BackwardPass:
    """What hooks of autograd opened ends with the pass itself, however it ends: after an error they are not called any more."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        _passes.enter()

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        _passes.leave()


class ModuleForward:
    """A window from the function that prepares a module's forward to the end of that forward, also if it raises."""

    def __init__(self, target: Target, labels: Labels) -> None:
        self.target = target
        self.labels = labels
        self._closers: Dict[int, Tuple["weakref.ref[Any]", Any]] = {}

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        module = _argument(args, kwargs, 1, "module")
        self._see_its_end(module)
        windows.open_window(_forward_key(module), self.labels)

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        if error is not None:
            windows.close_window(_forward_key(_argument(args, kwargs, 1, "module")))

    def _see_its_end(self, module: Any) -> None:
        """The framework's own hook after it is not called if the forward raises; one of ours is."""
        known = self._closers.get(id(module))
        if known is not None and known[0]() is module:
            return
        handle = module.register_forward_hook(_forward_ended, always_call=True)
        self._closers[id(module)] = (weakref.ref(module), handle)

    def removed(self) -> None:
        """The hook is taken off; modules have no hook of ours any more."""
        for _, handle in self._closers.values():
            handle.remove()
        self._closers.clear()


def _forward_ended(module: Any, args: Any, output: Any) -> None:
    if not tracing.is_compiling():
        windows.close_window(_forward_key(module))


def _forward_key(module: Any) -> Hashable:
    return ("window of a forward pass", id(module))


def _of_forward(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterable[Hashable]:
    return [_forward_key(_argument(args, kwargs, 1, "module"))]


def _of_handle_before(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterable[Hashable]:
    """`_pre_backward_hook(state, module, handle, grad)`"""
    return [(_BACKWARD, id(_argument(args, kwargs, 2, "handle")))]


def _of_handle_after(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterable[Hashable]:
    """`_post_backward_hook(state, handle, …)`"""
    return [(_BACKWARD, id(_argument(args, kwargs, 1, "handle")))]


def _of_state(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterable[Hashable]:
    """A state has one group of parameters, or none; since torch 2.12 any number."""
    state = args[0]
    groups: Optional[List[Any]] = state.__dict__.get("_fsdp_param_groups")
    if groups is None:
        groups = [state.__dict__.get("_fsdp_param_group")]
    return [(_BACKWARD, id(group)) for group in groups if group is not None]


def _of_group(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterable[Hashable]:
    return [(_BACKWARD, id(args[0]))]


_ENGINE: Tuple[AnyHook, ...] = (
    BackwardPass(Target("torch.autograd", "_engine_run_backward")),
    BackwardPass(Target("torch.autograd.graph", "_engine_run_backward")),
)

_FSDP1: Tuple[AnyHook, ...] = (
    During(
        Target("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel.forward"),
        _labels("fsdp1", "activation"),
    ),
    Opening(Target(_RUNTIME, "_pre_backward_hook"), _labels("fsdp1", "backward"), _of_handle_before),
    Closing(Target(_RUNTIME, "_post_backward_hook"), _of_handle_after),
    Closing(Target(_RUNTIME, "_post_backward_reshard_only_hook"), _of_handle_after),
    *_ENGINE,
    During(Target(_FLAT_PARAM, "FlatParamHandle._init_flat_param_and_metadata"), _detail("sharded_weight")),
    During(Target(_FLAT_PARAM, "FlatParamHandle._alloc_padded_unsharded_flat_param"), _detail("all_gather")),
    During(Target(_RUNTIME, "_reduce_grad"), _detail("gradient")),
)


def _fsdp2(package: str) -> Tuple[AnyHook, ...]:
    state, group, param = (f"{package}.{module}" for module in ("_fsdp_state", "_fsdp_param_group", "_fsdp_param"))
    return (
        ModuleForward(Target(state, "FSDPState._pre_forward"), _labels("fsdp2", "activation")),
        Closing(Target(state, "FSDPState._post_forward"), _of_forward),
        Opening(Target(state, "FSDPState._pre_backward"), _labels("fsdp2", "backward"), _of_state),
        Closing(Target(group, "FSDPParamGroup.post_backward"), _of_group),
        *_ENGINE,
        During(Target(param, "FSDPParam._init_sharded_param"), _detail("sharded_weight")),
        During(Target(param, "FSDPParam.init_all_gather_outputs"), _detail("all_gather_output")),
        During(Target(param, "FSDPParam.alloc_all_gather_outputs"), _detail("all_gather_output")),
    )


def _by_function(package: str) -> Tuple[AnyHook, ...]:
    """Both modules have the functions by their names."""
    return tuple(
        During(Target(f"{package}.{module}", function), _detail(label))
        for function, label in (("foreach_all_gather", "all_gather_output"), ("foreach_reduce", "gradient"))
        for module in ("_fsdp_collectives", "_fsdp_param_group")
    )


def _allocate(*kinds: str) -> Tuple[AnyHook, ...]:
    return tuple(
        During(Target(f"{_FULLY_SHARD}._fsdp_collectives", f"{kind}{collective}.allocate"), _detail(label))
        for kind in kinds
        for collective, label in (("AllGather", "all_gather_output"), ("ReduceScatter", "gradient"))
    )


TABLE = Framework(
    "pytorch",
    distribution="torch",
    package="torch",
    entries=(
        Entry("2.3+", "fsdp1", "decompose", _FSDP1),
        Entry("2.4-2.5", "fsdp2", "decompose", _fsdp2(_COMPOSABLE) + _by_function(_COMPOSABLE)),
        Entry("2.6+", "fsdp2", "decompose", _fsdp2(_FULLY_SHARD)),
        Entry("2.6-2.9", "fsdp2", "decompose", _by_function(_FULLY_SHARD)),
        Entry("2.10+", "fsdp2", "decompose", _allocate("Default", "ProcessGroupAlloc")),
        Entry("2.12+", "fsdp2", "decompose", _allocate("SymmMem")),
    ),
)
