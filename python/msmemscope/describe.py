"""What memory is: labels that become part of its owner, in every row and report.

    from msmemscope import describe

    @describe.describer(owner="embedding")       # what the function allocates
    def embed(tokens): ...

    with describe.describer(owner="attention"):  # what is allocated in here
        ...

    describe.describer(tensor, owner="kv_cache")  # the memory of a tensor, whenever it was allocated

Labels nest as deep as one likes: the owner of what is allocated in both of the above is `PTA@embedding@attention`. A label holds
for the thread that opened it.
"""

import os
import threading
from typing import Any, List, Optional, overload

from . import _native
from ._span import Span, checked_text

__all__ = ["describer"]

#: The user's own labels; the levels before are those of frameworks.
_USER = 5
_LAST_ADDRESS = (1 << 64) - 1


class _OpenLabels(threading.local):
    """The labels open in a thread: a recording that begins within them has to be told."""

    def __init__(self) -> None:
        self.labels: List[str] = []


_open_labels = _OpenLabels()


class _Label(Span):
    """What the thread allocates within it has the label."""

    __slots__ = ("owner",)

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def _open(self) -> None:
        _open_labels.labels.append(self.owner)
        _native.label_start(_USER, self.owner)

    def _close(self) -> None:
        labels, owner = _open_labels.labels, self.owner
        if labels and labels[-1] == owner:
            labels.pop()
        elif owner in labels:
            del labels[len(labels) - 1 - labels[::-1].index(owner)]
        _native.label_end(_USER, owner)

    def __repr__(self) -> str:
        return f"describer(owner={self.owner!r})"


def tell_open_labels() -> None:
    """To a recording that began just now, of this process or of a forked child."""
    for owner in _open_labels.labels:
        _native.label_start(_USER, owner)


os.register_at_fork(after_in_child=tell_open_labels)


@overload
def describer(*, owner: str) -> Span: ...
@overload
def describer(target: Any, *, owner: str) -> None: ...
def describer(target: Optional[Any] = None, *, owner: str) -> Optional[Span]:
    """Labels memory as `owner`.

    Without a target: a context manager and a decorator; what its thread allocates within has the label. Around an `async` function
    or a generator it is open while that one runs, not while it waits.

    With a tensor, an array or an address as the target: the block of memory it is in has the label, also in the row of its
    allocation, which may be long ago. A second label replaces the first.

    Raises `TypeError` and `ValueError` for what cannot be labelled, or cannot be a label.
    """
    owner = checked_text("owner", owner)
    if target is None:
        return _Label(owner)
    address = _address(target)
    if address:
        _native.label_block(address, _USER, owner)
    return None


def _address(target: Any) -> int:
    """Where the memory of a target is; 0 if it has none."""
    if isinstance(target, int) and not isinstance(target, bool):
        if not 0 < target <= _LAST_ADDRESS:
            raise ValueError(f"bad value {target} for target; allowed: an address, from 1 to 2**64 - 1")
        return target
    # Of a distributed tensor this process has a part.
    local = getattr(target, "_local_tensor", target)
    if callable(getattr(local, "data_ptr", None)):
        try:
            address = int(local.data_ptr())
        except RuntimeError as error:  # as tensors without memory do
            raise ValueError(f"target has no memory of its own: {error}") from error
        return address
    interface = getattr(target, "__array_interface__", None)
    if isinstance(interface, dict) and isinstance(interface.get("data"), tuple):
        return int(interface["data"][0])
    raise TypeError(f"target must be a tensor, an array or an address (an int), not {type(target).__name__}")
