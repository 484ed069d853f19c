"""How memory goes up and down, and the peak."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ._report import Report, read


@dataclass(frozen=True)
class OwnerShare:
    """What an owner holds of a pool."""

    #: Levels joined by `@`; `None` of unlabelled memory, of which `origin` is known.
    owner: Optional[str]
    origin: Optional[str]
    bytes: int
    blocks: int
    percent: float


@dataclass(frozen=True)
class SiteShare:
    """What blocks of one line of code hold of a pool."""

    bytes: int
    blocks: int
    percent: float
    #: The line and its callers, innermost first.
    frames: Tuple[str, ...]
    #: It is not the user's own code.
    foreign: bool


@dataclass(frozen=True)
class Peak:
    """When most of a pool was in use, and who held it."""

    pid: int
    device: str
    pool: str
    bytes: int
    blocks: int
    #: Since the recording began.
    after_ns: int
    step: Optional[int]
    reserved_bytes: Optional[int]
    unused_bytes: Optional[int]
    owners: Tuple[OwnerShare, ...]
    sites: Tuple[SiteShare, ...]


@dataclass(frozen=True)
class Gap:
    """The least and the most in use within a step, or within a piece of time where there are no steps."""

    #: The least over the most, in percent.
    ratio: float
    min_bytes: int
    max_bytes: int
    step: Optional[int]
    after_ns: Optional[int]


@dataclass(frozen=True)
class Balance:
    """What steps, from the second on, ended with against what they began with."""

    steps: int
    grown: int
    shrunk: int


@dataclass(frozen=True)
class PoolFluctuation:
    """How the memory of a pool goes up and down."""

    pid: int
    device: str
    pool: str
    min_gap: Optional[Gap]
    max_gap: Optional[Gap]
    balance: Optional[Balance]


class Fluctuation(Report):
    """How memory goes up and down within steps, and what held it at the peak."""

    @property
    def pools(self) -> Tuple[PoolFluctuation, ...]:
        """Of all devices and processes."""
        return tuple(read(PoolFluctuation, pool, pid=pid) for pid, pool in self._pools())

    @property
    def peaks(self) -> Tuple[Peak, ...]:
        """Of the pools that ever held anything."""
        return tuple(
            read(Peak, pool["peak"], pid=pid, device=pool["device"], pool=pool["pool"])
            for pid, pool in self._pools()
            if pool["peak"] is not None
        )

    def _pools(self) -> List[Tuple[int, Dict[str, Any]]]:
        return [(pid, pool) for pid, found in self._of_processes("fluctuation") for pool in found["pools"]]
