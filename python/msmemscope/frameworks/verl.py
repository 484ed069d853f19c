"""verl: which part of a reinforcement learning took the memory, by snapshots around the building of its parts. Names as in verl 0.6
to 0.9."""

from typing import Tuple

from .hooks import AnyHook, Entry, Framework, Snapshots, Target


def _runner(module: str, runner: str, *methods: str) -> Tuple[AnyHook, ...]:
    return tuple(Snapshots(Target(f"verl.trainer.{module}", f"{runner}.{method}")) for method in methods)


_WORKERS = ("add_actor_rollout_worker", "add_critic_worker", "add_ref_policy_worker", "run")

TABLE = Framework(
    "verl",
    distribution="verl",
    package="verl",
    entries=(
        Entry("0.6-0.8", "TaskRunner", "snapshot", _runner("main_ppo", "TaskRunner", *_WORKERS)),
        Entry("0.6-0.7.0", "TaskRunner", "snapshot", _runner("main_ppo", "TaskRunner", "add_reward_model_worker")),
        Entry("0.7.1-0.8", "TaskRunner", "snapshot", _runner("main_ppo", "TaskRunner", "add_reward_model_resource_pool")),
        Entry(
            "0.9+",
            "TaskRunner",
            "snapshot",
            _runner("main_ppo_v0", "TaskRunner", *_WORKERS, "add_reward_model_resource_pool")
            + _runner("main_ppo", "TaskRunnerV1", "run"),
        ),
    ),
)
