"""torch_operators.py cpu|npu [full] [attached OUTPUT]: operators of every kind, and what Python knows of the tensors they are given.

Before and after each case stands an operator that cannot be mistaken: the memory of a tensor of so many elements is written.
Prints one line of JSON: for each case the launches and accesses that are expected, in order. `attached` records itself, and begins
when torch is already in use.
"""
import ctypes
import json
import os
import sys
import threading

import torch

DEVICE = sys.argv[1]
if DEVICE == "npu":
    import torch_npu  # noqa: F401
FULL = "full" in sys.argv[2:]
ATTACHED = "attached" in sys.argv[2:]
FIRST_SEPARATOR = 1000

cases = []


def tensor(mode, value, name=None):
    """An access as its row should have it."""
    return {"mode": mode, "address": value.data_ptr(), "size": value.numel() * value.element_size(),
            "dtype": str(value.dtype), "shape": str(value.shape), "name": name}


def separate(place):
    torch.zeros(FIRST_SEPARATOR + 2 * len(cases) + place, device=DEVICE)


def case(title, run, accesses=None, launches=None, contains=(), absent=(), counts=None):
    """`run` between two separators; `accesses` and the others are asked for what is expected when it has run."""
    separate(0)
    kept = run()
    separate(1)
    cases.append({
        "title": title,
        "accesses": None if accesses is None else accesses(kept),
        "launches": launches,
        "contains": [found for wanted in contains for found in wanted(kept)],
        "absent": list(absent),
        "counts": counts or {},
    })
    return kept


def values(*shape):
    return torch.arange(float(torch.Size(shape).numel()), device=DEVICE).reshape(shape)


def plain_cases():
    x, y = values(4, 6), values(4, 6)

    case("functional", lambda: x + y, lambda z: [tensor("READ", x), tensor("READ", y), tensor("WRITE", z)],
         ["aten::add.Tensor"])
    case("in place", lambda: x.add_(y), lambda _: [tensor("WRITE", x), tensor("READ", y)], ["aten::add_.Tensor"])
    out = torch.empty(4, 6, device=DEVICE)
    case("out", lambda: torch.mul(x, y, out=out),
         lambda _: [tensor("READ", x), tensor("READ", y), tensor("WRITE", out)], ["aten::mul.out"])
    resized = torch.empty(0, device=DEVICE)
    case("out that gets its memory", lambda: torch.mul(x, y, out=resized),
         lambda _: [tensor("READ", x), tensor("READ", y), tensor("WRITE", resized)], ["aten::mul.out"])
    case("list", lambda: torch.cat([x, y, out]),
         lambda z: [*(tensor("READ", t) for t in (x, y, out)), tensor("WRITE", z)], ["aten::cat"])
    left, right = [values(3), values(5)], [values(3), values(5)]
    case("foreach", lambda: torch._foreach_add_(left, right),
         lambda _: [*(tensor("WRITE", t) for t in left), *(tensor("READ", t) for t in right)], ["aten::_foreach_add_.List"])
    case("views", lambda: (x.view(24), x.t(), x[1:]), lambda _: [], ["aten::view", "aten::t", "aten::slice.Tensor"])
    case("part of a storage", lambda: x[1:] * x[:-1],
         lambda z: [tensor("READ", x[1:]), tensor("READ", x[:-1]), tensor("WRITE", z)],
         ["aten::slice.Tensor", "aten::slice.Tensor", "aten::mul.Tensor"])
    case("several results", lambda: torch.max(x, 1),
         lambda z: [tensor("READ", x), tensor("WRITE", z.values), tensor("WRITE", z.indices)], ["aten::max.dim"])
    case("optional tensors", lambda: torch.native_layer_norm(x, [6], None, None, 1e-5),
         lambda z: [tensor("READ", x), *(tensor("WRITE", t) for t in z)], ["aten::native_layer_norm"])
    index = torch.tensor([0, 2], device=DEVICE)
    case("list of optional tensors", lambda: torch.ops.aten.index.Tensor(x, [None, index]),
         lambda z: [tensor("READ", x), tensor("READ", index), tensor("WRITE", z)], ["aten::index.Tensor"])
    deep = values(2, 1, 2, 1, 2, 3)
    case("six dimensions", lambda: deep + deep,
         lambda z: [tensor("READ", deep), tensor("READ", deep), tensor("WRITE", z)], ["aten::add.Tensor"])
    case("another type", lambda: x.to(torch.float16), lambda z: [tensor("READ", x), tensor("WRITE", z)], ["aten::_to_copy"])
    case("factories", lambda: (torch.zeros_like(x), torch.empty_like(x), x.new_zeros(7)),
         lambda z: [tensor("WRITE", z[0]), tensor("WRITE", z[2])],
         ["aten::zeros_like", "aten::empty_like", "aten::new_zeros"])
    nothing = torch.empty(0, 3, device=DEVICE)
    case("no elements", lambda: nothing + nothing, lambda _: [], ["aten::add.Tensor"])
    case("composite", lambda: torch.nn.functional.linear(x, y),
         contains=[lambda z: [tensor("READ", x, None), tensor("WRITE", z, None)]], absent=["aten::linear"])

    def fail():
        try:
            torch.add(values(2), values(3))
        except RuntimeError:
            return x * y
        raise AssertionError("shapes that do not fit were added")

    case("an operator that fails", fail, contains=[lambda z: [tensor("WRITE", z, "aten::mul.Tensor")]],
         counts={"aten::mul.Tensor": 1})


