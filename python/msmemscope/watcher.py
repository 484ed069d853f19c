"""Watches blocks of memory: before and after each operator what they hold is noted, and the report says who overwrote them.

    import msmemscope

    msmemscope.watcher.watch(tensor, name="weights")
    ...
    msmemscope.watcher.remove(tensor)
"""

from typing import Any, NamedTuple, Optional, Set, Tuple

from . import _native

#: Longest name of a watched block.
LONGEST_NAME = 64
_MOST = 2**64
_HOST = -1

#: Places that were watched at some time: whoever removes another has mistaken the block.
_watched: Set[Tuple[int, int]] = set()


class _Block(NamedTuple):
    """Where the memory of a tensor is, or what an address and a length say."""

    address: int
    length: int
    #: Where the memory begins that it is part of, 0 if that is not known.
    storage: int
    #: The number of an NPU, or `_HOST`; nothing if only the address is known.
    device: Optional[int]


def watch(block: Any, *, name: str, length: Optional[int] = None, dump_nums: int = -1) -> None:
    """Watches a tensor, or `length` bytes at an address, from here on.

    `name` (1 to 64 characters) is what files and reports call it. `dump_nums` is how often it is looked at: before and after an operator
    each count one; -1, the default, is no limit. Blocks are independent of each other, and so are their numbers.

    A tensor may be of any subclass (a `Parameter`), a view, and on the CPU. Of a view that is not contiguous all bytes between its first
    and its last element are watched. The tensor is not kept alive: when its memory is freed, the watch ends.

    Raises `TypeError` or `ValueError` for an argument that cannot be, and `MemScopeError` where nothing is recorded.
    """
    _check_name(name)
    looks = _whole_number("dump_nums", dump_nums)
    if looks != -1 and looks < 1:
        raise ValueError(f"dump_nums is {looks}; allowed are -1, for no limit, and numbers from 1")
    found = _find(block, length)
    _native.watch(found, name, looks)
    _watched.add((found.address, found.length))


def remove(block: Any, *, length: Optional[int] = None) -> None:
    """Watches a tensor, or `length` bytes at an address, no more.

    One that has ended by itself may be removed all the same. Raises `ValueError` for a block that never was watched.
    """
    found = _find(block, length)
    place = (found.address, found.length)
    if _native.unwatch(*place) == 0 and place not in _watched:
        raise ValueError(f"no block of {found.length} bytes at {found.address:#x} was watched")


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise ValueError(f"name has {len(name)} characters; allowed are 1 to {LONGEST_NAME}")


def _whole_number(what: str, number: object) -> int:
    # A bool is an int, and never meant as one here.
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{what} must be an int, not {type(number).__name__}")
    return int(number.__index__())


def _find(block: Any, length: Optional[int]) -> _Block:
    if length is not None:
        if hasattr(block, "data_ptr"):
            raise TypeError("length goes with an address; a tensor knows its own")
        return _at_address(block, length)
    if not hasattr(block, "data_ptr"):
        if isinstance(block, int):
            raise TypeError("length is missing; an address needs one, e.g. watch(tensor.data_ptr(), length=1024, name=...)")
        raise TypeError(f"the block must be a tensor, or an address and length=..., not {type(block).__name__}")
    return _of_tensor(block)


def _at_address(address: object, length: object) -> _Block:
    start, size = _whole_number("the address", address), _whole_number("length", length)
    if not 0 < start < _MOST:
        raise ValueError(f"the address is {start}; allowed are 1 to 2**64 - 1")
    if not 0 < size <= _MOST - start:
        raise ValueError(f"length is {size}; allowed are 1 up to the end of the address space")
    return _Block(start, size, 0, None)


def _of_tensor(tensor: Any) -> _Block:
    kind = tensor.device.type
    if kind not in ("cpu", "npu"):
        raise ValueError(f"the tensor is on {tensor.device}; watched can be tensors on the cpu and on npus")
    try:
        address = int(tensor.data_ptr())
        length = _bytes_between_ends(tensor)
        storage = int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError) as error:
        raise ValueError(f"the tensor has no memory of its own: {error}") from error
    if address == 0 or length == 0:
        raise ValueError(f"the tensor has no memory: its shape is {tuple(tensor.shape)}")
    return _Block(address, length, storage, _HOST if kind == "cpu" else tensor.device.index)


def _bytes_between_ends(tensor: Any) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((last + 1) * tensor.element_size())
