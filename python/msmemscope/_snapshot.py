"""How much memory is in use at a moment."""

import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _native
from ._recording import prepare
from ._span import Span, checked_text

DeviceMask = Union[None, int, List[int], Tuple[int, ...]]
#: Reserved and its most, allocated and its most, free and total.
_Memory = Tuple[int, int, int, int, int, int]

_NAME = "Memory Snapshot"
#: As the recording has them: each NPU whose memory was seen, and the host.
_ALL, _HOST = 9998, 10000
_MOST_DEVICES = 1024


def take_snapshot(device_mask: DeviceMask = None, name: str = _NAME) -> None:
    """Notes how much memory of devices is in use: a row `SNAPSHOT` of this name for each.

    `device_mask` is the number of a device, as torch has it, or a list or tuple of numbers; `None` is all devices. The numbers are
    those of torch_npu where the program uses it, else those of the memory recorded so far. Works without `start()`, too.
    """
    devices = _devices(device_mask)
    name = checked_text("name", name)
    prepare()
    _take(devices, name)


class TakeSnapshot(Span):
    """Snapshots before and after a piece of code, named `<name> Start` and `<name> End`: a context manager and a decorator."""

    __slots__ = ("device_mask", "name")

    def __init__(self, device_mask: DeviceMask = None, name: str = _NAME) -> None:
        _devices(device_mask)
        self.device_mask = device_mask
        self.name = checked_text("name", name)

    def _open(self) -> None:
        take_snapshot(self.device_mask, f"{self.name} Start")

    def _close(self) -> None:
        take_snapshot(self.device_mask, f"{self.name} End")

    def __repr__(self) -> str:
        return f"TakeSnapshot({self.device_mask!r}, {self.name!r})"


def _devices(mask: object) -> Optional[List[int]]:
    """The numbers, each once; `None` for all."""
    if mask is None:
        return None
    numbers: Sequence[object] = mask if isinstance(mask, (list, tuple)) else [mask]
    if not numbers:
        raise ValueError(f"bad value {mask!r} for device_mask; allowed: {_ALLOWED}")
    found: List[int] = []
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"bad value {mask!r} for device_mask; allowed: {_ALLOWED}")
        if not 0 <= number < _MOST_DEVICES:
            raise ValueError(f"bad value {number} for device_mask; allowed: {_ALLOWED}")
        if number not in found:
            found.append(number)
    return found


_ALLOWED = f"None, the number of a device (0 to {_MOST_DEVICES - 1}), or a list or tuple of numbers"


def _take(devices: Optional[List[int]], name: str) -> None:
    npu = _torch_npu()
    count = _ALL if npu is None else int(npu.device_count())
    if devices is not None and max(devices) >= count:
        raise ValueError(f"bad value {max(devices)} for device_mask; allowed: the devices torch_npu sees, which are {count}")
    if npu is None:
        for device in [_ALL] if devices is None else devices:
            _native.snapshot(name, device)
    else:
        for device in range(count) if devices is None else devices:
            _native.snapshot(name, device, _told(npu, device))
    if devices is None:
        _native.snapshot(name, _HOST, _of_process())


def _torch_npu() -> Optional[Any]:
    """torch's module of NPUs, if the program uses one already: a snapshot does not begin to."""
    torch = sys.modules.get("torch")
    if torch is None or "torch_npu" not in sys.modules:
        return None
    npu = getattr(torch, "npu", None)
    try:
        return npu if npu is not None and npu.is_initialized() else None
    except Exception:  # whatever a device raises that is about to begin or has ended
        return None


def _told(npu: Any, device: int) -> Optional[_Memory]:
    """What torch_npu says of a device; `None` of one it has not used: asking for its free memory would begin to."""
    try:
        reserved = int(npu.memory_reserved(device))
        if not reserved and device != npu.current_device():
            return None
        free, total = npu.mem_get_info(device)
        return (
            reserved,
            int(npu.max_memory_reserved(device)),
            int(npu.memory_allocated(device)),
            int(npu.max_memory_allocated(device)),
            int(free),
            int(total),
        )
    except Exception:  # a snapshot must not end the program it is of
        return None


def _of_process() -> Optional[_Memory]:
    """What this process and its machine have in use; what is allocated of it the recording knows."""
    try:
        process = _sizes("/proc/self/status", ("VmRSS", "VmHWM"))
        machine = _sizes("/proc/meminfo", ("MemAvailable", "MemTotal"))
    except OSError:
        return None
    if len(process) + len(machine) < 4:
        return None
    return (process["VmRSS"], process["VmHWM"], 0, 0, machine["MemAvailable"], machine["MemTotal"])


def _sizes(path: str, names: Tuple[str, ...]) -> Dict[str, int]:
    """Of lines like `VmRSS:  12 kB`, in bytes."""
    sizes: Dict[str, int] = {}
    with open(path, encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, size = line.partition(":")
            if name in names and size.split():
                sizes[name] = int(size.split()[0]) * 1024
    return sizes
