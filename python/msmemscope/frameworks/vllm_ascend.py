"""vLLM on Ascend: loading of weights, the run that measures, the key-value cache, warming up, graphs and serving. Names as in
vllm-ascend 0.9 to 0.30."""

from typing import Any, Dict, Iterable, Iterator, Set, Tuple

from . import labels
from .hooks import Afterwards, AnyHook, During, Entry, Framework, Snapshots, Target
from .labels import COMPONENT, DETAIL_1, PROCESS, Labels
from .tensors import addresses, tensors_in

_RUNNER = "vllm_ascend.worker.model_runner_v1"
_RUNNER_2 = "vllm_ascend.worker.v2.model_runner"
_WORKER = "vllm_ascend.worker.worker"
#: The worker's module until 0.12; until 0.11 the one above has the worker of an older engine.
_WORKER_1 = "vllm_ascend.worker.worker_v1"
_VLLM = (COMPONENT, "vllm")


def _during(module: str, path: str, process: str) -> AnyHook:
    return During(Target(module, path), (_VLLM, (PROCESS, process)))


def _weights(*detail: str) -> Labels:
    return (_VLLM, (PROCESS, "weights"), *((DETAIL_1, text) for text in detail))


def label_weights(args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
    """The model is loaded. What adapters hold is theirs and not the model's; what a model that drafts shares with the other is the
    draft's."""
    runner = args[0]
    seen: Set[int] = set()
    model = getattr(runner, "model", None)
    drafter = getattr(runner, "drafter", None)
    _label(_adapters(model), _weights("lora"), seen)
    _label(_parameters(getattr(drafter, "model", None)), _weights("drafter"), seen)
    _label(_parameters(model), _weights(), seen)


def _label(tensors: Iterable[Any], wanted: Labels, seen: Set[int]) -> None:
    for tensor in tensors:
        for address in addresses(tensor):
            if address not in seen:
                seen.add(address)
                labels.of_block(address, wanted)


def _modules(model: Any) -> Iterator[Any]:
    modules = getattr(model, "modules", None)
    if callable(modules):
        yield from modules()


def _parameters(model: Any) -> Iterator[Any]:
    for module in _modules(model):
        for of in ("_parameters", "_buffers"):
            yield from tensors_in(getattr(module, of, None))


def _adapters(model: Any) -> Iterator[Any]:
    for module in _modules(model):
        for name in ("lora_a", "lora_b", "lora_a_stacked", "lora_b_stacked"):
            held = getattr(module, "__dict__", {}).get(name)
            if isinstance(held, (dict, list, tuple)):
                yield from tensors_in(held)


def label_kv_cache(args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
    """The caches are there, by layer; without layers as the runner holds them."""
    runner = args[0]
    config = args[1] if len(args) > 1 else kwargs.get("kv_cache_config")
    caches = result if isinstance(result, dict) else {"": getattr(runner, "kv_caches", None)}
    specs = _layer_specs(runner, config)
    seen: Set[int] = set()
    for layer, held in caches.items():
        wanted = (_VLLM, (PROCESS, "kv_cache"), (DETAIL_1, _cache_kind(specs.get(layer))))
        _label(tensors_in(held), wanted, seen)


def _layer_specs(runner: Any, config: Any) -> Dict[str, Any]:
    of_runner = getattr(runner, "_get_layer_kv_cache_specs", None)
    if callable(of_runner):
        specs = of_runner(config)
        if isinstance(specs, dict):
            return specs
    groups = getattr(config, "kv_cache_groups", None) or ()
    return {layer: group.kv_cache_spec for group in groups for layer in group.layer_names}


def _cache_kind(spec: Any) -> str:
    name = type(spec).__name__.lower()
    if "mamba" in name:
        return "mamba"
    if "hidden" in name:
        return "hidden_state"
    return "attn"


def _runner(module: str) -> Tuple[AnyHook, ...]:
    return (
        _during(module, "NPUModelRunner.profile_run", "profile"),
        _during(module, "NPUModelRunner.execute_model", "serve"),
        During(Target(module, "NPUModelRunner.capture_model"), ((DETAIL_1, "graph_pool"),)),
        Afterwards(Target(module, "NPUModelRunner.load_model"), label_weights),
    )


def _sampling(module: str) -> Tuple[AnyHook, ...]:
    """What `execute_model` did at its end until 0.11."""
    return (_during(module, "NPUModelRunner.sample_tokens", "serve"),)


def _caches(module: str, *methods: str) -> Tuple[AnyHook, ...]:
    return tuple(Afterwards(Target(module, f"NPUModelRunner.{method}"), label_kv_cache) for method in methods)


def _snapshots(runner: str, worker: str) -> Tuple[AnyHook, ...]:
    of_runner = ("load_model", "profile_run", "initialize_kv_cache", "execute_model", "capture_model")
    return (
        *(Snapshots(Target(runner, f"NPUModelRunner.{method}")) for method in of_runner),
        Snapshots(Target(worker, "NPUWorker.compile_or_warm_up_model")),
    )


def _warm_up(worker: str) -> Tuple[AnyHook, ...]:
    return (_during(worker, "NPUWorker.compile_or_warm_up_model", "warmup"),)


TABLE = Framework(
    "vllm_ascend",
    distribution="vllm_ascend",
    package="vllm_ascend",
    entries=(
        Entry("0.9+", "worker", "decompose", _runner(_RUNNER)),
        Entry("0.9-0.10", "worker", "decompose", _caches(_RUNNER, "initialize_kv_cache")),
        Entry("0.11+", "worker", "decompose", _caches(_RUNNER, "initialize_kv_cache_tensors")),
        Entry(
            "0.11-0.11",
            "worker",
            "decompose",
            _caches(_RUNNER, "initialize_kv_cache_tensors_deepseek_sfa", "initialize_kv_cache_tensors_deepseek_mla"),
        ),
        Entry("0.12+", "worker", "decompose", _sampling(_RUNNER)),
        Entry("0.9-0.12", "worker", "decompose", _warm_up(_WORKER_1)),
        Entry("0.13+", "worker", "decompose", _warm_up(_WORKER)),
        Entry(
            "0.13+",
            "worker",
            "decompose",
            _runner(_RUNNER_2) + _sampling(_RUNNER_2) + _caches(_RUNNER_2, "initialize_kv_cache"),
        ),
        Entry("0.9-0.12", "worker", "snapshot", _snapshots(_RUNNER, _WORKER_1)),
        Entry("0.13+", "worker", "snapshot", _snapshots(_RUNNER, _WORKER)),
        Entry("0.13+", "worker", "snapshot", _snapshots(_RUNNER_2, _WORKER)),
    ),
)
