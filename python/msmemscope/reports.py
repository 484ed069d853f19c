"""What analyses find: small objects that do not change.

Every report prints as the command does (`str(report)`, `report.text`), shows itself in a notebook, and is the document of
`msmemscope analyze --json` as a dict (`to_dict()`). Its fields are those of the document, as types; sizes are bytes, times
nanoseconds.
"""

import copy
import dataclasses
import functools
import html
import typing
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

__all__ = [
    "Balance",
    "BlockAtOom",
    "Bytes",
    "Comparison",
    "ComparedOwner",
    "ComparedPool",
    "ComparedSite",
    "Decomposition",
    "DeviceDecomposition",
    "DevicePair",
    "Fluctuation",
    "Gap",
    "Growth",
    "Inefficiency",
    "Inefficient",
    "Leak",
    "Leaks",
    "Oom",
    "OutOfMemory",
    "OwnerShare",
    "OwnerTree",
    "Peak",
    "PoolDecomposition",
    "PoolFluctuation",
    "Report",
    "SiteShare",
]

_T = TypeVar("_T")


@functools.lru_cache(maxsize=None)
def _hints(kind: Any) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(kind: Any, value: Any) -> Any:
    """A part of a document as the type that it is."""
    origin = typing.get_origin(kind)
    if origin is Union:
        return None if value is None else _typed(typing.get_args(kind)[0], value)
    if origin is tuple:
        return tuple(_typed(typing.get_args(kind)[0], item) for item in value or ())
    if dataclasses.is_dataclass(kind):
        hints: Dict[str, Any] = _hints(typing.cast(Any, kind))
        # A field that Python has another use for ends with an underscore.
        return kind(**{name: _typed(hint, value.get(name.rstrip("_"))) for name, hint in hints.items()})  # type: ignore[operator]
    return value


def _read(kind: Type[_T], value: Dict[str, Any], **more: Any) -> _T:
    return typing.cast(_T, _typed(kind, {**value, **more}))


class Report:
    """What came of an analysis, of every process that was read."""

    def __init__(self, document: Dict[str, Any], text: str) -> None:
        self._document = document
        self._text = text

    @property
    def text(self) -> str:
        """What the command prints."""
        return self._text

    def to_dict(self) -> Dict[str, Any]:
        """The document of `msmemscope analyze --json`, or of `--compare --json`."""
        return copy.deepcopy(self._document)

    @property
    def lacking(self) -> Dict[int, str]:
        """By process: what it would need for this analysis and does not have."""
        return {
            process["pid"]: why
            for process in self._document.get("processes", [])
            for why in process.get("lacking", {}).values()
        }

    def _of_processes(self, word: str) -> List[Tuple[int, Dict[str, Any]]]:
        """The part of each process that has one."""
        return [(process["pid"], process[word]) for process in self._document["processes"] if word in process]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and type(self) is type(other) and self._document == other._document

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        lines = self._text.splitlines()
        return f"<{type(self).__name__}: {lines[0] if lines else 'nothing'}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"


# Leaks


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
        return tuple(_read(Leak, leak) for leak in self._document.get("leaks", []))

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


# Fluctuation and the peak


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
        return tuple(_read(PoolFluctuation, pool, pid=pid) for pid, pool in self._pools())

    @property
    def peaks(self) -> Tuple[Peak, ...]:
        """Of the pools that ever held anything."""
        return tuple(
            _read(Peak, pool["peak"], pid=pid, device=pool["device"], pool=pool["pool"])
            for pid, pool in self._pools()
            if pool["peak"] is not None
        )

    def _pools(self) -> List[Tuple[int, Dict[str, Any]]]:
        return [(pid, pool) for pid, found in self._of_processes("fluctuation") for pool in found["pools"]]


# Decomposition


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
            _read(DeviceDecomposition, device, pid=pid)
            for pid, found in self._of_processes("decompose")
            for device in found["devices"]
        )


# Memory that is held for nothing


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
            _read(Inefficiency, finding, pid=pid)
            for pid, found in self._of_processes("inefficient")
            for finding in found["inefficient"]
        )


# Out of memory


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
        return tuple(_read(Oom, oom, pid=pid) for pid, found in self._of_processes("oom") for oom in found["ooms"])

    @property
    def killed(self) -> Tuple[int, ...]:
        """Processes that the kernel ended for want of memory, as far as can be told."""
        return tuple(pid for pid, found in self._of_processes("oom") if found["killed"] is not None)


# Comparison


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
        return tuple(_read(DevicePair, pair) for pair in self._document["compare"]["pairs"])
