"""What was going on when memory ran out."""

from dataclasses import dataclass
from typing import Optional, Tuple

from ._report import Report, read


@dataclass(frozen=True)
class SiteAtOom:
    """A line of code, and who called it."""

    frames: Tuple[str, ...]
    via: Optional[str]
    own: bool


@dataclass(frozen=True)
class HolderAtOom:
    """What a line of code held when memory ran out."""

    bytes: int
    blocks: int
    frames: Tuple[str, ...]
    via: Optional[str]
    own: bool


@dataclass(frozen=True)
class BlockAtOom:
    """A block that was alive when memory ran out."""

    address: str
    bytes: int
    owner: Optional[str]
    thread: int
    step: Optional[int]
    after_ns: int
    frames: Tuple[str, ...]
    via: Optional[str]
    own: bool


@dataclass(frozen=True)
class PoolAtOom:
    """A pool when memory ran out."""

    pool: str
    used: int
    blocks: int
    peak: int
    reserved: Optional[int]
    #: Reserved and handed out to nobody.
    idle: Optional[int]
    idle_is_enough: Optional[bool]
    sites: Tuple[HolderAtOom, ...]
    largest: Tuple[BlockAtOom, ...]
    newest: Tuple[BlockAtOom, ...]
    new_bytes: int
    new_sites: Tuple[HolderAtOom, ...]


@dataclass(frozen=True)
class Oom:
    """Memory was asked for and refused."""

    pid: int
    device: str
    call: str
    #: That were asked for.
    bytes: int
    thread: int
    step: Optional[int]
    after_ns: int
    tries: int
    site: SiteAtOom
    stack: Tuple[str, ...]
    #: `asked_no_more`, `refused_again`, `given_less` or `given`.
    then: str
    pools: Tuple[PoolAtOom, ...]


class OutOfMemory(Report):
    """What was going on when memory ran out."""

    @property
    def ooms(self) -> Tuple[Oom, ...]:
        """The first ones of each process, and the last."""
        return tuple(read(Oom, oom, pid=pid) for pid, found in self._of_processes("oom") for oom in found["ooms"])

    @property
    def killed(self) -> Tuple[int, ...]:
        """Processes that the kernel ended for want of memory, as far as can be told."""
        return tuple(pid for pid, found in self._of_processes("oom") if found["killed"] is not None)
