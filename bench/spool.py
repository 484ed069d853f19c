"""What a recording takes on disk, and how many events it holds. The format is specified in docs/format.md."""
import struct
from dataclasses import dataclass
from pathlib import Path

PROCESS_HEADER, PAGE, HEADER = 4096, 4096, 64
MAGIC = 0x776D736D  # "msmw"
TIME_BYTES = (1, 2, 4, 8)
ADDRESS_BYTES = (2, 3, 4, 8)
SIZE_BYTES = (1, 2, 4, 8)
DEFINITIONS = (1, 2, 3, 10, 24)  # Extended records that are no events: thread, module, code, forget, visible devices.


@dataclass
class Recording:
    """Sums over all processes of an output directory."""
    processes: int = 0
    events: int = 0
    lost: int = 0
    # Blocks and committed parts of windows with their headers: what would have to be copied. The reserved, unused rest
    # of the windows is a constant for each thread and no cost of an event.
    bytes: int = 0


def read(output):
    total = Recording()
    for spool in sorted(Path(output).glob("*/spool")):
        total.processes += 1
        appended = _blocks(spool / "events.spool", total)
        _windows(spool / "windows.spool", appended, total)
    return total


def _blocks(path, total):
    """Adds the size of the appended blocks; returns the last generation of each lane."""
    last = {}
    with open(path, "rb") as file:
        position = 0
        while True:
            file.seek(position)
            header = file.read(HEADER)
            if len(header) < HEADER:
                return last
            magic, _, progress, lane = struct.unpack_from("<IIQI", header)
            if magic != MAGIC:
                raise ValueError(f"{path}: no block at byte {position}")
            last[lane] = progress >> 32
            size = HEADER + (progress & 0xFFFFFFFF)
            total.bytes += size
            position += size


def _windows(path, appended, total):
    """Adds what the newest window of each lane holds, and what its lane lost."""
    contents = Path(path).read_bytes()
    pages, lost = struct.unpack_from("<IQ", contents, 84)
    total.lost += lost
    total.bytes += PROCESS_HEADER
    newest = {}
    position, end = PROCESS_HEADER, min(PROCESS_HEADER + pages * PAGE, len(contents))
    while position + HEADER <= end:
        magic, size, progress, lane = struct.unpack_from("<IIQI", contents, position)
        if magic == MAGIC:
            newest[lane] = max(newest.get(lane, (0, 0)), (progress, position))
        position += PAGE << size
    for lane, (progress, position) in newest.items():
        lost, earlier = struct.unpack_from("<QQ", contents, position + 40)
        total.lost += lost
        total.events += earlier
        committed = progress & 0xFFFFFFFF
        total.events += _events(contents[position + HEADER:position + HEADER + committed])
        if appended.get(lane) != progress >> 32:
            total.bytes += HEADER + committed


def _events(payload):
    """The records of one payload that are events."""
    count = position = 0

    def after_varint(at):
        while payload[at] & 0x80:
            at += 1
        return at + 1

    def after_stack(at):
        end = after_varint(at)
        return after_varint(end) if payload[at] & 3 == 2 else end

    while position < len(payload):
        first = payload[position]
        kind, time, address, rest = first & 3, first >> 2 & 3, first >> 4 & 3, first >> 6
        if kind == 1:
            position = after_stack(position + 1 + TIME_BYTES[time] + ADDRESS_BYTES[address] + SIZE_BYTES[rest])
            count += 1
        elif kind == 2:
            position += 1 + TIME_BYTES[time] + ADDRESS_BYTES[address]
            if rest == 1:
                position = after_stack(position)
            count += 1
        elif kind == 0:
            kind_at = position + 1
            length_at = kind_at + 1 + TIME_BYTES[time]
            (length,) = struct.unpack_from("<H", payload, length_at)
            count += payload[kind_at] not in DEFINITIONS
            position = length_at + 2 + length
        else:
            # A node: the number, the parent, the module or code object, where they are given, and the offset; of a frame
            # known from before only the number.
            frame, below, numbered, known = time, address, rest & 2, rest & 1
            position += 1
            for given in (numbered, frame != 3 and below == 2, frame in (0, 2) and not known, frame != 3):
                if given:
                    position = after_varint(position)
    return count