def backward_case():
    weight, x = values(6, 3).requires_grad_(), values(4, 6)

    def step():
        product = x.mm(weight)
        product.sum().backward()
        return product

    # On a device this is in a thread of autograd's.
    case("backward", step, contains=[lambda z: [tensor("READ", x, "aten::mm"), tensor("WRITE", z, "aten::mm"),
                                                tensor("WRITE", weight.grad, "aten::mm")]])


def layered_cases():
    """torch's own layers above the operators: each operator is told once, and by what has the memory."""
    from torch.utils._python_dispatch import TorchDispatchMode
    x, y = values(4, 6), values(4, 6)

    class Through(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    def nested():
        with Through(), Through():
            return x + y

    case("dispatch modes", nested, lambda z: [tensor("READ", x), tensor("READ", y), tensor("WRITE", z)], ["aten::add.Tensor"])

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            plain = [arg.inner if isinstance(arg, Wrapper) else arg for arg in args]
            return Wrapper(function(*plain, **(kwargs or {})))

    wrapped = Wrapper(x)
    case("tensors that stand for others", lambda: wrapped * wrapped,
         lambda z: [tensor("READ", x), tensor("READ", x), tensor("WRITE", z.inner)], ["aten::mul.Tensor"])
    gradient = torch.func.grad(lambda t: (t * t).sum())
    gradient(x)
    case("functorch", lambda: gradient(x), contains=[lambda _: [tensor("READ", x, "aten::mul.Tensor")]])
    case("vmap", lambda: torch.func.vmap(lambda a, b: a - b)(x, y),
         contains=[lambda z: [tensor("READ", x, "aten::sub.Tensor"), tensor("READ", y, "aten::sub.Tensor"),
                              tensor("WRITE", z, "aten::sub.Tensor")]])
    if DEVICE == "cpu":
        from torch._subclasses.fake_tensor import FakeTensorMode
        fake = FakeTensorMode().from_tensor(x)
        case("fake tensors", lambda: fake * fake, lambda _: [])

        # To ask for its address would copy it.
        original = values(4, 6)
        shared = tensor("READ", original)
        lazy = torch._lazy_clone(original)
        case("shared until written", lambda: lazy * y, lambda z: [shared, tensor("READ", y), tensor("WRITE", z)])
        assert torch._C._is_cow_tensor(lazy), "a shared tensor was copied"

    def profiled():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
            result = x * y
        assert "aten::mul" in {event.name for event in profiler.events()}
        return result

    case("beside a profiler", profiled, contains=[lambda z: [tensor("READ", x, "aten::mul.Tensor"),
                                                             tensor("WRITE", z, "aten::mul.Tensor")]],
         counts={"aten::mul.Tensor": 1})


class Listener(ctypes.Structure):
    """`at::RecordFunctionCallback`."""
    _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p), ("share", ctypes.c_double), ("scopes", ctypes.c_bool * 10),
                ("needs", ctypes.c_bool * 3)]


