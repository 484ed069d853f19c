"""drive.py LIBRARY ARGUMENTS…: runs a benchmark program of this folder, built as a library, inside Python.

For profilers that attach to Python only. What is measured is the same C code; the baseline is this script, bare.
"""
import ctypes
import sys

arguments = [argument.encode() for argument in sys.argv[1:]]
argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
sys.stdout.flush()
sys.exit(ctypes.CDLL(sys.argv[1]).bench_main(len(arguments), argv))
