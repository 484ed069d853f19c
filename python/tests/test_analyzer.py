"""The analyses by name: the manual's calls, what they print and return, and what they refuse."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import unittest
from typing import Any, Callable, Dict, List, Tuple, Type

import msleaks
import msleaks.analyzer
import msmemscope
import msmemscope.analyzer
from recorded import RecordedCase
from test_reading import ReadingCase

WORDS = ["leaks", "fluctuation", "decompose", "inefficient", "oom"]
#: Rows as the existing tool writes them: an operator allocates, another one frees in between, a third one uses.
OPERATORS = """ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)
"""


def said(work: Callable[[], Any]) -> Tuple[Any, str]:
    """What a call returns, and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = work()
    return result, out.getvalue()


def inefficient_rows() -> str:
    """A block that is allocated early: between its operator and the one that uses it another one frees."""
    lines = [OPERATORS.strip()]

    def row(event: str, kind: str, name: str, pointer: str, attributes: str) -> None:
        number = len(lines)
        lines.append(f'{number},{event},{kind},{name},{1_700_000_000_000_000_000 + number},31,31,0,{pointer},"{{{attributes}}}",,')

    def operator(name: str, *rows: Tuple[str, str, str, str]) -> None:
        row("OP_LAUNCH", "ATEN_START", name, "N/A", "")
        for event, kind, pointer, attributes in rows:
            row(event, kind, name if event == "ACCESS" else "N/A", pointer, attributes)
        row("OP_LAUNCH", "ATEN_END", name, "N/A", "")

    def malloc(number: int, address: str) -> Tuple[str, str, str, str]:
        return "MALLOC", "PTA", address, f"allocation_id:{number},addr:{address},size:4096,owner:PTA,total:9000,used:4096"

    def free(number: int, address: str) -> Tuple[str, str, str, str]:
        return "FREE", "PTA", address, f"allocation_id:{number},addr:{address},size:4096,total:9000,used:0"

    def access(number: int, address: str) -> Tuple[str, str, str, str]:
        return "ACCESS", "WRITE", address, f"addr:{address},size:4096,type:PTA,allocation_id:{number},dtype:Float,shape:8"

    operator("aten::empty", malloc(1, "0x1000"))
    operator("aten::zeros", malloc(2, "0x9000"), access(2, "0x9000"))
    operator("aten::drop", free(2, "0x9000"))
    operator("aten::add", access(1, "0x1000"), free(1, "0x1000"))
    return "\n".join(lines) + "\n"


