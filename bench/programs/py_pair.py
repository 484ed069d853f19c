"""py_pair.py enter|stay [BATCHES]: what one malloc+free pair costs, made by Python code 20 functions deep.

The pair is the buffer of a bytearray: with 600 bytes it is beyond what Python's own small-object allocator takes, so
exactly one malloc and one free reach the C library. "enter": all 20 functions are called and left for every pair, as in
pair.c. "stay": the innermost one makes the pairs in a loop. Batches of 50 pairs, tenth percentile.
"""
import gc
import sys
import time

from result import report

FRAMES = 20
PAIRS_PER_BATCH = 50
SIZE = 600

# Twenty different functions: a recursion would be one code object, which is too easy to remember.
SOURCE = "\n".join(
    [f"def level_{index}(leaf):\n    return level_{index + 1}(leaf)\n" for index in range(FRAMES - 2)]
    + [f"def level_{FRAMES - 2}(leaf):\n    leaf()\n"]
)


def one_pair():
    bytearray(SIZE)


def batch_of_pairs(buffer=bytearray, size=SIZE, repeat=(None,) * PAIRS_PER_BATCH):
    for _ in repeat:
        buffer(size)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "enter"
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    levels = {}
    exec(compile(SOURCE, __file__, "exec"), levels)
    outermost, clock, repeat = levels["level_0"], time.perf_counter_ns, (None,) * PAIRS_PER_BATCH

    def enter():
        for _ in repeat:
            outermost(one_pair)

    def stay():
        outermost(batch_of_pairs)

    batch = {"enter": enter, "stay": stay}[mode]
    took = [0] * batches
    gc.disable()
    for _ in range(batches // 10 + 1):
        batch()
    for index in range(batches):
        start = clock()
        batch()
        took[index] = clock() - start
    took.sort()
    report(p10_ns=took[batches // 10] / PAIRS_PER_BATCH, median_ns=took[batches // 2] / PAIRS_PER_BATCH,
           pairs=batches * PAIRS_PER_BATCH, events=2 * batches * PAIRS_PER_BATCH)


main()
