"""What is not given back."""

from dataclasses import dataclass
from typing import Optional, Tuple

from ._report import Report, read


@dataclass(frozen=True)
class Growth:
    """What shows that memory grows."""

    first_step: int
    last_step: int
    bytes: int
    rises: int
    bytes_per_step: float


@dataclass(frozen=True)
class Leak:
    """Memory that one line of code, device and pool has not given back."""

    pid: int
    device: str
    pool: str
    #: `grows`, `kept` or `carried`; `None` between marks.
    verdict: Optional[str]
    bytes: int
    blocks: int
    first_step: Optional[int]
    last_step: Optional[int]
    #: Bytes that are left, by the step they were made in.
    per_step: Tuple[int, ...]
    #: Bytes the line held when each step ended.
    live_per_step: Tuple[int, ...]
    growth: Optional[Growth]
    #: The line; `None` without call stacks.
    site: Optional[str]
    callers: Tuple[str, ...]
    via: Optional[str]
    #: Whether it is the user's own code.
    own: bool
    stack: Tuple[str, ...]
    owner: Optional[str]
    operator: Optional[str]
    #: Of the largest blocks.
    addresses: Tuple[str, ...]
    sizes: Tuple[int, ...]


class Leaks(Report):
    """What is not given back, and whether it grows."""

    @property
    def leaks(self) -> Tuple[Leak, ...]:
        """Of all processes, what grows fastest first."""
        return tuple(read(Leak, leak) for leak in self._document.get("leaks", []))

    @property
    def growing(self) -> Tuple[Leak, ...]:
        """Only what grows from step to step: the leaks proper."""
        return tuple(leak for leak in self.leaks if leak.verdict == "grows")

    @property
    def too_short(self) -> bool:
        """Too few steps, or too little time, to say what grows."""
        return any(found.get("too_short", False) for _, found in self._of_processes("leaks"))

    def of(self, device: Optional[str] = None, pool: Optional[str] = None) -> Tuple[Leak, ...]:
        """Those of a device, of a pool, or of both."""
        return tuple(leak for leak in self.leaks if _is_of(leak.device, leak.pool, device, pool))


def _is_of(device: str, pool: str, wanted_device: Optional[str], wanted_pool: Optional[str]) -> bool:
    return wanted_device in (None, device, f"npu:{device}") and wanted_pool in (None, pool)
