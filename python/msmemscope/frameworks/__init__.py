"""Which part of a framework memory belongs to: hooks on its functions, by tables of their names and versions.

A table per framework (`pytorch`, `vllm_ascend`, `verl`, `mindspeed_llm`) says which functions are hooked in which versions and what
that tells of memory. Modules are hooked when they are imported; those that are there already, at once. Nothing here imports a
framework.
"""

__all__ = ["cleanup_framework_hooks", "init_framework_hooks"]


def init_framework_hooks(framework: str, version: str, component: str, hook_type: str) -> None:
    """Hooks the functions that the table of this framework names for this version, part and purpose.

    `framework` is `"pytorch"`, `"vllm_ascend"`, `"verl"` or `"mindspeed_llm"`; `version` the framework's own, as in
    `torch.__version__`; `hook_type` is `"decompose"` (labels for memory) or `"snapshot"` (snapshots before and after a call).
    Modules that are imported later are hooked then. Calling it again with other arguments adds to what is hooked.

    With `analysis="decompose"`, `start()` hooks all that can be decomposed of the frameworks that are there, unless hooks for it were
    chosen by this function.

    Raises `ValueError` for what the table does not have, and says what it has; then nothing is hooked.
    """
    from . import registry

    registry.init(framework, version, component, hook_type)


def cleanup_framework_hooks() -> None:
    """Takes all hooks off: functions and methods are the very objects they were before."""
    from . import registry

    registry.cleanup()
