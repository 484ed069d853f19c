"""Reads the events of a recording from Python, as the user does; prints how many there were and how long it took.

    read_events.py batches|columns|events RECORDING

`batches` counts the events of batches, `columns` sums up a column of each, `events` takes one event after the other.
"""
import sys
import time

import msmemscope

way, path = sys.argv[1:]
run = msmemscope.open(path)
count = size = 0
begun = time.perf_counter()
if way == "batches":
    for batch in run.events.batches():
        count += len(batch)
elif way == "columns":
    for batch in run.events.batches():
        count += len(batch)
        size += sum(batch.size)
else:
    for event in run.events:
        count += 1
        size += event.size
print(count, time.perf_counter() - begun)
