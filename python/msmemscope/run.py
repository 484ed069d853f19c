"""A recording, or dump files, opened: events, blocks, steps, and what analyses find in them."""

import html
import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _native
from ._native import (
    EVENTS,
    POOLS,
    TYPES,
    AnalysisWishes,
    Block,
    BlockBatch,
    Event,
    EventBatch,
    MemScopeError,
    Recording,
)
from ._recording import MemScopeWarning
from .reports import Comparison, Decomposition, Fluctuation, Inefficient, Leaks, OutOfMemory, Peak, Report

__all__ = [
    "EVENTS",
    "POOLS",
    "TYPES",
    "Block",
    "BlockBatch",
    "Blocks",
    "Event",
    "EventBatch",
    "Events",
    "Pool",
    "Process",
    "Run",
    "Step",
]

_R = TypeVar("_R", bound=Report)
_Thing = TypeVar("_Thing")
#: One or several.
Words = Union[None, str, int, Sequence[Union[str, int]]]
#: Events in a batch: enough not to notice the batches, few enough for any memory.
_BATCH = 1 << 16
#: Places that a warning names.
_DAMAGE_TOLD = 3


@dataclass(frozen=True)
class Step:
    """A step of the training."""

    pid: int
    number: int
    #: Nanoseconds since the epoch.
    begin_ns: int
    #: `None` if its end was not seen.
    end_ns: Optional[int]


@dataclass(frozen=True)
class Pool:
    """A pool of a device: how much of it was used."""

    pid: int
    device: str
    pool: str
    allocations: int
    frees: int
    allocated_bytes: int
    peak_bytes: int
    #: Nanoseconds since the epoch.
    peak_ns: int
    #: After the last event.
    live_bytes: int


@dataclass(frozen=True)
class Process:
    """A process that was recorded."""

    pid: int
    #: Empty where the files do not say.
    command: str
    #: The directory of its recording, or the file.
    path: str
    #: Whether it ended by itself; `None` where the files do not say.
    exited: Optional[bool]
    #: Nanoseconds since the epoch.
    start_ns: int
    first_ns: int
    last_ns: int
    #: Rows that its files have.
    events: int
    steps: Tuple[Step, ...]
    pools: Tuple[Pool, ...]
    #: What could not be read: places where a file was cut off or overwritten.
    damage: Tuple[str, ...] = ()


@dataclass(frozen=True)
class _Filter:
    """What is wanted to be seen."""

    devices: Tuple[str, ...] = ()
    pools: Tuple[str, ...] = ()
    events: Tuple[str, ...] = ()
    steps: Optional[Tuple[int, ...]] = None
    after: Optional[float] = None
    before: Optional[float] = None

    def narrowed(
        self, device: Words, pool: Words, event: Words, step: Words, time: Optional[Tuple[Optional[float], Optional[float]]]
    ) -> "_Filter":
        after, before = (self.after, self.before) if time is None else _times(time)
        return _Filter(
            _texts("device", device) or self.devices,
            _texts("pool", pool) or self.pools,
            _texts("event", event) or self.events,
            self.steps if step is None else _numbers(step),
            after,
            before,
        )

    def words(self) -> Tuple[List[str], List[str], List[str], Optional[List[int]], Optional[float], Optional[float]]:
        steps = None if self.steps is None else list(self.steps)
        return list(self.devices), list(self.pools), list(self.events), steps, self.after, self.before


def _several(key: str, value: Words) -> Tuple[Union[str, int], ...]:
    if value is None:
        return ()
    items = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    for item in items:
        if not isinstance(item, (str, int)) or isinstance(item, bool):
            raise TypeError(f"{key} must be a str or an int, or several of them, not {type(item).__name__}")
    return items


def _texts(key: str, value: Words) -> Tuple[str, ...]:
    return tuple(str(item) for item in _several(key, value))


def _numbers(value: Words) -> Tuple[int, ...]:
    numbers = []
    for item in _several("step", value):
        if not isinstance(item, int) or not 0 < item < 1 << 32:
            raise ValueError(f"bad value {item!r} for step; allowed: numbers from 1 on")
        numbers.append(item)
    return tuple(numbers)


