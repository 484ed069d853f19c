"""What `config()` accepts, and what it says of what it does not."""

import os
import unittest
from typing import Dict, Tuple

import msmemscope
from recorded import RecordedCase

REFUSED: Dict[str, Tuple[Dict[str, str], str]] = {
    "a device that is none": (
        {"device": "gpu"},
        "bad value 'gpu' for device; allowed: npu, npu:0 to npu:31, cpu, separated by commas",
    ),
    "one item of several": (
        {"events": "alloc,fre"},
        "bad value 'fre' for events (in 'alloc,fre'); allowed: alloc, free, launch, access, traceback, separated by commas, or none",
    ),
    "a depth out of range": (
        {"call_stack": "c:1001"},
        "bad value 'c:1001' for call_stack: out of range; allowed: c, python, c:DEPTH, python:DEPTH with DEPTH from 0 to 1000, "
        "separated by commas",
    ),
    "a level": ({"level": "2"}, "bad value '2' for level; allowed: 0 or op, 1 or kernel, separated by commas"),
    "an empty output": (
        {"output": ""},
        "bad value '' for output: empty; allowed: a directory path of 1 to 4096 characters",
    ),
    "a format": ({"data_format": "xml"}, "bad value 'xml' for data_format; allowed: "),
    "the same under its other name": ({"format": "xml"}, "bad value 'xml' for data_format; allowed: "),
    "what cannot be written": ({"output": "caf\udce9"}, "bad value 'caf\\udce9' for output; allowed: text that can be written as UTF-8"),
    "a size": (
        {"watch": "a,b,full-content", "watch_max_bytes": "much"},
        "bad value 'much' for watch_max_bytes: not a number; allowed: a number of bytes, e.g. 500M or 2G",
    ),
    "no bytes at all": ({"watch_max_bytes": "0"}, "bad value '0' for watch_max_bytes: out of range; allowed: a number of bytes, e.g. 500M or 2G"),
    "an analysis": ({"analysis": "leak"}, "bad value 'leak' for analysis; allowed: leaks, "),
    "two names for one thing": ({"output": "a", "output_path": "b"}, "output and output_path are the same; give one of them"),
}


class Config(RecordedCase):
    def test_a_bad_value_is_named_with_its_key_and_what_is_allowed(self) -> None:
        for what, (keywords, message) in REFUSED.items():
            with self.subTest(what):
                with self.assertRaises(ValueError) as raised:
                    msmemscope.config(**keywords)
                self.assertTrue(str(raised.exception).startswith(message), raised.exception)

    def test_what_is_no_text_is_a_type_error_that_names_the_keyword(self) -> None:
        with self.assertRaisesRegex(TypeError, "level must be a str, not int"):
            msmemscope.config(level=0)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            msmemscope.config("npu")  # type: ignore[call-arg]
        with self.assertRaises(TypeError):
            msmemscope.config(colour="red")  # type: ignore[call-arg]

    def test_the_output_may_be_a_path_and_nothing_else_may(self) -> None:
        ended = self.run_program(
            """
            import pathlib, msmemscope
            msmemscope.config(device="cpu", output_path=pathlib.Path(output))
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            msmemscope.stop()
            try:
                msmemscope.config(device=pathlib.Path("cpu"))
            except TypeError as error:
                print(error)
            """
        )
        self.assertEqual(ended.out.strip(), "device must be a str, not PosixPath")
        self.assertTrue(self.rows())

    def test_the_words_of_the_manual_are_accepted(self) -> None:
        ended = self.run_program(
            """
            import warnings, msmemscope
            warnings.simplefilter("ignore", msmemscope.MemScopeWarning)
            msmemscope.config()
            msmemscope.config(call_stack="", events="", analysis="", level="", watch="", watch_max_bytes="")
            msmemscope.config(call_stack="c:10,python:5", events="launch,alloc,free", level="0", device="npu",
                              analysis="leaks,decompose", watch="op0,op1,full-content", watch_max_bytes="64M", data_format="db", output=output)
            msmemscope.config(device="npu:0，npu:31", format="csv", output_path=output)
            print("accepted")
            """
        )
        self.assertEqual(ended.out.strip(), "accepted")
        self.assertFalse(os.path.exists(self.output), "nothing is created before start()")

    def test_every_call_begins_from_the_defaults(self) -> None:
        self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", call_stack="python", data_format="db", output=output)
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            kept = bytearray(1_000_000)
            msmemscope.stop()
            """
        )
        blocks = [row for row in self.rows() if row["Event"] == "MALLOC" and "size:1000001," in row["Attr"]]
        self.assertEqual([row["Call Stack(Python)"] for row in blocks], [""])

    def test_settings_stand_once_the_recording_has_begun(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            msmemscope.config(device="cpu", output=output)
            try:
                msmemscope.config(device="npu")
            except msmemscope.MemScopeError as error:
                print(error)
            """
        )
        self.assertIn("call config() before the first start()", ended.out)

    def test_an_output_that_cannot_be_used_is_said_by_start(self) -> None:
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=__file__)
            try:
                msmemscope.start()
            except msmemscope.MemScopeError as error:
                print(error)
            """
        )
        self.assertIn("program.py' is not a directory", ended.out)


if __name__ == "__main__":
    unittest.main()
