"""Trains a small transformer, recorded by msmemscope, and says what its own tensors take: WAY DEVICE OUTPUT.

WAY: `plain` (a loop), `late` (the model was built before start()), `no_step` (no optimizer), `compiled` (by torch.compile, without code
for a device), `wrong` (a forward, a backward and a step that raise, before the training), `old_hooks` (torch's hooks for all modules
are as in torch 2.3, which did not tell them keywords).
"""

import json
import sys

import msmemscope

WAY, DEVICE, OUTPUT = sys.argv[1:4]
EVENTS = sys.argv[4] if len(sys.argv) > 4 else "alloc,free"

if DEVICE == "cpu":
    import torch
if WAY == "old_hooks":
    modules = torch.nn.modules.module
    register = modules.register_module_forward_hook
    modules.register_module_forward_hook = lambda hook, *, always_call=False: register(hook, always_call=always_call)
msmemscope.config(device=DEVICE, analysis="decompose", events=EVENTS, output=OUTPUT)
if WAY != "late":
    msmemscope.start()

import torch  # noqa: E402, F811  on NPUs start() comes first

if DEVICE == "npu":
    import torch_npu  # noqa: E402, F401

WIDTH = 256
ON = "npu:0" if DEVICE == "npu" else "cpu"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rise = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2 * WIDTH, 2 * WIDTH) for _ in range(3))
        self.fall = torch.nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x):
        x = torch.relu(self.rise(x * self.scale))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.fall(x)


def take(tensors):
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    # torch_npu hands out blocks of 512 bytes, with room for 32 more than was asked for.
    return sum(sizes) if ON == "cpu" else sum((size + 32 + 511) // 512 * 512 for size in sizes)


def fail(model, optimizer):
    """What was begun ends, also if it raises."""
    def raises(*_):
        raise KeyError("on purpose")

    for attempt in (
        lambda: model.layers[1](torch.ones(1, 7, device=ON)),
        lambda: model("no tensor"),
        lambda: (handle := model.rise.weight.register_hook(raises), model(torch.ones(8, WIDTH, device=ON)).sum().backward(), handle),
        lambda: optimizer.step(raises),
    ):
        try:
            attempt()
        except (KeyError, RuntimeError, TypeError, AttributeError):
            continue
        sys.exit("it did not fail")
    model.rise.weight._backward_hooks.clear()
    model.zero_grad()


model = Net().to(ON)
called = torch.compile(model, backend="aot_eager", fullgraph=True) if WAY == "compiled" else model
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
if WAY == "late":
    # What there was before is not in the recording: all of it is made anew.
    msmemscope.start()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        model.scale = model.scale.clone()
if WAY == "wrong":
    fail(model, optimizer)
for _ in range(3):
    x = torch.randn(64, WIDTH, device=ON)
    loss = torch.nn.functional.mse_loss(called(x=x) if WAY == "old_hooks" else called(x), x)
    optimizer.zero_grad()
    loss.backward()
    if WAY != "no_step":
        optimizer.step()
    msmemscope.step()
print(json.dumps({
    "weight": take(model.parameters()),
    "gradient": take(parameter.grad for parameter in model.parameters()),
    # The count of steps stays on the host.
    "optimizer_state": take(
        tensor for state in optimizer.state.values() for tensor in state.values() if tensor.device.type == ON.partition(":")[0]
    ),
    "buffer": take(model.buffers()),
    "input": take([x]),
}))
msmemscope.stop()
