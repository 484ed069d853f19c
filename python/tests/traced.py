"""Programs whose calls are traced, and what was found of them."""

import collections
import csv
import glob
import os
from typing import Counter, Dict, List

from recorded import RecordedCase


class TracedCase(RecordedCase):
    def files(self) -> List[str]:
        return sorted(glob.glob(os.path.join(self.output, "*", "device_*", "dump", "python_trace_*.csv")))

    def calls(self) -> List[Dict[str, str]]:
        rows: List[Dict[str, str]] = []
        for path in self.files():
            with open(path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                self.assertEqual(reader.fieldnames, ["FuncInfo", "StartTime(ns)", "EndTime(ns)", "Thread Id", "Process Id"])
                own = list(reader)
            self.assertTrue(all(f"python_trace_{row['Thread Id']}_" in path for row in own), path)
            rows += own
        return rows

    def counts(self) -> Counter[str]:
        """How often each function was called, whatever file it is in."""
        return collections.Counter(row["FuncInfo"].split("): ")[-1] for row in self.calls() if "N/A" not in row.values())

    def assert_nested(self, rows: List[Dict[str, str]]) -> None:
        """Calls of a thread lie within each other, in the order of their ends."""
        whole = [(int(row["StartTime(ns)"]), int(row["EndTime(ns)"])) for row in rows if "N/A" not in row.values()]
        inner: List[List[int]] = []
        last = 0
        for start, end in whole:
            self.assertLessEqual(start, end)
            self.assertGreaterEqual(end, last)
            last = end
            # What ended before and began later is within; it must not have begun before.
            while inner and inner[-1][0] >= start:
                inner.pop()
            if inner:
                self.assertLessEqual(inner[-1][1], start)
            inner.append([start, end])
