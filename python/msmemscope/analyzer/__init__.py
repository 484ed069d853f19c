"""The analyses by name, of recordings and dump files: on any machine, without torch and without an NPU.

    import msmemscope

    msmemscope.check_leaks(input_path="memscope_dump_20261118045538.csv", mstx_info="test", start_index=0)
    msmemscope.analyze("decompose", input_path="memscopeDumpResults", at="step:7")

Each prints the report of the command, and returns it.
"""

from ._analyzers import (
    Analyzer,
    DecomposeAnalyzer,
    FluctuationAnalyzer,
    InefficientAnalyzer,
    LeaksAnalyzer,
    OomAnalyzer,
    analyze,
    check_inefficient,
    check_leaks,
    get_analyzer_config,
    list_analyzers,
)
from ._configs import (
    AnalyzerConfig,
    DecomposeConfig,
    FluctuationConfig,
    InefficientConfig,
    LeaksConfig,
    OomConfig,
)

__all__ = [
    "Analyzer",
    "AnalyzerConfig",
    "DecomposeAnalyzer",
    "DecomposeConfig",
    "FluctuationAnalyzer",
    "FluctuationConfig",
    "InefficientAnalyzer",
    "InefficientConfig",
    "LeaksAnalyzer",
    "LeaksConfig",
    "OomAnalyzer",
    "OomConfig",
    "analyze",
    "check_inefficient",
    "check_leaks",
    "get_analyzer_config",
    "list_analyzers",
]
