"""Where tensors lie, whatever they are made of. Works on torch's tensors without importing torch."""

import sys
from typing import Any, Iterator, Sequence

#: Tensors within tensors, and containers within containers: what is nested deeper is not followed.
_DEEPEST = 4


def addresses(tensor: Any, depth: int = 0) -> Sequence[int]:
    """Addresses in the memory of a tensor: one, or several if it is made of others. None of what has no memory of its own (on the
    device `meta`, fake), or whose memory is not one piece (sparse)."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ()
    kind = type(tensor)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        if depth > _DEEPEST or not isinstance(tensor, torch.Tensor):
            return ()
        local = tensor.__dict__.get("_local_tensor")
        if local is not None:
            return addresses(local, depth + 1)
        if hasattr(kind, "__tensor_flatten__"):
            parts = (getattr(tensor, name, None) for name in tensor.__tensor_flatten__()[0])
            return [address for part in parts for address in addresses(part, depth + 1)]
    try:
        address = tensor.data_ptr()
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        # It has no memory, or not one piece: not initialised yet, fake, functional, sparse, or of a kind that keeps it elsewhere.
        return ()
    return (address,) if address else ()


def tensors_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in a value: itself, or those in dictionaries, lists and tuples."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)) and depth < _DEEPEST:
        for item in list(value.values()) if isinstance(value, dict) else value:
            if isinstance(item, torch.Tensor):
                yield item
            elif isinstance(item, (dict, list, tuple)):
                yield from tensors_in(item, depth + 1)
