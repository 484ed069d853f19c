"""Whether a compiler is following the program instead of running it."""

from typing import Callable


def _never() -> bool:
    return False


#: `torch.compiler.is_compiling` from the moment that torch is there: a compiler knows this very function, and its answer, so that what
#: is done only if it says no is not in the compiled program.
is_compiling: Callable[[], bool] = _never


def torch_is_there(torch: object) -> None:
    """Called when torch has been imported."""
    global is_compiling
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
