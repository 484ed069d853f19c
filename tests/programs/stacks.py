"""Allocations whose Python stack is known."""
import ctypes
import threading

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def innermost():
    return bytearray(3_000_001)


def middle():
    numbers = [1]
    return [innermost() for _ in numbers]


class Holder:
    def fill(self):
        self.kept = bytes(5_000_001)
        return middle()


def without_the_lock(size):
    # ctypes gives the interpreter's lock away for the time of the call.
    for _ in range(200):
        libc.free(libc.malloc(size))


def worker(number):
    without_the_lock(700_000 + number)


holder = Holder()
kept = holder.fill()
threads = [threading.Thread(target=worker, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(kept[0]), len(holder.kept))