def library_of_torch():
    return ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))


def is_observed():
    """Whether somebody is registered with torch to be told of every call."""
    asked = library_of_torch()._ZN2at18hasGlobalCallbacksEv
    asked.restype = ctypes.c_bool
    return asked()


def listeners_case():
    """More listen than torch has room for in place."""
    x, y = values(4, 6), values(4, 6)
    library = library_of_torch()
    add, remove = library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE, library._ZN2at14removeCallbackEm
    add.argtypes, add.restype, remove.argtypes = [Listener], ctypes.c_uint64, [ctypes.c_uint64]
    handles = []

    def run():
        for number in range(1, 6):
            handles.append(add(Listener(None, None, 1.0, (True,), (False, number % 2 == 0, False))))
            x * y
        for handle in handles:
            remove(handle)
        return x * y

    case("beside five listeners", run, contains=[lambda z: [tensor("WRITE", z, "aten::mul.Tensor")]],
         counts={"aten::mul.Tensor": 6})


def thread_case():
    x = values(4, 6)
    threads, rounds = 4, 50
    kept = []

    def work():
        for _ in range(rounds):
            kept.append(x * x)

    def run():
        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    case("threads", run, counts={"aten::mul.Tensor": threads * rounds})


def distributed_cases():
    import torch.distributed as distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "0")
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    x, whole = values(4, 6), torch.empty(4, 6)
    distributed.all_reduce(x.clone())
    case("collective in place", lambda: distributed.all_reduce(x),
         contains=[lambda _: [tensor("WRITE", x, "c10d::allreduce_")]])
    case("collective", lambda: distributed.all_gather_into_tensor(whole, x),
         contains=[lambda _: [tensor("WRITE", whole, "c10d::_allgather_base_"), tensor("READ", x, "c10d::_allgather_base_")]])
    distributed.destroy_process_group()


def compiled_case():
    x, y = values(4, 6), values(4, 6)
    compiled = torch.compile(lambda a, b: (a * b).relu(), backend="aot_eager", fullgraph=True)
    compiled(x, y)
    expected = (x * y).relu()
    result = case("compiled", lambda: compiled(x, y),
                  contains=[lambda z: [tensor("READ", x, "aten::mul.Tensor"), tensor("READ", y, "aten::mul.Tensor"),
                                       tensor("WRITE", z, "aten::relu")]], counts={"aten::mul.Tensor": 1})
    assert torch.equal(result, expected)


def fork_case():
    x = torch.arange(5.0)
    child = os.fork()
    if child == 0:
        x.mul_(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return child


def allocations():
    """So often memory was taken for tensors, if somebody counts."""
    count = getattr(ctypes.CDLL(None), "alloc_cpu_calls", None)
    if count is None:
        return None
    model = torch.nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, batch_first=True)
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(2, 8, 16)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    step()
    before = count()
    step()
    return count() - before


torch.manual_seed(0)
torch.set_num_threads(1)
if ATTACHED:
    import msmemscope
    torch.zeros(3, device=DEVICE).mul_(2)
    msmemscope.config(device=DEVICE, level="op", events="launch,access", output=sys.argv[-1])
    msmemscope.start()
with torch.no_grad():
    plain_cases()
backward_case()
layered_cases()
thread_case()
if FULL:
    distributed_cases()
    compiled_case()
observed = is_observed()
with torch.no_grad():
    listeners_case()
child = fork_case() if DEVICE == "cpu" else None
print(json.dumps({"first": FIRST_SEPARATOR, "cases": cases, "child": child, "allocations": allocations(),
                  "observed": observed, "torch": torch.__version__, "pid": os.getpid()}), flush=True)
