"""The tables of frameworks, against packages with the same modules, classes and methods, and what is asked of them."""

import importlib
import sys
import types
import unittest
import warnings
from typing import Any, Dict, List
from unittest import mock

import fake_frameworks
import msmemscope
from hooked import HookedCase
from msmemscope.frameworks import notes, patches, pytorch, registry, tensors, versions
from msmemscope.frameworks.hooks import Target


class Versions(unittest.TestCase):
    def test_keys_match_the_versions_they_speak_of(self) -> None:
        for key, matching, others in (
            ("11.0", ["11.0", "11", "11.0.0rc1"], ["11.0.1", "11.1", "1.1"]),
            ("2.6+", ["2.6", "2.6.0+cu126", "2.10", "3"], ["2.5.9", "2", "1.13"]),
            ("2.6-2.9", ["2.6", "2.9", "2.9.1.post3", "v2.7.1"], ["2.10", "2.10.0a0", "2.5.1", "3.0"]),
            ("0.6-0.7.0", ["0.6.1", "0.7", "0.7.0"], ["0.7.1", "0.8"]),
            ("2.9-2.10", ["2.9.1", "2.10.5"], ["2.11", "2.8"]),
            ("*", ["0", "99.9"], []),
        ):
            for version in matching:
                self.assertTrue(versions.matches(key, versions.parse(version)), (key, version))
            for version in others:
                self.assertFalse(versions.matches(key, versions.parse(version)), (key, version))

    def test_what_is_no_version_is_said(self) -> None:
        for text in ("", "latest", "+cu", "x1.2"):
            with self.assertRaisesRegex(ValueError, "is not a version"):
                versions.parse(text)

    def test_every_key_of_every_table_is_a_key(self) -> None:
        for table in registry.FRAMEWORKS.values():
            for entry in table.entries:
                versions.matches(entry.versions, (1, 2))
                self.assertIn(entry.hook_type, registry.HOOK_TYPES)
                self.assertTrue(entry.hooks)


class Asking(HookedCase):
    def test_what_the_table_does_not_have_is_said_with_what_it_has(self) -> None:
        for arguments, message in (
            (("jax", "1", "x", "decompose"), "bad value 'jax' for framework; allowed: pytorch, vllm_ascend, verl, mindspeed_llm"),
            (("pytorch", "2.7", "fsdp2", "leaks"), "bad value 'leaks' for hook_type; allowed: decompose, snapshot"),
            (("pytorch", "newest", "fsdp2", "decompose"), "bad value for version: 'newest' is not a version"),
            (("pytorch", "2.7", "fsdp3", "decompose"), "bad value 'fsdp3' for component of pytorch; allowed: fsdp1, fsdp2"),
            (("pytorch", "2.7", "fsdp2", "snapshot"), "bad value 'snapshot' for hook_type: pytorch fsdp2 has only decompose"),
            (("pytorch", "2.3.1", "fsdp2", "decompose"), "bad value '2.3.1' for version of pytorch fsdp2; known: 2.4-2.5, 2.6+, 2.6-2.9"),
            (("verl", "0.7.0", "TaskRunner", "decompose"), "has only snapshot"),
        ):
            with self.assertRaises(ValueError) as raised:
                msmemscope.init_framework_hooks(*arguments)
            self.assertIn(message, str(raised.exception))
        with self.assertRaisesRegex(TypeError, "version must be a str, not float"):
            msmemscope.init_framework_hooks("pytorch", 2.7, "fsdp2", "decompose")  # type: ignore[arg-type]
        self.assertFalse(registry._wanted.chosen)

    def test_matching_keys_are_united_and_nothing_is_there_twice(self) -> None:
        def targets(*arguments: str) -> List[Target]:
            return [hook.target for hook in registry.chosen_hooks(*arguments)]

        functions = [target for target in targets("pytorch", "2.9.1", "fsdp2", "decompose") if "foreach" in target.path]
        self.assertEqual(len(functions), 4)
        newer = targets("pytorch", "2.15.0", "fsdp2", "decompose")
        self.assertEqual(len(newer), len(set(newer)))
        paths = {target.path for target in newer}
        self.assertLessEqual({"DefaultAllGather.allocate", "SymmMemReduceScatter.allocate", "FSDPState._pre_backward"}, paths)
        self.assertFalse([path for path in paths if "foreach" in path])

    def test_asking_twice_hooks_once_and_cleaning_up_restores_everything(self) -> None:
        self.write(fake_frameworks.VLLM_ASCEND_0_18)
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner
        before = dict(vars(runner))
        for _ in range(2):
            msmemscope.init_framework_hooks("vllm_ascend", "0.18.0", "worker", "decompose")
        runner().profile_run()
        self.assertEqual(self.recorder.told, [("start", 1, "vllm"), ("start", 2, "profile"), ("end", 2, "profile"), ("end", 1, "vllm")])
        worker = self.load("vllm_ascend.worker.worker").NPUWorker
        self.assertTrue(hasattr(worker.compile_or_warm_up_model, "__wrapped__"))
        msmemscope.cleanup_framework_hooks()
        self.assertEqual(dict(vars(runner)), before)
        self.assertFalse(hasattr(worker.compile_or_warm_up_model, "__wrapped__"))
        self.assertEqual(patches.hooked(), [])

    def test_what_a_module_lacks_is_said_once(self) -> None:
        lacking = {**fake_frameworks.VERL_0_7, "verl.trainer.main_ppo": "class TaskRunner:\n    def run(self): return 1\n"}
        self.write(lacking)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            msmemscope.init_framework_hooks("verl", "0.7.0", "TaskRunner", "snapshot")
            module = self.load("verl.trainer.main_ppo")
            importlib.reload(module)
            msmemscope.init_framework_hooks("verl", "0.7.0", "TaskRunner", "snapshot")
        self.assertEqual(len(caught), 1, [str(warning.message) for warning in caught])
        message = str(caught[0].message)
        self.assertIs(caught[0].category, msmemscope.MemScopeWarning)
        self.assertIn("not all of verl.trainer.main_ppo is hooked", message)
        self.assertIn("it has no add_critic_worker in its class TaskRunner; it has no", message)
        self.assertTrue(hasattr(module.TaskRunner.run, "__wrapped__"))


