"""Two runs, or two steps."""

from dataclasses import dataclass
from typing import Optional, Tuple

from ._report import Report, read


@dataclass(frozen=True)
class Bytes:
    """Of the base, of the compared, and the latter less the former."""

    base: int
    compared: int
    difference: int


@dataclass(frozen=True)
class Subject:
    """What is compared."""

    source: str
    pid: int
    command: str
    device: str
    step: Optional[int]


@dataclass(frozen=True)
class LaunchCounts:
    """How many launches there are, and how many belong together."""

    base: int
    compared: int
    both: int
    base_only: int
    compared_only: int


@dataclass(frozen=True)
class ComparedName:
    """All launches of one name."""

    name: str
    launches: LaunchCounts
    bytes: Bytes
    difference_of_both: int


@dataclass(frozen=True)
class ComparedLevel:
    """The operators of two devices, or the kernels."""

    launches: LaunchCounts
    bytes: Bytes
    #: Those that differ, the largest difference first.
    names: Tuple[ComparedName, ...]


@dataclass(frozen=True)
class ComparedOwner:
    """What an owner held."""

    owner: Optional[str]
    base: int
    compared: int


@dataclass(frozen=True)
class ComparedSite:
    """What a line of code held."""

    site: Tuple[str, ...]
    via: Optional[str]
    own: bool
    base: int
    compared: int
    blocks_base: int
    blocks_compared: int


@dataclass(frozen=True)
class ComparedPool:
    """Who held more or less of a pool, at the peak or at the end of the step."""

    pool: str
    at: str
    base: int
    compared: int
    owners: Tuple[ComparedOwner, ...]
    sites: Tuple[ComparedSite, ...]
    stackless: bool


@dataclass(frozen=True)
class DevicePair:
    """A device of the base and a device of the compared."""

    base: Subject
    compared: Subject
    bytes: Bytes
    operators: Optional[ComparedLevel]
    kernels: Optional[ComparedLevel]
    pools: Tuple[ComparedPool, ...]


class Comparison(Report):
    """What changed between two runs, or two steps."""

    @property
    def pairs(self) -> Tuple[DevicePair, ...]:
        """Which device of which process is compared with which."""
        return tuple(read(DevicePair, pair) for pair in self._document["compare"]["pairs"])