class Analyzers(ReadingCase):
    def test_all_analyses_are_listed(self) -> None:
        self.assertEqual(msmemscope.list_analyzers(), WORDS)

    def test_what_an_analysis_is_told_can_be_asked(self) -> None:
        self.assertEqual(
            msmemscope.get_analyzer_config("leaks"),
            {"config_class": "LeaksConfig", "parameters": ["input_path", "mstx_info", "start_index"]},
        )
        self.assertEqual(
            msmemscope.get_analyzer_config("inefficient"),
            {
                "config_class": "InefficientConfig",
                "parameters": ["input_path", "mem_size", "inefficient_type", "idle_threshold"],
            },
        )
        for word in WORDS:
            told = msmemscope.get_analyzer_config(word)
            self.assertTrue(hasattr(msmemscope.analyzer, told["config_class"]))
        unknown: List[Any] = ["fragmentation", "", None]
        for other in unknown:
            with self.assertRaisesRegex(ValueError, "allowed: leaks, fluctuation, decompose, inefficient, oom"):
                msmemscope.get_analyzer_config(other)
            with self.assertRaises(ValueError):
                msmemscope.analyze(other, input_path=self.places["csv"])

    def test_the_manual_s_call_prints_the_command_s_report_and_returns_it(self) -> None:
        command = os.path.join(os.path.dirname(msmemscope.__file__), "bin", "msmemscope")
        for form, place in self.places.items():
            with self.subTest(form):
                report, printed = said(
                    lambda: msmemscope.check_leaks(input_path=place, mstx_info="check", start_index=0)
                )
                arguments = [command, "analyze", place, "leaks", "--mstx-info=check", "--start-index=0"]
                self.assertEqual(printed, subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
                document = subprocess.run([*arguments, "--json"], check=True, capture_output=True, text=True).stdout
                self.assertEqual(report.to_dict(), json.loads(document))
                self.assertEqual([leak.bytes for leak in report.leaks if leak.bytes > 1000], [1_000_001])

    def test_the_manual_s_code_runs_as_it_is_written(self) -> None:
        os.mkdir(os.path.join(self.directory, "user"))
        with open(self.places["csv"]) as file, open(os.path.join(self.directory, "user", "memscope.csv"), "w") as copy:
            copy.write(file.read().replace('"check"', '"test"'))
        ended = self.run_program(
            """
import msmemscope
msmemscope.check_leaks(input_path="user/memscope.csv",mstx_info="test",start_index=0)
"""
        )
        self.assertRegex(ended.out, r'leaks of cpu between marks 0 to 2 of "test" .*: 976.6 KiB in \d+ block')

    def test_recording_csv_and_db_come_to_the_same(self) -> None:
        found = {}
        for form, place in self.places.items():
            report, _ = said(lambda: msmemscope.check_leaks(place, "check", 3))
            found[form] = [(leak.bytes, leak.blocks, leak.site, leak.stack) for leak in report.leaks]
        self.assertEqual(found["csv"], found["recording"])
        self.assertEqual(found["csv"], found["db"])

    def test_every_analysis_can_be_called_by_name(self) -> None:
        for word, more in (("leaks", {}), ("fluctuation", {}), ("decompose", {"at": "step:3"}), ("oom", {"listed": 3})):
            for form, place in self.places.items():
                with self.subTest(f"{word} of {form}"):
                    report, printed = said(
                        lambda: msmemscope.analyze(word, input_path=place, **more)
                    )
                    self.assertEqual(report.text, printed)
                    self.assertIn(word, report.to_dict()["processes"][0])

    def test_missing_marks_are_the_command_s_sentence(self) -> None:
        with self.assertRaisesRegex(msmemscope.MemScopeError, 'there are 0 marks "other"'):
            msmemscope.check_leaks(self.places["csv"], "other", 0)

    def test_wrong_parameters_are_refused_with_what_is_allowed(self) -> None:
        place = self.places["csv"]
        wrong: List[Tuple[Dict[str, Any], Type[Exception], str]] = [
            ({"input_path": 3}, TypeError, "input_path must be a str"),
            ({"input_path": ""}, ValueError, "input_path"),
            ({"input_path": "x" * 5000}, ValueError, "4096"),
            ({"input_path": "a\0b.csv"}, ValueError, "input_path"),
            ({"input_path": place + ".none.csv"}, FileNotFoundError, "none.csv"),
            ({"input_path": "/dev/null"}, FileNotFoundError, "not a regular file"),
            ({"input_path": __file__}, ValueError, "neither .csv nor .db"),
            ({"mstx_info": 5}, TypeError, "mstx_info must be a str, not int"),
            ({"mstx_info": None}, TypeError, "mstx_info must be a str"),
            ({"mstx_info": "  "}, ValueError, "mstx_info"),
            ({"start_index": "0"}, TypeError, "start_index must be an int, not str"),
            ({"start_index": True}, TypeError, "start_index must be an int, not bool"),
            ({"start_index": -1}, ValueError, "bad value -1 for start_index; allowed: integers from 0"),
        ]
        for arguments, error, words in wrong:
            with self.subTest(str(arguments)[:60]), self.assertRaises(error) as raised:
                msmemscope.check_leaks(**{"input_path": place, "mstx_info": "check", "start_index": 0, **arguments})
            self.assertIn(words, str(raised.exception))
        wrong = [
            ({"mem_size": -1}, ValueError, "mem_size"),
            ({"mem_size": 1.5}, TypeError, "mem_size must be an int"),
            ({"idle_threshold": 0}, ValueError, "bad value 0 for idle_threshold; allowed: integers from 1"),
            ({"inefficient_type": "late"}, ValueError, "early_allocation, late_deallocation, temporary_idleness"),
            ({"inefficient_type": ["late_deallocation", 3]}, TypeError, "inefficient_type must be a str"),
            ({"inefficient_type": []}, ValueError, "inefficient_type"),
            ({"inefficient_type": {"a": 1}}, TypeError, "inefficient_type"),
        ]
        for arguments, error, words in wrong:
            with self.subTest(str(arguments)), self.assertRaises(error) as raised:
                msmemscope.check_inefficient(place, **arguments)
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(TypeError):
            msmemscope.analyze("leaks", input_path=place, colour="red")
        with self.assertRaisesRegex(ValueError, "for at"):
            msmemscope.analyze("decompose", input_path=place, at="total")
        with self.assertRaisesRegex(TypeError, "must be a LeaksConfig"):
            msmemscope.analyzer.LeaksAnalyzer().analyze(msmemscope.analyzer.OomConfig(place))

    def test_what_may_not_be_read_or_written_is_refused(self) -> None:
        if os.getuid() == 0:
            self.skipTest("root may read and write everything")
        file = os.path.join(self.directory, "a.csv")
        shutil.copy(self.places["csv"], file)
        os.chmod(file, 0o400)
        with self.assertRaisesRegex(PermissionError, "cannot be written"):
            msmemscope.check_inefficient(file)
        os.chmod(file, 0)
        with self.assertRaisesRegex(PermissionError, "cannot be read"):
            msmemscope.check_leaks(file, "check", 0)

    def test_the_old_name_has_the_same_objects(self) -> None:
        for name in ("analyze", "check_leaks", "check_inefficient", "get_analyzer_config", "list_analyzers", "open", "record"):
            self.assertIs(getattr(msleaks, name), getattr(msmemscope, name), name)
        for name in msmemscope.analyzer.__all__:
            self.assertIs(getattr(msleaks.analyzer, name), getattr(msmemscope.analyzer, name), name)
        with self.assertRaises(AttributeError):
            msleaks.nothing  # type: ignore[attr-defined]
        with self.assertRaises(AttributeError):
            msmemscope.nothing  # type: ignore[attr-defined]


class Inefficient(RecordedCase):
    def setUp(self) -> None:
        super().setUp()
        self.file = os.path.join(self.directory, "memscope_dump_20231114221320.csv")
        with open(self.file, "w") as file:
            file.write(inefficient_rows())

    def test_what_is_found_is_added_to_the_file_and_returned(self) -> None:
        report, printed = said(lambda: msmemscope.check_inefficient(self.file))
        self.assertEqual([(found.type, found.blocks, found.bytes) for found in report.findings], [("early_allocation", 1, 4096)])
        self.assertEqual(report.text, printed)
        worst = report.findings[0].worst
        self.assertEqual((worst.size, worst.from_, worst.to), (4096, "aten::empty", "aten::add"))
        with open(self.file) as file:
            (row,) = [line for line in file if "inefficient_type" in line]
        self.assertIn("inefficient_type:early_allocation", row)
        self.assertIn(",MALLOC,", row)

    def test_a_second_look_changes_nothing(self) -> None:
        said(lambda: msmemscope.check_inefficient(self.file))
        with open(self.file) as file:
            before = file.read()
        report, _ = said(lambda: msmemscope.analyze("inefficient", input_path=self.file))
        self.assertEqual(len(report.findings), 1)
        with open(self.file) as file:
            self.assertEqual(file.read(), before)

    def test_filters_leave_out(self) -> None:
        filters: List[Dict[str, Any]] = [{"mem_size": 5000}, {"inefficient_type": ["late_deallocation", "temporary_idleness"]}]
        for more in filters:
            with self.subTest(str(more)):
                report, _ = said(lambda: msmemscope.check_inefficient(self.file, **more))
                self.assertEqual(report.findings, ())

    def test_of_a_directory_nothing_is_changed(self) -> None:
        with open(self.file) as file:
            before = file.read()
        report, _ = said(lambda: msmemscope.check_inefficient(self.directory))
        self.assertEqual(len(report.findings), 1)
        self.assertEqual(report.findings, msmemscope.open(self.directory).inefficient().findings)
        with open(self.file) as file:
            self.assertEqual(file.read(), before)

    def test_a_file_that_is_none_of_ours_stays_as_it_is(self) -> None:
        with open(self.file, "w") as file:
            file.write("a,b\n1,2\n")
        with self.assertRaises(msmemscope.MemScopeError):
            msmemscope.check_inefficient(self.file)
        with open(self.file) as file:
            self.assertEqual(file.read(), "a,b\n1,2\n")


if __name__ == "__main__":
    unittest.main()
