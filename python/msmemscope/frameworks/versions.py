"""Versions, and the keys by which tables speak of them.

| key | matches |
|---|---|
| `2.6` | this version; `2.6.0` is the same |
| `2.6+` | this version and later ones |
| `2.6-2.9` | from the first up to the last, with all of its branch: 2.9.1 is in, 2.10 is not |
| `*` | every version |
"""

import re
from typing import Tuple

Version = Tuple[int, ...]

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


def parse(text: str) -> Version:
    """The numbers a version begins with; what follows (`rc1`, `.post11`, `+cu126`) is cut off."""
    found = _NUMBERS.match(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a version: numbers joined by dots are expected, such as 2.7.1")
    numbers = [int(number) for number in found.group(1).split(".")]
    # 2.6 and 2.6.0 are the same.
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def matches(key: str, version: Version) -> bool:
    """Whether a key of a table speaks of this version."""
    if key == "*":
        return True
    if key.endswith("+"):
        return version >= parse(key[:-1])
    first, dash, last = key.partition("-")
    if not dash:
        return version == parse(key)
    # The branch has as many numbers as the key writes, whether or not they are 0.
    branch = tuple(int(number) for number in last.split("."))
    of_version = (version + (0,) * len(branch))[: len(branch)]
    return version >= parse(first) and of_version <= branch
