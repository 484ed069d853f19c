"""py_objects.py [ROUNDS]: ordinary Python work, 20 functions deep: strings, tuples, lists, dictionaries, buffers.

Most objects are small and never reach malloc; buffers of varied sizes, growing lists and dictionaries do. Some results
stay alive for a while, as in a cache. The timed part is the loop.
"""
import random
import sys

from result import Timed, report

FRAMES = 20
KEPT = 512

SOURCE = "\n".join(
    [f"def level_{index}(leaf, seed):\n    return level_{index + 1}(leaf, seed)\n" for index in range(FRAMES - 2)]
    + [f"def level_{FRAMES - 2}(leaf, seed):\n    return leaf(seed)\n"]
)


class Record:
    def __init__(self, name, values, payload):
        self.name, self.values, self.payload = name, values, payload


def leaf(seed):
    names = [f"field_{seed}_{index}" for index in range(24)]
    table = {name: (index, seed) for index, name in enumerate(names)}
    numbers = [seed * index for index in range(80 + seed % 50)]
    payload = bytearray(seed % 4096 + 64)
    joined = ",".join(names).encode()
    payload[: min(len(joined), len(payload))] = joined[: len(payload)]
    picture = bytes(payload) + joined
    return Record(names[0], [table[name] for name in sorted(table)], (numbers, payload, picture))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40000
    levels = {}
    exec(compile(SOURCE, __file__, "exec"), levels)
    outermost, pick = levels["level_0"], random.Random(7)
    seeds = [pick.randrange(1, 1 << 20) for _ in range(rounds)]
    kept = [None] * KEPT
    with Timed() as timed:
        for seed in seeds:
            kept[seed % KEPT] = outermost(leaf, seed)
    report(cpu_s=timed.cpu_s, wall_s=timed.wall_s, alive=sum(record is not None for record in kept))


main()
