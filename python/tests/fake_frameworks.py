"""Frameworks with the modules, classes and methods of the real ones, as far as hooks name them, and nothing inside.

Every function notes when it ran, in the module `seen`; those that build something give tensors of an own kind.
"""

import os
from typing import Dict

#: What every function of these frameworks calls.
SEEN = """
calls = []
inside = None


def call(name, *arguments):
    calls.append(name)
    if inside is not None:
        return inside(name, *arguments)
"""


def _methods(cls: str, *names: str) -> str:
    lines = [f"class {cls}:", "    def __init__(self, **given): self.__dict__.update(given)"]
    for name in names:
        lines += [f"    def {name}(self, *arguments, **given):", f"        return seen.call({cls + '.' + name!r}, self, *arguments)"]
    return "\n".join(["import seen", *lines, ""])


def _functions(*names: str) -> str:
    lines = ["import seen"]
    for name in names:
        lines += [f"def {name}(*arguments, **given):", f"    return seen.call({name!r}, *arguments)"]
    return "\n".join([*lines, ""])


_RUNNER = ("profile_run", "execute_model", "capture_model", "load_model", "initialize_kv_cache", "initialize_kv_cache_tensors")

VLLM_ASCEND_0_11: Dict[str, str] = {
    "vllm_ascend": "__version__ = '0.11.0rc1'\n",
    "vllm_ascend.worker": "",
    "vllm_ascend.worker.model_runner_v1": _methods(
        "NPUModelRunner", *_RUNNER, "initialize_kv_cache_tensors_deepseek_sfa", "initialize_kv_cache_tensors_deepseek_mla"
    ),
    "vllm_ascend.worker.worker_v1": _methods("NPUWorker", "compile_or_warm_up_model", "load_model"),
}

_SAMPLING_RUNNER = (*_RUNNER, "sample_tokens")

VLLM_ASCEND_0_12: Dict[str, str] = {
    **VLLM_ASCEND_0_11,
    "vllm_ascend": "__version__ = '0.12.0rc1'\n",
    "vllm_ascend.worker.model_runner_v1": _methods("NPUModelRunner", *_SAMPLING_RUNNER),
}

VLLM_ASCEND_0_18: Dict[str, str] = {
    "vllm_ascend": "__version__ = '0.18.0'\n",
    "vllm_ascend.worker": "",
    "vllm_ascend.worker.model_runner_v1": _methods("NPUModelRunner", *_SAMPLING_RUNNER),
    "vllm_ascend.worker.v2": "",
    "vllm_ascend.worker.v2.model_runner": _methods("GPUModelRunner", *_SAMPLING_RUNNER) + "class NPUModelRunner(GPUModelRunner): pass\n",
    "vllm_ascend.worker.worker": _methods("NPUWorker", "compile_or_warm_up_model", "load_model"),
}

VERL_0_7: Dict[str, str] = {
    "verl": "__version__ = '0.7.0'\n",
    "verl.trainer": "",
    "verl.trainer.main_ppo": _methods(
        "TaskRunner",
        "add_actor_rollout_worker",
        "add_critic_worker",
        "add_reward_model_worker",
        "add_ref_policy_worker",
        "run",
    ),
}

VERL_0_9: Dict[str, str] = {
    "verl": "__version__ = '0.9.1'\n",
    "verl.trainer": "",
    "verl.trainer.main_ppo": _methods("TaskRunnerV1", "run"),
    "verl.trainer.main_ppo_v0": _methods(
        "BaseTaskRunner",
        "add_actor_rollout_worker",
        "add_critic_worker",
        "add_reward_model_resource_pool",
        "add_ref_policy_worker",
        "run",
    )
    + "class TaskRunner(BaseTaskRunner):\n    def run(self, config):\n        return seen.call('TaskRunner.run', self)\n",
}

_OPTIMIZERS = """
import seen
class MegatronOptimizer:
    def step(self): return seen.call("MegatronOptimizer.step", self)
class MixedPrecisionOptimizer(MegatronOptimizer):
    def step(self): return seen.call("MixedPrecisionOptimizer.step", self)
class Float16OptimizerWithFloat16Params(MixedPrecisionOptimizer): pass
class FP32Optimizer(MegatronOptimizer):
    def step(self): return seen.call("FP32Optimizer.step", self)
class ChainedOptimizer(MegatronOptimizer):
    def step(self): return seen.call("ChainedOptimizer.step", self)
"""

#: `megatron` itself is a namespace: packages of several distributions are in it.
MINDSPEED_LLM: Dict[str, str] = {
    "mindspeed_llm": "__version__ = '0.12.1'\n",
    "mindspeed_llm.training": "",
    "mindspeed_llm.training.training": _functions("train", "train_step"),
    "mindspeed_llm.core": "",
    "mindspeed_llm.core.models": "",
    "mindspeed_llm.core.models.gpt": "",
    "mindspeed_llm.core.models.gpt.gpt_model": _methods("GPTModel", "forward", "compute_language_model_loss"),
    "mindspeed_llm.core.transformer": "",
    "mindspeed_llm.core.transformer.transformer_layer": _methods("TransformerLayer", "forward"),
    "mindspeed_llm.core.pipeline_parallel": "",
    "mindspeed_llm.core.pipeline_parallel.dualpipe": "",
    "mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model": _functions("gpt_model_backward"),
    "megatron.training": "",
    "megatron.training.training": _functions("setup_model_and_optimizer", "get_model"),
    "megatron.core": "",
    "megatron.core.optimizer": _functions("get_megatron_optimizer"),
    "megatron.core.optimizer.optimizer": _OPTIMIZERS,
    "megatron.core.optimizer.distrib_optimizer": _methods("DistributedOptimizer", "step_with_ready_grads"),
    "megatron.core.transformer": "",
    "megatron.core.transformer.transformer_block": _methods("TransformerBlock", "forward"),
    "megatron.core.transformer.attention": _methods("SelfAttention", "forward"),
    "megatron.core.transformer.mlp": _methods("MLP", "forward"),
    "megatron.core.transformer.moe": "",
    "megatron.core.transformer.moe.moe_layer": _methods("MoELayer", "forward"),
    "megatron.core.transformer.moe.router": _methods("TopKRouter", "forward"),
    "megatron.core.pipeline_parallel": "",
    "megatron.core.pipeline_parallel.schedules": _functions("backward_step"),
    "megatron.core.tensor_parallel": "",
    "megatron.core.tensor_parallel.cross_entropy": _functions("vocab_parallel_cross_entropy"),
}


def write(directory: str, modules: Dict[str, str]) -> None:
    """Puts them where they can be imported from. One that has others below it is a package."""
    for name, source in {"seen": SEEN, **modules}.items():
        parts = name.split(".")
        if any(other.startswith(name + ".") for other in modules):
            parts.append("__init__")
        path = os.path.join(directory, *parts) + ".py"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(source)