class Automatic(HookedCase):
    """What start() does if memory is to be decomposed."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(registry.end)

    def test_all_frameworks_are_hooked_by_their_own_versions_until_the_end(self) -> None:
        self.write(fake_frameworks.VLLM_ASCEND_0_11)
        registry.begin()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner
            worker = self.load("vllm_ascend.worker.worker_v1").NPUWorker
        self.assertEqual(caught, [])
        worker().compile_or_warm_up_model()
        self.assertEqual(self.recorder.told[:2], [("start", 1, "vllm"), ("start", 2, "warmup")])
        registry.end()
        self.assertEqual(patches.hooked(), [])
        self.recorder.told.clear()
        runner().execute_model()
        self.assertEqual(self.recorder.told, [])
        registry.begin()
        runner().execute_model()
        self.assertEqual(self.recorder.told[1], ("start", 2, "serve"))

    def test_hooks_that_the_user_chose_are_the_only_ones_and_stay(self) -> None:
        self.write({**fake_frameworks.VLLM_ASCEND_0_18, **fake_frameworks.VERL_0_7})
        registry.begin()
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner
        self.assertTrue(patches.hooked())
        msmemscope.init_framework_hooks("pytorch", "2.7", "fsdp1", "decompose")
        self.assertEqual(patches.hooked(), [])
        msmemscope.init_framework_hooks("vllm_ascend", "0.18", "worker", "decompose")
        registry.end()
        registry.begin()
        registry.end()
        runner().execute_model()
        self.assertEqual(self.recorder.told[1], ("start", 2, "serve"))

    def test_snapshots_do_not_keep_memory_from_being_decomposed(self) -> None:
        self.write({**fake_frameworks.VLLM_ASCEND_0_18, **fake_frameworks.VERL_0_7})
        msmemscope.init_framework_hooks("verl", "0.7.0", "TaskRunner", "snapshot")
        registry.begin()
        self.load("vllm_ascend.worker.worker").NPUWorker().compile_or_warm_up_model()
        self.assertIn(("start", 2, "warmup"), self.recorder.told)


class Tensor:
    """As much of a tensor as is looked at."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Parameter(Tensor):
    pass


class Model:
    def __init__(self, *parts: "Model", **held: Any) -> None:
        self._parameters: Dict[str, Any] = {}
        self._buffers: Dict[str, Any] = {}
        self.parts = parts
        self.__dict__.update(held)

    def modules(self) -> List["Model"]:
        return [self] + [module for part in self.parts for module in part.modules()]


def fake_torch() -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    torch.nn = types.SimpleNamespace(Parameter=Parameter)  # type: ignore[attr-defined]
    return torch


