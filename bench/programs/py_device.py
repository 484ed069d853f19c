"""py_device.py LIBRARY stay|enter|routes [BATCHES]: what an event of a device's pool costs, made below 30 Python functions.

LIBRARY is device.c of this folder. Each pair of events is one call from Python into C, which goes 30 functions deep there
too and lets go of Python's lock, as calls into torch do. "stay": the innermost Python function makes the calls in a loop.
"enter": all 30 are called and left for each. "routes": so are they, from eight outermost functions and eight places in C in
turn, so that no stack is that of the pair before. Batches of 50 pairs, tenth percentile, for one event.
"""
import ctypes
import gc
import sys
import time

from result import report

FRAMES = C_FRAMES = 30
ROUTES = 8
LIVE = 256
PAIRS_PER_BATCH, EVENTS_PER_PAIR = 50, 2

# Different functions: a recursion would be one code object, which is too easy to remember.
SOURCE = "\n".join(
    [f"def route_{route}(leaf):\n    return level_1(leaf)\n" for route in range(ROUTES)]
    + [f"def level_{index}(leaf):\n    return level_{index + 1}(leaf)\n" for index in range(1, FRAMES - 2)]
    + [f"def level_{FRAMES - 2}(leaf):\n    leaf()\n"]
)


def main():
    library, mode = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    batches = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    if not library.device_begin(1, LIVE, ROUTES if mode == "routes" else 1):
        sys.exit("no memory")
    pair, depth, clock = library.device_pair, ctypes.c_int(C_FRAMES), time.perf_counter_ns
    pair.restype = None
    repeat = (None,) * PAIRS_PER_BATCH
    levels = {}
    exec(compile(SOURCE, __file__, "exec"), levels)
    outermost = [levels[f"route_{route}"] for route in range(ROUTES)]
    in_turn = [outermost[index % ROUTES] for index in range(PAIRS_PER_BATCH)]

    def one_pair():
        pair(depth)

    def all_pairs():
        for _ in repeat:
            pair(depth)

    def stay():
        outermost[0](all_pairs)

    def enter():
        for _ in repeat:
            outermost[0](one_pair)

    def routes():
        for function in in_turn:
            function(one_pair)

    batch = {"stay": stay, "enter": enter, "routes": routes}[mode]
    took = [0] * batches
    gc.disable()
    for _ in range(batches // 10 + 1):
        batch()
    for index in range(batches):
        start = clock()
        batch()
        took[index] = clock() - start
    took.sort()
    scale = 1 / (PAIRS_PER_BATCH * EVENTS_PER_PAIR)
    report(p10_ns=took[batches // 10] * scale, median_ns=took[batches // 2] * scale,
           events=batches * PAIRS_PER_BATCH * EVENTS_PER_PAIR)


main()
