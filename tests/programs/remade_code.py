"""Functions whose code is made anew, again and again, from that of one function and without compiling anything: objects of
other contents come to the same addresses. Each allocation's size tells who makes it."""
import sys

ROUNDS = 50
NAME = "co_qualname" if sys.version_info >= (3, 11) else "co_name"


def pattern(size):
    return bytearray(size)


def function():
    pass


def run(start, changes):
    original = pattern.__code__
    for number in range(ROUNDS):
        # The one before is freed now: its address, and those of its strings, are free again.
        function.__code__ = original
        function.__code__ = original.replace(**changes(number))
        function(start + number)


run(900_000, lambda number: {NAME: "name_%03d" % number})
run(910_000, lambda number: {NAME: "twin", "co_filename": "/made/file_%03d.py" % number})
run(920_000, lambda number: {NAME: "lines", "co_firstlineno": 100 + number})