class VllmAscend(HookedCase):
    def setUp(self) -> None:
        super().setUp()
        patched = mock.patch.dict(sys.modules, torch=fake_torch())
        patched.start()
        self.addCleanup(patched.stop)

    def hook(self, modules: Dict[str, str], version: str, hook_type: str = "decompose") -> None:
        self.write(modules)
        msmemscope.init_framework_hooks("vllm_ascend", version, "worker", hook_type)

    def inside(self, call: Any) -> str:
        """The labels that what the framework allocates within a call would have."""
        found: List[str] = []
        self.load("seen").inside = lambda *_: found.append(self.recorder.now())
        call()
        self.assertEqual(self.recorder.open, [])
        return found[0]

    def blocks(self) -> Dict[int, str]:
        texts: Dict[int, Dict[int, str]] = {}
        for what, *told in self.recorder.told:
            if what == "block":
                address, level, text = told
                texts.setdefault(address, {})[level] = text
        return {address: "@".join(text for _, text in sorted(levels.items())) for address, levels in texts.items()}

    def test_every_phase_of_serving_has_its_label(self) -> None:
        for modules, version, worker in (
            (fake_frameworks.VLLM_ASCEND_0_11, "0.11.0", "worker_v1"),
            (fake_frameworks.VLLM_ASCEND_0_12, "0.12.0rc1", "worker_v1"),
            (fake_frameworks.VLLM_ASCEND_0_18, "11.0", "worker"),
        ):
            with self.subTest(version):
                for name in [name for name in sys.modules if name.startswith("vllm_ascend")]:
                    del sys.modules[name]
                self.hook(modules, version)
                runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner()
                self.assertEqual(self.inside(runner.profile_run), "vllm@profile")
                self.assertEqual(self.inside(lambda: runner.execute_model("input")), "vllm@serve")
                if hasattr(runner, "sample_tokens"):
                    self.assertEqual(self.inside(lambda: runner.sample_tokens("grammar")), "vllm@serve")
                self.assertEqual(self.inside(runner.capture_model), "graph_pool")
                npu_worker = self.load(f"vllm_ascend.worker.{worker}").NPUWorker()
                self.assertEqual(self.inside(npu_worker.compile_or_warm_up_model), "vllm@warmup")
                # Graphs are captured while warming up.
                self.load("seen").inside = lambda name, *_: self.assertEqual(self.recorder.now(), "vllm@warmup@graph_pool") if name.endswith(
                    "capture_model"
                ) else runner.capture_model()
                npu_worker.compile_or_warm_up_model()
                msmemscope.cleanup_framework_hooks()

    def test_the_runner_of_the_second_kind_has_what_it_inherits_hooked(self) -> None:
        self.hook(fake_frameworks.VLLM_ASCEND_0_18, "0.18.0")
        module = self.load("vllm_ascend.worker.v2.model_runner")
        self.assertEqual(self.inside(module.NPUModelRunner().execute_model), "vllm@serve")
        self.assertEqual(self.inside(module.GPUModelRunner().execute_model), "")

    def test_weights_are_those_of_adapters_of_the_draft_and_of_the_model(self) -> None:
        self.hook(fake_frameworks.VLLM_ASCEND_0_11, "0.11.0")
        shared = Parameter(0x30)
        layer = Model(lora_a={"q": Tensor(0x50)}, lora_b_stacked=(Tensor(0x60), Tensor(0)))
        layer._parameters = {"weight": Parameter(0x10), "none": None}
        layer._buffers = {"scale": Tensor(0x20)}
        model, drafter = Model(layer), Model()
        model._parameters, drafter._parameters = {"shared": shared}, {"shared": shared, "own": Parameter(0x40)}
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner(
            model=model, drafter=types.SimpleNamespace(model=drafter)
        )
        runner.load_model()
        weights = "vllm@weights"
        self.assertEqual(
            self.blocks(),
            {0x10: weights, 0x20: weights, 0x30: f"{weights}@drafter", 0x40: f"{weights}@drafter", 0x50: f"{weights}@lora", 0x60: f"{weights}@lora"},
        )

    def test_caches_are_told_by_the_kind_of_their_layers(self) -> None:
        self.hook(fake_frameworks.VLLM_ASCEND_0_11, "0.11.0")
        specs = {name: type(name, (), {})() for name in ("MambaSpec", "FullAttentionSpec", "HiddenStateCacheSpec")}
        groups = [types.SimpleNamespace(kv_cache_spec=spec, layer_names=[name]) for name, spec in specs.items()]
        config = types.SimpleNamespace(kv_cache_groups=groups)
        caches = {"MambaSpec": [Tensor(1), Tensor(2)], "FullAttentionSpec": (Tensor(3), Tensor(4)), "HiddenStateCacheSpec": Tensor(5)}
        expected = {1: "mamba", 2: "mamba", 3: "attn", 4: "attn", 5: "hidden_state"}
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner()
        self.load("seen").inside = lambda *_: caches
        for method in ("initialize_kv_cache_tensors", "initialize_kv_cache_tensors_deepseek_mla"):
            self.assertIs(getattr(runner, method)(kv_cache_config=config), caches)
            self.assertEqual(self.blocks(), {address: f"vllm@kv_cache@{kind}" for address, kind in expected.items()})
            self.recorder.told.clear()
        # Newer ones say themselves which layer is what.
        runner._get_layer_kv_cache_specs = lambda config: {name: specs["MambaSpec"] for name in specs}
        runner.initialize_kv_cache_tensors(config)
        self.assertEqual(set(self.blocks().values()), {"vllm@kv_cache@mamba"})

    def test_caches_of_older_versions_are_those_the_runner_holds(self) -> None:
        self.hook(fake_frameworks.VLLM_ASCEND_0_11, "0.9.1")
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner(kv_caches=[Tensor(7)])
        runner.initialize_kv_cache("config")
        self.assertEqual(self.blocks(), {7: "vllm@kv_cache@attn"})

    def test_a_callback_that_fails_is_a_warning(self) -> None:
        self.hook(fake_frameworks.VLLM_ASCEND_0_11, "0.11.0")
        runner = self.load("vllm_ascend.worker.model_runner_v1").NPUModelRunner(model=types.SimpleNamespace(modules=lambda: 1 / 0))
        with self.assertWarnsRegex(msmemscope.MemScopeWarning, "NPUModelRunner.load_model failed and is left out: ZeroDivisionError"):
            runner.load_model()


