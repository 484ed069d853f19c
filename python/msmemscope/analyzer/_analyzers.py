"""The analyzers: each from its configuration to its report."""

import dataclasses
import json
import os
import sys
import warnings
from typing import Any, ClassVar, Dict, List, Sequence, Tuple, Type, Union, cast

from .. import _native
from .._recording import MemScopeWarning
from ..reports import Decomposition, Fluctuation, Inefficient, Leaks, OutOfMemory, Report
from ..run import analyzed
from ._configs import (
    AnalyzerConfig,
    DecomposeConfig,
    FluctuationConfig,
    InefficientConfig,
    LeaksConfig,
    OomConfig,
)

_Path = Union[str, "os.PathLike[str]"]


class Analyzer:
    """From a configuration to a report, which is printed as the command does, and returned."""

    word: ClassVar[str]
    config_class: ClassVar[Type[AnalyzerConfig]]
    report_class: ClassVar[Type[Report]]

    def analyze(self, config: AnalyzerConfig) -> Report:
        """Reads everything at the configuration's path. `MemScopeError` if that cannot be had of it."""
        if not isinstance(config, self.config_class):
            raise TypeError(f"config must be a {self.config_class.__name__}, not {type(config).__name__}")
        report, shown, notes = self._report(config)
        for note in notes:
            warnings.warn(_native.shown(note), MemScopeWarning, stacklevel=3)
        print(shown, end="")
        return report

    def _report(self, config: AnalyzerConfig) -> Tuple[Report, str, List[str]]:
        recording = _native.Recording(os.fspath(config.input_path))
        return analyzed(self.report_class, recording, self.word, config.wishes(), _is_terminal())


class LeaksAnalyzer(Analyzer):
    """What is not given back, and whether it grows; or what was allocated between two marks and not freed by a third."""

    word, config_class, report_class = "leaks", LeaksConfig, Leaks


class FluctuationAnalyzer(Analyzer):
    """How memory goes up and down within steps, and what held it at the peak."""

    word, config_class, report_class = "fluctuation", FluctuationConfig, Fluctuation


class DecomposeAnalyzer(Analyzer):
    """What memory is made of, by owner."""

    word, config_class, report_class = "decompose", DecomposeConfig, Decomposition


class InefficientAnalyzer(Analyzer):
    """What is allocated too early, freed too late, or idle. What is found in a csv or db file is added to its rows; of the
    directory of a recording nothing is changed."""

    word, config_class, report_class = "inefficient", InefficientConfig, Inefficient

    def _report(self, config: AnalyzerConfig) -> Tuple[Report, str, List[str]]:
        if os.path.isdir(config.input_path):
            return super()._report(config)
        told, _ = _native.check_inefficient(os.fspath(config.input_path), config.wishes(), _is_terminal())
        document, text, shown, notes = told
        return Inefficient(json.loads(document), text), shown, notes


class OomAnalyzer(Analyzer):
    """What was going on when memory ran out."""

    word, config_class, report_class = "oom", OomConfig, OutOfMemory


_ANALYZERS: Dict[str, Type[Analyzer]] = {
    analyzer.word: analyzer
    for analyzer in (LeaksAnalyzer, FluctuationAnalyzer, DecomposeAnalyzer, InefficientAnalyzer, OomAnalyzer)
}


def _analyzer(analyzer_type: str) -> Type[Analyzer]:
    found = _ANALYZERS.get(analyzer_type) if isinstance(analyzer_type, str) else None
    if found is None:
        raise ValueError(f"bad value {analyzer_type!r} for analyzer_type; allowed: {', '.join(_ANALYZERS)}")
    return found


def list_analyzers() -> List[str]:
    """The names of the analyses there are."""
    return list(_ANALYZERS)


def get_analyzer_config(analyzer_type: str) -> Dict[str, Any]:
    """What an analysis is told: the name of its class (`config_class`), and its parameters. `ValueError` of one that is not known."""
    config_class = _analyzer(analyzer_type).config_class
    parameters = [field.name for field in dataclasses.fields(config_class)]
    return {"config_class": config_class.__name__, "parameters": parameters}


def analyze(analyzer_type: str, **parameters: Any) -> Report:
    """Makes the analysis of this name with these parameters, prints its report and returns it."""
    analyzer = _analyzer(analyzer_type)
    return analyzer().analyze(analyzer.config_class(**parameters))


def check_leaks(input_path: _Path, mstx_info: str, start_index: int = 0) -> Leaks:
    """What was allocated between two marks of the text `mstx_info` and not freed by a third: A, B and C, from the mark of number
    `start_index` on. Of all pools; prints the report and returns it."""
    if mstx_info is None:
        raise TypeError("mstx_info must be a str, not NoneType")
    return cast(Leaks, LeaksAnalyzer().analyze(LeaksConfig(input_path, mstx_info, start_index)))


def check_inefficient(
    input_path: _Path,
    mem_size: int = 0,
    inefficient_type: Union[None, str, Sequence[str]] = None,
    idle_threshold: int = 3000,
) -> Inefficient:
    """What is allocated too early, freed too late, or idle, of blocks of at least `mem_size` bytes. It is added to the rows of the
    csv or db file, what an earlier call found stays; prints the report and returns it."""
    config = InefficientConfig(input_path, mem_size, inefficient_type, idle_threshold)
    return cast(Inefficient, InefficientAnalyzer().analyze(config))


def _is_terminal() -> bool:
    """Whether what is printed goes to the terminal that the standard output stream is."""
    stream = sys.__stdout__
    return stream is not None and stream is sys.stdout and not stream.closed and stream.isatty()
