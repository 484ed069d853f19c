"""MindSpeed-LLM: snapshots around the parts of a training with Megatron. Names as in MindSpeed-LLM with Megatron-Core 0.12."""

from typing import Tuple

from .hooks import AnyHook, Entry, Framework, Snapshots, Target


def _around(module: str, *paths: str) -> Tuple[AnyHook, ...]:
    return tuple(Snapshots(Target(module, path)) for path in paths)


_TRAINING: Tuple[AnyHook, ...] = (
    _around("mindspeed_llm.training.training", "train", "train_step")
    + _around("megatron.training.training", "setup_model_and_optimizer", "get_model")
    + _around("megatron.core.optimizer", "get_megatron_optimizer")
    + _around("mindspeed_llm.core.models.gpt.gpt_model", "GPTModel.forward", "GPTModel.compute_language_model_loss")
    + _around("megatron.core.transformer.transformer_block", "TransformerBlock.forward")
    + _around("mindspeed_llm.core.transformer.transformer_layer", "TransformerLayer.forward")
    + _around("megatron.core.transformer.attention", "SelfAttention.forward")
    + _around("megatron.core.transformer.mlp", "MLP.forward")
    + _around("megatron.core.transformer.moe.moe_layer", "MoELayer.forward")
    + _around("megatron.core.transformer.moe.router", "TopKRouter.forward")
    + _around("megatron.core.pipeline_parallel.schedules", "backward_step")
    + _around("mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model", "gpt_model_backward")
    + _around("megatron.core.tensor_parallel.cross_entropy", "vocab_parallel_cross_entropy")
    + _around(
        "megatron.core.optimizer.optimizer",
        "MegatronOptimizer.step",
        "MixedPrecisionOptimizer.step",
        "Float16OptimizerWithFloat16Params.step",
        "FP32Optimizer.step",
        "ChainedOptimizer.step",
    )
    + _around("megatron.core.optimizer.distrib_optimizer", "DistributedOptimizer.step_with_ready_grads")
)

TABLE = Framework(
    "mindspeed_llm",
    distribution="mindspeed_llm",
    package="mindspeed_llm",
    entries=(Entry("0.12+", "training", "snapshot", _TRAINING),),
)