def _whole(key: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{key} must be an int, not {type(value).__name__}")
    if not least <= value < 1 << 63:
        raise ValueError(f"bad value {value} for {key}; allowed: integers from {least}")
    return value


def _times(value: Tuple[Optional[float], Optional[float]]) -> Tuple[Optional[float], Optional[float]]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError("time must be a pair: seconds since the recording began, from and up to; None is no limit")
    for seconds in value:
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds >= 0):
            raise ValueError(f"bad value {seconds!r} for time; allowed: seconds since the recording began, or None")
    return value[0], value[1]


class _Chosen(Generic[_Thing]):
    """Things of a run that are read in batches: those that pass a filter."""

    def __init__(self, recording: Callable[[], Recording], filter: _Filter) -> None:
        self._recording = recording
        self._filter = filter

    def batches(self, size: int = _BATCH) -> Iterator[Iterable[_Thing]]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[_Thing]:
        for batch in self.batches():
            yield from batch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {_native.shown(os.fspath(self._recording().path))}>"


class Events(_Chosen[Event]):
    """The events of a run, in their order, of one process after the other: those that files have as rows.

    Iterate over it for one `Event` after the other, or over `batches()` for columns, which is two to three times as fast.
    """

    def filter(
        self,
        *,
        device: Words = None,
        pool: Words = None,
        event: Words = None,
        step: Words = None,
        time: Optional[Tuple[Optional[float], Optional[float]]] = None,
    ) -> "Events":
        """Only those of these devices (`"cpu"`, `0`, `"npu:0"`), pools (`"HOST"`, `"PTA"`), kinds (`"MALLOC"`), steps, and from
        and up to these seconds since the recording began. Each is one or several."""
        return Events(self._recording, self._filter.narrowed(device, pool, event, step, time))

    def batches(self, size: int = _BATCH) -> Iterator[EventBatch]:
        """Columns of about `size` events at a time."""
        return iter(self._recording().events(self._filter.words(), _whole("size", size, 1)))

    def to_pandas(self) -> Any:
        """A `DataFrame` with a row for each event. Needs pandas."""
        from ._pandas import frame_of_events

        return frame_of_events(self.batches())


class Blocks(_Chosen[Block]):
    """The blocks of a run, in the order in which they were freed, at last those that were not; of one process after the other.

    Iterate over it for one `Block` after the other, or over `batches()` for columns.
    """

    def filter(
        self,
        *,
        device: Words = None,
        pool: Words = None,
        step: Words = None,
        time: Optional[Tuple[Optional[float], Optional[float]]] = None,
    ) -> "Blocks":
        """Only those of these devices and pools that were allocated in these steps, and from and up to these seconds since the
        recording began. Each is one or several."""
        return Blocks(self._recording, self._filter.narrowed(device, pool, None, step, time))

    def batches(self, size: int = _BATCH) -> Iterator[BlockBatch]:
        """Columns of about `size` blocks at a time."""
        return iter(self._recording().blocks(self._filter.words(), _whole("size", size, 1)))

    def to_pandas(self) -> Any:
        """A `DataFrame` with a row for each block. Needs pandas."""
        from ._pandas import frame_of_blocks

        return frame_of_blocks(self.batches())