class Snapshots(HookedCase):
    def setUp(self) -> None:
        super().setUp()
        self.taken: List[str] = []
        taking = mock.patch.object(msmemscope, "take_snapshot", lambda name: self.taken.append(name), create=True)
        taking.start()
        self.addCleanup(taking.stop)

    def expect(self, name: str, call: Any) -> None:
        self.taken.clear()
        call()
        self.assertEqual(self.taken, [f"{name}@Start", f"{name}@End"])

    def test_of_vllm_ascend(self) -> None:
        self.write(fake_frameworks.VLLM_ASCEND_0_18)
        msmemscope.init_framework_hooks("vllm_ascend", "11.0", "worker", "snapshot")
        module = "vllm_ascend.worker.model_runner_v1"
        runner = self.load(module).NPUModelRunner()
        for method in ("load_model", "profile_run", "initialize_kv_cache", "execute_model", "capture_model"):
            self.expect(f"{module}@NPUModelRunner@{method}", getattr(runner, method))
        worker = self.load("vllm_ascend.worker.worker").NPUWorker()
        self.expect("vllm_ascend.worker.worker@NPUWorker@compile_or_warm_up_model", worker.compile_or_warm_up_model)

    def test_of_verl(self) -> None:
        self.write(fake_frameworks.VERL_0_7)
        msmemscope.init_framework_hooks("verl", "0.7.0", "TaskRunner", "snapshot")
        runner = self.load("verl.trainer.main_ppo").TaskRunner()
        for method in ("add_actor_rollout_worker", "add_critic_worker", "add_reward_model_worker", "add_ref_policy_worker", "run"):
            self.expect(f"verl.trainer.main_ppo@TaskRunner@{method}", lambda: getattr(runner, method)("config"))

    def test_of_verl_where_its_runner_has_moved(self) -> None:
        self.write(fake_frameworks.VERL_0_9)
        msmemscope.init_framework_hooks("verl", "0.9.1", "TaskRunner", "snapshot")
        self.expect("verl.trainer.main_ppo@TaskRunnerV1@run", self.load("verl.trainer.main_ppo").TaskRunnerV1().run)
        runner = self.load("verl.trainer.main_ppo_v0").TaskRunner()
        for method in ("add_actor_rollout_worker", "add_reward_model_resource_pool", "run"):
            self.expect(f"verl.trainer.main_ppo_v0@TaskRunner@{method}", lambda: getattr(runner, method)("config"))

    def test_of_mindspeed_llm(self) -> None:
        self.write(fake_frameworks.MINDSPEED_LLM)
        msmemscope.init_framework_hooks("mindspeed_llm", "0.12.1", "training", "snapshot")
        functions = {
            "mindspeed_llm.training.training": ["train", "train_step"],
            "megatron.training.training": ["setup_model_and_optimizer", "get_model"],
            "megatron.core.optimizer": ["get_megatron_optimizer"],
            "megatron.core.pipeline_parallel.schedules": ["backward_step"],
            "mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model": ["gpt_model_backward"],
            "megatron.core.tensor_parallel.cross_entropy": ["vocab_parallel_cross_entropy"],
        }
        methods = {
            "mindspeed_llm.core.models.gpt.gpt_model": ["GPTModel.forward", "GPTModel.compute_language_model_loss"],
            "megatron.core.transformer.transformer_block": ["TransformerBlock.forward"],
            "mindspeed_llm.core.transformer.transformer_layer": ["TransformerLayer.forward"],
            "megatron.core.transformer.attention": ["SelfAttention.forward"],
            "megatron.core.transformer.mlp": ["MLP.forward"],
            "megatron.core.transformer.moe.moe_layer": ["MoELayer.forward"],
            "megatron.core.transformer.moe.router": ["TopKRouter.forward"],
            "megatron.core.optimizer.optimizer": [
                f"{name}.step"
                for name in (
                    "MegatronOptimizer",
                    "MixedPrecisionOptimizer",
                    "Float16OptimizerWithFloat16Params",
                    "FP32Optimizer",
                    "ChainedOptimizer",
                )
            ],
            "megatron.core.optimizer.distrib_optimizer": ["DistributedOptimizer.step_with_ready_grads"],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for module, names in functions.items():
                for name in names:
                    self.expect(f"{module}@{name}", getattr(self.load(module), name))
            for module, paths in methods.items():
                for path in paths:
                    cls, method = path.split(".")
                    self.expect(f"{module}@{cls}@{method}", getattr(getattr(self.load(module), cls)(), method))
        self.assertEqual(notes._told, set())

    def test_the_end_is_told_of_a_call_that_raises(self) -> None:
        self.write(fake_frameworks.VERL_0_7)
        msmemscope.init_framework_hooks("verl", "0.7.0", "TaskRunner", "snapshot")
        runner = self.load("verl.trainer.main_ppo").TaskRunner()
        self.load("seen").inside = lambda *_: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            runner.run()
        self.assertEqual(self.taken, ["verl.trainer.main_ppo@TaskRunner@run@Start", "verl.trainer.main_ppo@TaskRunner@run@End"])


class Tensors(HookedCase):
    def setUp(self) -> None:
        super().setUp()
        patched = mock.patch.dict(sys.modules, torch=fake_torch())
        patched.start()
        self.addCleanup(patched.stop)

    def test_addresses_are_those_of_what_a_tensor_is_made_of(self) -> None:
        local = Tensor(0)
        local.__class__ = type("DTensor", (Tensor,), {})
        local.__dict__["_local_tensor"] = Parameter(8)
        made_of = type("Quantized", (Tensor,), {"__tensor_flatten__": lambda self: (["data", "scale", "gone"], None)})(0)
        made_of.data, made_of.scale = Tensor(16), Tensor(24)
        self.assertEqual(list(tensors.addresses(local)), [8])
        self.assertEqual(list(tensors.addresses(made_of)), [16, 24])

    def test_what_has_no_memory_has_no_address(self) -> None:
        fake = Tensor(8)
        fake.data_ptr = mock.Mock(side_effect=RuntimeError("Cannot access data pointer"))  # type: ignore[method-assign]
        itself = type("Itself", (Tensor,), {"__tensor_flatten__": lambda self: (["me"], None)})(8)
        itself.me = itself
        for tensor in (fake, itself, Tensor(0), None, 7):
            self.assertEqual(list(tensors.addresses(tensor)), [])

    def test_tensors_are_found_in_containers(self) -> None:
        a, b, c = Tensor(1), Tensor(2), Tensor(3)
        self.assertEqual(list(tensors.tensors_in({"a": [a, None], "b": (b, {"c": c}), "d": 5})), [a, b, c])
        deep: Any = a
        for _ in range(10):
            deep = [deep]
        self.assertEqual(list(tensors.tensors_in(deep)), [])


if __name__ == "__main__":
    unittest.main()
