"""Tells the recorder that a step of the program ends; without a recorder it does nothing."""

import ctypes


class _Table(ctypes.Structure):
    """The beginning of `struct msmemscope_api` in msmemscope.h."""

    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32), ("ours", ctypes.c_void_p * 9),
                *[(name, ctypes.CFUNCTYPE(None)) for name in ("start", "stop", "step")]]


def _find():
    find = getattr(ctypes.CDLL(None), "msmemscope_api", None)
    if find is None:
        return lambda: None
    find.restype = ctypes.POINTER(_Table)
    return find().contents.step


step = _find()
