"""What analyses find: small objects that do not change.

Every report prints as the command does (`str(report)`, `report.text`), shows itself in a notebook, and is the document of
`msmemscope analyze --json` as a dict (`to_dict()`). Its fields are those of the document, as types; sizes are bytes, times
nanoseconds.
"""

from ._comparison import (
    Bytes,
    ComparedLevel,
    ComparedName,
    ComparedOwner,
    ComparedPool,
    ComparedSite,
    Comparison,
    DevicePair,
    LaunchCounts,
    Subject,
)
from ._decomposition import (
    DecomposedMoment,
    DecomposedStep,
    Decomposition,
    DeviceDecomposition,
    OwnerTree,
    PoolDecomposition,
)
from ._fluctuation import Balance, Fluctuation, Gap, OwnerShare, Peak, PoolFluctuation, SiteShare
from ._inefficient import Inefficiency, Inefficient, WorstBlock
from ._leaks import Growth, Leak, Leaks
from ._oom import BlockAtOom, HolderAtOom, Oom, OutOfMemory, PoolAtOom, SiteAtOom
from ._report import Report

__all__ = [
    "Balance",
    "BlockAtOom",
    "Bytes",
    "ComparedLevel",
    "ComparedName",
    "ComparedOwner",
    "ComparedPool",
    "ComparedSite",
    "Comparison",
    "DecomposedMoment",
    "DecomposedStep",
    "Decomposition",
    "DeviceDecomposition",
    "DevicePair",
    "Fluctuation",
    "Gap",
    "Growth",
    "HolderAtOom",
    "Inefficiency",
    "Inefficient",
    "LaunchCounts",
    "Leak",
    "Leaks",
    "Oom",
    "OutOfMemory",
    "OwnerShare",
    "OwnerTree",
    "Peak",
    "PoolAtOom",
    "PoolDecomposition",
    "PoolFluctuation",
    "Report",
    "SiteAtOom",
    "SiteShare",
    "Subject",
    "WorstBlock",
]
