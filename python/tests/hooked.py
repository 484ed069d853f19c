"""Programs with hooks of frameworks, in this process: what would be recorded is kept, and afterwards nothing is left."""

import importlib
import sys
import tempfile
import textwrap
import unittest
from typing import Any, Dict, List, Tuple

import fake_frameworks
import msmemscope
from msmemscope.frameworks import labels, notes, registry, windows  # noqa: F401  registry: loaded before, to stay loaded


class Recorder:
    """Stands for the native functions."""

    def __init__(self) -> None:
        self.told: List[Tuple[Any, ...]] = []
        #: Open labels by thread and level, as a reader of the recording would know them.
        self.open: List[Tuple[int, str]] = []

    def label_start(self, level: int, text: str) -> None:
        self.told.append(("start", level, text))
        self.open.append((level, text))

    def label_end(self, level: int, text: str) -> None:
        self.told.append(("end", level, text))
        self.open.remove((level, text))

    def label_block(self, address: int, level: int, text: str) -> None:
        self.told.append(("block", address, level, text))

    def now(self) -> str:
        """The labels that what is allocated now would have."""
        innermost = dict(sorted(self.open, key=lambda label: label[0]))
        return "@".join(text for _, text in sorted(innermost.items()))


class HookedCase(unittest.TestCase):
    """A test with modules of its own, which are forgotten after it."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        before = set(sys.modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in set(sys.modules) - before])
        finders = list(sys.meta_path)
        self.addCleanup(lambda: self.assertEqual(sys.meta_path, finders, "a finder is left"))
        sys.path.insert(0, self.directory)
        self.addCleanup(sys.path.remove, self.directory)
        self.recorder = Recorder()
        real, labels._native = labels._native, self.recorder  # type: ignore[assignment, attr-defined]
        self.addCleanup(setattr, labels, "_native", real)
        self.addCleanup(notes._told.clear)
        self.addCleanup(lambda: self.assertEqual(windows.open_keys(), [], "a window is left open"))
        self.addCleanup(msmemscope.cleanup_framework_hooks)

    def write(self, modules: Dict[str, str]) -> None:
        fake_frameworks.write(self.directory, {name: textwrap.dedent(source) for name, source in modules.items()})
        importlib.invalidate_caches()

    def load(self, name: str) -> Any:
        return importlib.import_module(name)
