"""py_calls.py bare|setprofile|cprofile|traced [BATCHES]: what one call of a Python function costs, and one of `len`.

Batches of 200 calls, tenth percentile. "traced" is as "bare": who traces is in the environment. The two others are what
Python itself has: a profile function in Python that does nothing, and cProfile.
"""
import cProfile
import gc
import sys
import time

from result import report

CALLS_PER_BATCH = 200


def function():
    pass


def of_python(repeat=(None,) * CALLS_PER_BATCH):
    for _ in repeat:
        function()


def of_c(repeat=(None,) * CALLS_PER_BATCH, function=len, text=""):
    for _ in repeat:
        function(text)


def tenth_percentile(batch, batches):
    clock, took = time.perf_counter_ns, [0] * batches
    for _ in range(batches // 10 + 1):
        batch()
    for index in range(batches):
        start = clock()
        batch()
        took[index] = clock() - start
    took.sort()
    return took[batches // 10] / CALLS_PER_BATCH


def nothing(frame, event, argument):
    pass


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "bare"
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    gc.disable()
    profiler = cProfile.Profile()
    if mode == "setprofile":
        sys.setprofile(nothing)
    elif mode == "cprofile":
        profiler.enable()
    figures = {"python_ns": tenth_percentile(of_python, batches), "c_ns": tenth_percentile(of_c, batches)}
    sys.setprofile(None)
    calls = 2 * (batches + batches // 10 + 1) * CALLS_PER_BATCH
    report(calls=calls, **figures)


main()
