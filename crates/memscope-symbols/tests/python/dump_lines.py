"""Prints, for every code object in the given modules or files, its line table and the interpreter's own answers.

One code object a line: version, first line, code length, table in hex (or '-'), and 'offset:line' wherever the line
changes, with '-' for an instruction that has no line.
"""
import ctypes
import importlib.util
import sys
import types

line_of = ctypes.pythonapi.PyCode_Addr2Line
line_of.argtypes = [ctypes.py_object, ctypes.c_int]
line_of.restype = ctypes.c_int

version = sys.hexversion >> 16


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


for name in sys.argv[1:]:
    path = name if name.endswith(".py") else importlib.util.find_spec(name).origin
    with open(path, "rb") as source:
        module = compile(source.read(), path, "exec")
    for code in code_objects(module):
        table = code.co_lnotab if version < 0x030A else code.co_linetable
        changes, last = [], None
        for offset in range(0, len(code.co_code), 2):
            line = line_of(code, offset)
            if line != last:
                changes.append("%d:%s" % (offset, "-" if line < 0 else line))
                last = line
        print("%#06x" % version, code.co_firstlineno, len(code.co_code), table.hex() or "-", ",".join(changes))
