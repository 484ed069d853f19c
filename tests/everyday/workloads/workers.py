"""A pool of worker processes, forked or started anew."""
import multiprocessing
import sys


def work(number):
    # Large enough to be the worker's peak.
    block = bytearray(40_000_000 + number)
    return len(block)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(sum(pool.map(work, range(8))))
        pool.close()
        pool.join()
