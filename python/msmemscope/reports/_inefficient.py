"""Memory that is held for nothing."""

from dataclasses import dataclass
from typing import Optional, Tuple

from ._report import Report, read


@dataclass(frozen=True)
class WorstBlock:
    """The block of a finding that costs most."""

    allocation_id: int
    address: str
    size: int
    #: Operators that passed meanwhile.
    operators: int
    from_: Optional[str]
    to: Optional[str]


@dataclass(frozen=True)
class Inefficiency:
    """Blocks of one line of code that are allocated too early, freed too late, or idle."""

    pid: int
    #: `early_allocation`, `late_deallocation` or `temporary_idleness`.
    type: str
    device: str
    pool: str
    blocks: int
    times: int
    bytes: int
    #: What findings are ranked by: bytes times operators.
    byte_operators: int
    bytes_at_peak: int
    site: Optional[str]
    callers: Tuple[str, ...]
    via: Optional[str]
    own: bool
    stack: Tuple[str, ...]
    owner: Optional[str]
    operator: Optional[str]
    worst: WorstBlock


class Inefficient(Report):
    """Memory that is held for nothing."""

    @property
    def findings(self) -> Tuple[Inefficiency, ...]:
        """The most expensive of each process first."""
        return tuple(
            read(Inefficiency, finding, pid=pid)
            for pid, found in self._of_processes("inefficient")
            for finding in found["inefficient"]
        )
