"""Keeps buffers until there is no memory for another, twice. Prints how many there were."""
import resource

LIMIT = 700 << 20
BLOCK = 16 << 20
kept = []


def keep_until_refused():
    while True:
        kept.append(bytearray(BLOCK))


def ask_for_too_much():
    return bytearray(1 << 42)


resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
try:
    keep_until_refused()
except MemoryError:
    blocks = len(kept)
try:
    ask_for_too_much()
except MemoryError:
    kept.clear()
    print(blocks)
