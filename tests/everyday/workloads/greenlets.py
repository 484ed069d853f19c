"""Greenlets: many stacks on one thread, copied away and back."""
import gevent
from gevent.pool import Pool


def fetch(number):
    block = bytearray(100_000 + number)
    gevent.sleep(0)
    return len(block)


print(sum(Pool(50).map(fetch, range(200))))
