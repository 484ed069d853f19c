"""Moments and ranges that the program names: by the package, and by its own package `mstx`."""

import os
import unittest
from typing import List, Tuple

from msmemscope import mstx
from recorded import RecordedCase

#: As the package of that name is used; its native part is a library of the same interface.
PACKAGE = """
import ctypes
library = ctypes.CDLL({library!r})
library.mstxRangeStartA.restype = ctypes.c_uint64
def mark(message, stream=None):
    library.mstxMarkA(message.encode(), None)
def range_start(message, stream=None):
    return library.mstxRangeStartA(message.encode(), None)
def range_end(range_id):
    library.mstxRangeEnd(ctypes.c_uint64(range_id))
"""


class Numbers(unittest.TestCase):
    def test_what_is_no_number_of_a_range_is_named(self) -> None:
        for number, kind, message in (
            ("1", TypeError, "range_id must be an int, not str"),
            (-1, ValueError, "bad value -1 for range_id; allowed: what range_start.. gave"),
            (1 << 64, ValueError, f"bad value {1 << 64} for range_id"),
        ):
            with self.assertRaisesRegex(kind, message):
                mstx.range_end(number)  # type: ignore[arg-type]


class Mstx(RecordedCase):
    def names(self) -> List[Tuple[str, str]]:
        return [(row["Event Type"], row["Name"]) for row in self.rows() if row["Event"] == "MSTX"]

    def test_moments_and_ranges_are_rows(self) -> None:
        self.run_program(
            """
            import msmemscope
            from msmemscope import mstx
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            mstx.mark("here")
            number = mstx.range_start("step start", None)
            mstx.range_end(number)
            msmemscope.stop()
            """
        )
        self.assertEqual(self.names(), [("Mark", "here"), ("Range_start", "step start"), ("Range_end", "step start")])

    def test_the_programs_own_package_is_seen_whenever_it_is_used_first(self) -> None:
        library = self.compile("mstx.c", "libown_mstx.so")
        with open(os.path.join(self.directory, "mstx.py"), "w") as package:
            package.write(PACKAGE.format(library=library))
        for before in ("", "import mstx", "import mstx; mstx.mark('missed')"):
            with self.subTest(before):
                self.output = os.path.join(self.directory, f"output{len(before)}")
                self.run_program(
                    f"""
                    {before}
                    import msmemscope
                    msmemscope.config(device="cpu", output=output)
                    msmemscope.start()
                    import mstx
                    mstx.mark("here")
                    number = mstx.range_start("step start", None)
                    assert number
                    mstx.range_end(number)
                    msmemscope.stop()
                    msmemscope.start()
                    mstx.mark("again")
                    msmemscope.stop()
                    """
                )
                expected = [("Mark", "here"), ("Range_start", "step start"), ("Range_end", "step start"), ("Mark", "again")]
                self.assertEqual(self.names(), expected)

    def test_something_else_of_that_name_is_left_alone(self) -> None:
        self.run_program(
            """
            import sys, types
            sys.modules["mstx"] = types.ModuleType("mstx")
            sys.modules["mstx"].mark = sys.modules["mstx"].range_end = sys.modules["mstx"].range_start = lambda: None
            import msmemscope
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            sys.modules["mstx"].mark()
            msmemscope.stop()
            """
        )


if __name__ == "__main__":
    unittest.main()