class Run:
    """A recording, a csv or a db file, opened by `msmemscope.open()` or made by `msmemscope.record()`.

    Nothing is read before it is asked for, and everything is read in pieces: memory grows with live blocks, stacks and steps,
    never with events.
    """

    def __init__(self, recording: Callable[[], Recording]) -> None:
        self._recording = recording
        self._processes: Optional[Tuple[Process, ...]] = None

    @property
    def path(self) -> str:
        """Where it was read from."""
        return os.fspath(self._recording().path)

    @property
    def events(self) -> Events:
        """What happened; see `Events`."""
        return Events(self._recording, _Filter())

    @property
    def blocks(self) -> Blocks:
        """Pieces of memory; see `Blocks`."""
        return Blocks(self._recording, _Filter())

    @property
    def processes(self) -> Tuple[Process, ...]:
        """Each with its steps and pools. The first time, everything is read, and a warning says what cannot be."""
        if self._processes is None:
            recording = self._recording()
            told = enumerate(recording.processes())
            self._processes = tuple(_process(recording, place, *process) for place, process in told)
            for process in self._processes:
                if process.damage:
                    what = "; ".join(process.damage[:_DAMAGE_TOLD]) + ("; …" if len(process.damage) > _DAMAGE_TOLD else "")
                    warnings.warn(_native.shown(f"not all of '{process.path}' can be read: {what}"), MemScopeWarning, stacklevel=2)
        return self._processes

    def process(self, pid: int) -> "Run":
        """Only this process."""
        recording = self._recording()
        for number, _, path, _ in recording.processes():
            if number == pid:
                part = Recording(path, pid, recording.span)
                return Run(lambda: part)
        known = ", ".join(str(number) for number, *_ in recording.processes())
        raise MemScopeError(_native.shown(f"no recording in '{self.path}' is of process {pid}; recorded: {known}"))

    @property
    def steps(self) -> Tuple[Step, ...]:
        """Of all processes."""
        return tuple(step for process in self.processes for step in process.steps)

    @property
    def pools(self) -> Tuple[Pool, ...]:
        """Of all devices and processes."""
        return tuple(pool for process in self.processes for pool in process.pools)

    @property
    def devices(self) -> Tuple[str, ...]:
        """`cpu`, and the numbers of NPUs, whose memory was recorded."""
        return tuple(dict.fromkeys(pool.device for pool in self.pools))

    def leaks(self, mstx_info: Optional[str] = None, start_index: int = 0) -> Leaks:
        """What is not given back, and whether it grows; with `mstx_info` what was allocated between two marks of this text, the
        first of them that of number `start_index`, and not freed by the third."""
        if mstx_info is not None and not isinstance(mstx_info, str):
            raise TypeError(f"mstx_info must be a str, not {type(mstx_info).__name__}")
        return self._analyze(Leaks, "leaks", mstx_info=mstx_info, start_index=_whole("start_index", start_index, 0))

    def fluctuation(self) -> Fluctuation:
        """How memory goes up and down within steps, and what held it at the peak."""
        return self._analyze(Fluctuation, "fluctuation")

    def peak(self, device: Union[None, str, int] = None, pool: Optional[str] = None) -> Peak:
        """When most memory was in use, and who held it: of the pool that held most, or of the one that is asked for."""
        wanted = None if device is None else str(device)
        wanted = wanted[4:] if wanted is not None and wanted.startswith("npu:") else wanted
        peaks = self.fluctuation().peaks
        found = [peak for peak in peaks if wanted in (None, peak.device) and pool in (None, peak.pool)]
        if not found:
            asked = " ".join(word for word in (wanted, pool) if word is not None)
            known = ", ".join(f"{peak.device} {peak.pool}" for peak in peaks)
            raise MemScopeError(_native.shown(f"'{self.path}' has no memory of {asked}; it has: {known}"))
        return max(found, key=lambda peak: peak.bytes)

    def decompose(self, at: Union[str, int, float] = "peak") -> Decomposition:
        """What memory is made of, by owner: at `"peak"`, `"end"`, `"main"` (when a Python program's own code had ended),
        `"step:3"`, or so many seconds after the recording began."""
        if isinstance(at, bool) or not isinstance(at, (str, int, float)):
            raise TypeError(f"at must be a str or a number, not {type(at).__name__}")
        return self._analyze(Decomposition, "decompose", at=at if isinstance(at, str) else f"{at:f}")

    def inefficient(
        self, mem_size: int = 0, inefficient_type: Union[None, str, Sequence[str]] = None, idle_threshold: int = 3000
    ) -> Inefficient:
        """Memory that is allocated too early, freed too late, or idle. Nothing is written."""
        types = inefficient_type if inefficient_type is None or isinstance(inefficient_type, str) else ",".join(inefficient_type)
        return self._analyze(
            Inefficient,
            "inefficient",
            mem_size=_whole("mem_size", mem_size, 0),
            inefficient_type=types,
            idle_threshold=_whole("idle_threshold", idle_threshold, 1),
        )

    def oom(self, listed: Optional[int] = None) -> OutOfMemory:
        """What was going on when memory ran out; `listed` blocks and call sites are told."""
        return self._analyze(OutOfMemory, "oom", listed=listed)

    def compare(
        self,
        other: "Union[None, Run, str, os.PathLike[str]]" = None,
        *,
        steps: Optional[Tuple[int, int]] = None,
        level: Optional[str] = None,
    ) -> Comparison:
        """This run, as the base, with another one; or two steps of it, or a step of each.

        `level` is `"op"`, `"kernel"` or both; without it whatever was recorded is compared, be it only who holds memory.
        """
        if other is None and steps is None:
            raise ValueError("there is nothing to compare with; give another run, or steps=(2, 3)")
        if steps is not None:
            _numbers(steps)
            if len(steps) != 2:
                raise ValueError(f"bad value {steps!r} for steps; allowed: the numbers of two steps")
        base = self._recording()
        if other is None:
            compared = base
        else:
            compared = other._recording() if isinstance(other, Run) else Recording(os.fspath(other))
        document, text, notes = _native.compare(base, compared, steps or (None, None), level)
        for note in notes:
            warnings.warn(_native.shown(note), MemScopeWarning, stacklevel=2)
        return Comparison(json.loads(document), text)

    def to_pandas(self, what: str = "events") -> Any:
        """A `DataFrame` of its `"events"` or `"blocks"`. Needs pandas."""
        if what not in ("events", "blocks"):
            raise ValueError(f"bad value {what!r} for what; allowed: 'events', 'blocks'")
        return self.events.to_pandas() if what == "events" else self.blocks.to_pandas()

    def _analyze(self, kind: Type[_R], word: str, **wishes: Any) -> _R:
        # What cannot be read was told when it was opened.
        report, _, _ = analyzed(kind, self._recording(), word, AnalysisWishes(**wishes))
        return report

    def __repr__(self) -> str:
        processes = self._recording().processes()
        what = f"process {processes[0][0]} {processes[0][1]}".rstrip() if len(processes) == 1 else f"{len(processes)} processes"
        return _native.shown(f"<Run '{self.path}': {what}>")

    def _repr_html_(self) -> str:
        rows = [
            (process.pid, process.command, pool.device, pool.pool, pool.allocations, pool.frees, pool.peak_bytes, pool.live_bytes)
            for process in self.processes
            for pool in process.pools
        ]
        names = ("process", "command", "device", "pool", "allocations", "frees", "peak bytes", "live bytes")
        head = "".join(f"<th>{name}</th>" for name in names)
        cells = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
        counts = [_counted(len(self.processes), "process", "processes")]
        if self.steps:
            counts.append(_counted(len(self.steps), "step", "steps"))
        title = _cell(f"{self.path}: {', '.join(counts)}")
        return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _cell(value: Union[str, int]) -> str:
    return html.escape(_native.shown(value) if isinstance(value, str) else f"{value:,}")


def _process(recording: Recording, place: int, pid: int, command: str, path: str, exited: Optional[bool]) -> Process:
    seen: Dict[str, Any] = recording.overview(place)
    steps = tuple(Step(pid, *step) for step in seen["steps"])
    pools = tuple(Pool(pid, **pool) for pool in seen["pools"])
    return Process(
        pid=pid,
        command=command,
        path=os.fspath(path),
        exited=exited,
        start_ns=seen["start_ns"],
        first_ns=seen["first_ns"],
        last_ns=seen["last_ns"],
        events=seen["events"],
        steps=steps,
        pools=pools,
        damage=tuple(seen["damage"]),
    )


def analyzed(
    kind: Type[_R], recording: Recording, word: str, wishes: AnalysisWishes, terminal: bool = False
) -> Tuple[_R, str, List[str]]:
    """A report, its text for a terminal, if it is to go to one, and what could not be read."""
    document, text, shown, notes = _native.analyze(recording, word, wishes, terminal)
    return kind(json.loads(document), text), shown, notes
