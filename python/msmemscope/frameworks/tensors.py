"""Where tensors lie, whatever they are made of. Works on torch's tensors without importing torch."""

import sys
from typing import Any, Iterator

#: Tensors within tensors, and containers within containers: what is nested deeper is not followed.
_DEEPEST = 4


def addresses(tensor: Any, depth: int = 0) -> Iterator[int]:
    """Addresses in the memory of a tensor: one, or several if it is made of others. None of what has no memory of its own (on the
    device `meta`, fake), or whose memory is not one piece (sparse)."""
    torch = sys.modules.get("torch")
    if torch is None or depth > _DEEPEST or not isinstance(tensor, torch.Tensor):
        return
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        local = tensor.__dict__.get("_local_tensor")
        if local is not None:
            yield from addresses(local, depth + 1)
            return
        if hasattr(kind, "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                yield from addresses(getattr(tensor, name, None), depth + 1)
            return
    try:
        if tensor.layout is torch.strided and not tensor.is_meta:
            address = tensor.data_ptr()
            if address:
                yield address
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        # It has no memory: not initialised yet, fake, functional, or of a kind that keeps it elsewhere.
        return


def tensors_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in a value: itself, or those in dictionaries, lists and tuples."""
    torch = sys.modules.get("torch")
    if torch is None or depth > _DEEPEST:
        return
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in list(value.values()):
            yield from tensors_in(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth + 1)
