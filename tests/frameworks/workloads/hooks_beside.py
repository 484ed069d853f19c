"""What else torch can do with a model works as it does without hooks: HOOKS OUTPUT, HOOKS being `hooks` or `bare`.

Says what torch's compiler has made of it, which must be the same, and warnings are errors.
"""

import json
import sys
import types
import warnings

import msmemscope

HOOKS, OUTPUT = sys.argv[1:3]

import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

warnings.simplefilter("error")
# torch's own, of parts that are to go.
warnings.simplefilter("ignore", FutureWarning)
warnings.simplefilter("ignore", DeprecationWarning)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def compiled(x):
    """Graphs and calls that the compiler captured, and what the model said."""
    model = Net()
    called = torch.compile(model, backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(optimizer.step, backend="aot_eager")
    for _ in range(3):
        y = called(x)
        y.sum().backward()
        step()
        optimizer.zero_grad()
    statistics = torch._dynamo.utils.counters["stats"]
    in_place = Net()
    in_place.compile(backend="aot_eager", fullgraph=True)
    in_place(x).sum().backward()
    return [statistics["unique_graphs"], statistics["calls_captured"], y.sum().item()]


def hooked_function(x):
    """A function with a hook, inside of what is compiled."""
    module = types.ModuleType("module")
    exec("def double(x):\n    return x * 2\n", module.__dict__)
    if HOOKS == "hooks":
        from msmemscope.frameworks import patches
        from msmemscope.frameworks.hooks import During, Target

        patches.hook(module, "double", During(Target("module", "double"), ((2, "process"),)))
    return torch.compile(lambda x: module.double(x) + 1, backend="aot_eager", fullgraph=True)(x).sum().item()


def tried(x):
    model = Net()
    # A strict export of torch 2.7 cannot stand hooks for all modules, whoever's they are.
    torch.export.export(Net(), (x,), strict=False)
    torch.jit.trace(Net(), x)
    torch.fx.symbolic_trace(Net())
    for reentrant in (True, False):
        checkpoint(model, x.clone().requires_grad_(), use_reentrant=reentrant).sum().backward()
    with torch._subclasses.FakeTensorMode():
        Net()(torch.randn(4, 8))
    with torch.device("meta"):
        Net()
    lazy = torch.nn.LazyLinear(4)
    lazy(x)
    embedding = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(list(embedding.parameters()))
    embedding(torch.tensor([1])).sum().backward()
    optimizer.step()
    parameters = dict(model.named_parameters())
    torch.func.functional_call(model, parameters, (x,))
    torch.func.vmap(model)(x[None])
    torch.func.grad(lambda given: torch.func.functional_call(model, given, (x,)).sum())(parameters)
    closed = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        closed.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    closed.step(closure)
    torch.ao.quantization.quantize_dynamic(Net(), {torch.nn.Linear})(x)


torch.manual_seed(0)
module, autograd = sys.modules["torch.nn.modules.module"], sys.modules["torch.autograd.graph"]
kept = [autograd._engine_run_backward, torch.autograd._engine_run_backward, torch.nn.Module._apply]
if HOOKS == "hooks":
    msmemscope.config(device="cpu", analysis="decompose", output=OUTPUT)
    msmemscope.start()
x = torch.randn(4, 8)
told = {"compiled": compiled(x), "function": hooked_function(x)}
tried(x)
if HOOKS == "hooks":
    msmemscope.stop()
    msmemscope.cleanup_framework_hooks()
left = [autograd._engine_run_backward, torch.autograd._engine_run_backward, torch.nn.Module._apply]
told["restored"] = all(now is before for now, before in zip(left, kept))
told["left"] = len(module._global_forward_hooks) + len(module._global_forward_pre_hooks)
print(json.dumps(told))
