"""Events and blocks as data frames."""

from importlib import import_module
from typing import Any, Dict, Iterator, List, Sequence

from . import _native
from ._native import BlockBatch, EventBatch, MemScopeError

try:
    numpy: Any = import_module("numpy")
    pandas: Any = import_module("pandas")
except ImportError:
    raise MemScopeError("to_pandas() needs pandas, which is not installed here: pip install pandas") from None

#: Of frames without a row.
_EVENT_COLUMNS = "id pid thread time event type device pool step block address size used stack name owner".split()
_BLOCK_COLUMNS = "id pid device pool address size made freed thread made_step freed_step stack owner".split()


def frame_of_events(batches: Iterator[EventBatch]) -> Any:
    """A row for each event."""
    return _joined([_event_columns(batch) for batch in batches], _EVENT_COLUMNS)


def frame_of_blocks(batches: Iterator[BlockBatch]) -> Any:
    """A row for each block."""
    return _joined([_block_columns(batch) for batch in batches], _BLOCK_COLUMNS)


def _event_columns(batch: EventBatch) -> Dict[str, Any]:
    return {
        "id": numpy.asarray(batch.id),
        "pid": numpy.full(len(batch), batch.pid, dtype=numpy.uint32),
        "thread": numpy.asarray(batch.thread),
        "time": _times(batch.time),
        "event": _words(batch.event, _native.EVENTS),
        "type": _words(batch.type, _native.TYPES),
        "device": _devices(batch.device),
        "pool": _words(batch.pool, _native.POOLS),
        "step": numpy.asarray(batch.step),
        "block": numpy.asarray(batch.block),
        "address": numpy.asarray(batch.address),
        "size": numpy.asarray(batch.size),
        "used": numpy.asarray(batch.used),
        "stack": numpy.asarray(batch.stack),
        "name": _texts(batch.name, batch),
        "owner": _texts(batch.owner, batch),
    }


def _block_columns(batch: BlockBatch) -> Dict[str, Any]:
    return {
        "id": numpy.asarray(batch.id),
        "pid": numpy.full(len(batch), batch.pid, dtype=numpy.uint32),
        "device": _devices(batch.device),
        "pool": _words(batch.pool, _native.POOLS),
        "address": numpy.asarray(batch.address),
        "size": numpy.asarray(batch.size),
        "made": _times(batch.made),
        "freed": _times(batch.freed),
        "thread": numpy.asarray(batch.thread),
        "made_step": numpy.asarray(batch.made_step),
        "freed_step": numpy.asarray(batch.freed_step),
        "stack": numpy.asarray(batch.stack),
        "owner": _texts(batch.owner, batch),
    }


def _joined(parts: List[Dict[str, Any]], names: Sequence[str]) -> Any:
    if not parts:
        return pandas.DataFrame(columns=list(names))
    return pandas.DataFrame({name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]})


def _times(column: "memoryview[int]") -> Any:
    """Nanoseconds since the epoch as times; 0 is none."""
    times = numpy.asarray(column).astype("int64").view("datetime64[ns]")
    return numpy.where(times == numpy.datetime64(0, "ns"), numpy.datetime64("NaT", "ns"), times)


def _words(column: "memoryview[int]", words: Sequence[str]) -> Any:
    """Codes as words; those beyond the last have none."""
    table = numpy.array([*words, *[None] * (256 - len(words))], dtype=object)
    return table[numpy.asarray(column)]


def _devices(column: "memoryview[int]") -> Any:
    codes, places = numpy.unique(numpy.asarray(column), return_inverse=True)
    special = {-1: "cpu", -2: None}
    return numpy.array([special.get(code, str(code)) for code in codes.tolist()], dtype=object)[places]


def _texts(column: "memoryview[int]", batch: Any) -> Any:
    numbers, places = numpy.unique(numpy.asarray(column), return_inverse=True)
    return numpy.array([batch.text(number) for number in numbers.tolist()], dtype=object)[places]
