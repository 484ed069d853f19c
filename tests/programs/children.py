"""Processes by fork, threads, and their memory."""
import multiprocessing
import threading


def work(number):
    return len(bytearray(2_000_000 + number))


if __name__ == "__main__":
    threads = [threading.Thread(target=work, args=(100 + number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(sum(pool.map(work, range(12), chunksize=1)))
        # Without it a worker may be terminated before it has done anything.
        pool.close()
        pool.join()
