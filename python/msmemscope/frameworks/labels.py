"""Labels for memory: of what a thread allocates between two moments, and of a block by an address in it."""

from typing import Tuple

from .. import _native

# The places of a label in an owner's text, `{POOL}@component@process@detail_1@detail_2`.
COMPONENT = 1
PROCESS = 2
DETAIL_1 = 3
DETAIL_2 = 4
#: No part of the text: what the thread is about, from which readers of a recording conclude what its memory is for.
PHASE = 6

#: Level and text of each label that belongs together.
Labels = Tuple[Tuple[int, str], ...]


def begin(labels: Labels) -> None:
    """What this thread allocates from here on has these labels."""
    for level, text in labels:
        _native.label_start(level, text)


def end(labels: Labels) -> None:
    """Takes them off again."""
    for level, text in reversed(labels):
        _native.label_end(level, text)


def of_block(address: int, labels: Labels) -> None:
    """The block that this address is in has these labels."""
    for level, text in labels:
        _native.label_block(address, level, text)
