"""Keeps bytearrays, which Python takes from malloc: leaky.py [LIBRARIES]. With LIBRARIES it loads the recorder itself, when it runs
already, by the calls that the package makes."""

import ctypes
import os
import sys
import threading

BYTES, ROUNDS = 300_000, 10
kept = []


def load_late(libraries):
    for name in ("libascend_kernel_hook.so", "libmsmemscope_host.so"):
        ctypes.CDLL(os.path.join(libraries, name), os.RTLD_NOW | os.RTLD_GLOBAL | os.RTLD_NODELETE)
    ctypes.CDLL(os.path.join(libraries, "libmsmemscope_attach.so"))


def innermost(size):
    kept.append(bytearray(size))


def keep(first):
    for size in range(first, first + ROUNDS):
        innermost(size)
        bytearray(size)


if sys.argv[1:]:
    load_late(sys.argv[1])
keep(BYTES)
thread = threading.Thread(target=keep, args=[2 * BYTES])
thread.start()
thread.join()
child = os.fork()
if child == 0:
    keep(3 * BYTES)
    os._exit(0)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
