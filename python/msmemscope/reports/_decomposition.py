"""What memory is made of."""

from dataclasses import dataclass
from typing import Optional, Tuple

from ._fluctuation import OwnerShare
from ._report import Report, read


@dataclass(frozen=True)
class OwnerTree:
    """A level of owners; `children` sum up to it."""

    level: str
    bytes: int
    blocks: int
    percent: float
    children: Tuple["OwnerTree", ...]


@dataclass(frozen=True)
class PoolDecomposition:
    """What the memory of a pool is made of, at a moment."""

    pool: str
    bytes: int
    blocks: int
    reserved_bytes: Optional[int]
    owners: Tuple[OwnerShare, ...]
    tree: Tuple[OwnerTree, ...]


@dataclass(frozen=True)
class DecomposedMoment:
    """A device at a moment."""

    after_ns: int
    step: Optional[int]
    #: What the driver handed out; `None` if that was not recorded.
    driver_bytes: Optional[int]
    #: What pools took of it.
    pool_bytes: int
    pools: Tuple[PoolDecomposition, ...]


@dataclass(frozen=True)
class DecomposedStep:
    """A device at the end of a step."""

    step: int
    after_ns: int
    pools: Tuple[PoolDecomposition, ...]


@dataclass(frozen=True)
class DeviceDecomposition:
    """What the memory of a device is made of."""

    pid: int
    device: str
    peak: Optional[DecomposedMoment]
    #: The moment that was asked for, unless that is the peak.
    at: Optional[DecomposedMoment]
    steps: Tuple[DecomposedStep, ...]


class Decomposition(Report):
    """What memory is made of, by owner."""

    @property
    def devices(self) -> Tuple[DeviceDecomposition, ...]:
        """Of all processes."""
        return tuple(
            read(DeviceDecomposition, device, pid=pid)
            for pid, found in self._of_processes("decompose")
            for device in found["devices"]
        )
