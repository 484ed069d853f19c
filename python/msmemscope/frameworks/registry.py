"""Which hooks are wanted, by whom, and what becomes of them when a module is imported."""

import importlib.metadata
import sys
import threading
from types import ModuleType
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

from . import imports, mindspeed_llm, notes, patches, pytorch, training, verl, versions, vllm_ascend, windows
from .hooks import AnyHook, Entry, Framework
from .versions import Version

FRAMEWORKS: Dict[str, Framework] = {
    framework.name: framework for framework in (pytorch.TABLE, vllm_ascend.TABLE, verl.TABLE, mindspeed_llm.TABLE)
}
HOOK_TYPES = ("decompose", "snapshot")


class _Wanted:
    """What is hooked and will be, as modules are imported."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: By module; chosen by the user.
        self.chosen: Dict[str, List[AnyHook]] = {}
        #: By module; of all frameworks, while memory is to be decomposed. The version is looked at when the module is there.
        self.automatic: Dict[str, List[Tuple[Framework, Entry, AnyHook]]] = {}
        self.user_chose_decompose = False

    def modules(self) -> Set[str]:
        return {*self.chosen, *self.automatic}


_wanted = _Wanted()


def init(framework: str, version: str, component: str, hook_type: str) -> None:
    """What `msmemscope.init_framework_hooks` does."""
    hooks = list(chosen_hooks(framework, version, component, hook_type))
    with _wanted.lock:
        if hook_type == "decompose":
            _wanted.user_chose_decompose = True
            _drop_automatic()
        for hook in hooks:
            of_module = _wanted.chosen.setdefault(hook.target.module, [])
            if hook not in of_module:
                of_module.append(hook)
    _watch(hook.target.module for hook in hooks)


def chosen_hooks(framework: str, version: str, component: str, hook_type: str) -> Iterator[AnyHook]:
    """All that match, each once. Raises `ValueError` if nothing does."""
    for name, value in (("framework", framework), ("version", version), ("component", component), ("hook_type", hook_type)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    table = FRAMEWORKS.get(framework)
    if table is None:
        raise ValueError(f"bad value {framework!r} for framework; allowed: {_listed(FRAMEWORKS)}")
    if hook_type not in HOOK_TYPES:
        raise ValueError(f"bad value {hook_type!r} for hook_type; allowed: {_listed(HOOK_TYPES)}")
    try:
        parsed = versions.parse(version)
    except ValueError as error:
        raise ValueError(f"bad value for version: {error}") from None
    if all(entry.component != component for entry in table.entries):
        components = dict.fromkeys(entry.component for entry in table.entries)
        raise ValueError(f"bad value {component!r} for component of {framework}; allowed: {_listed(components)}")
    of_component = [entry for entry in table.entries if entry.component == component]
    of_type = [entry for entry in of_component if entry.hook_type == hook_type]
    if not of_type:
        types = dict.fromkeys(entry.hook_type for entry in of_component)
        raise ValueError(f"bad value {hook_type!r} for hook_type: {framework} {component} has only {_listed(types)}")
    matching = [entry for entry in of_type if versions.matches(entry.versions, parsed)]
    if not matching:
        known = dict.fromkeys(entry.versions for entry in of_type)
        raise ValueError(f"bad value {version!r} for version of {framework} {component}; known: {_listed(known)}")
    # In their order, each once.
    yield from dict.fromkeys(hook for entry in matching for hook in entry.hooks)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def cleanup() -> None:
    """What `msmemscope.cleanup_framework_hooks` does."""
    with _wanted.lock:
        for module in _wanted.modules():
            imports.unwatch(module)
        _wanted.chosen.clear()
        _wanted.automatic.clear()
        _wanted.user_chose_decompose = False
    training.end()
    patches.unhook(lambda hook: True)
    for key in windows.open_keys():
        windows.close_window(key)


def begin() -> None:
    """Memory is to be decomposed from here on."""
    training.begin()
    with _wanted.lock:
        if _wanted.user_chose_decompose or _wanted.automatic:
            return
        for table in FRAMEWORKS.values():
            for entry in table.entries:
                if entry.hook_type == "decompose":
                    for hook in entry.hooks:
                        _wanted.automatic.setdefault(hook.target.module, []).append((table, entry, hook))
        modules = list(_wanted.automatic)
    _watch(modules)


def end() -> None:
    """And no further; hooks that the user chose stay."""
    training.end()
    with _wanted.lock:
        _drop_automatic()


def _drop_automatic() -> None:
    dropped = _wanted.automatic
    _wanted.automatic = {}
    kept = {id(hook) for hooks in _wanted.chosen.values() for hook in hooks}
    unwanted = {id(hook) for rows in dropped.values() for _, _, hook in rows} - kept
    patches.unhook(lambda hook: id(hook) in unwanted)
    for module in dropped:
        if module not in _wanted.chosen:
            imports.unwatch(module)


def _watch(modules: Iterable[str]) -> None:
    for module in dict.fromkeys(modules):
        imports.watch(module, _when_imported)


def _when_imported(name: str, module: ModuleType, is_run: bool) -> None:
    with _wanted.lock:
        hooks = list(_wanted.chosen.get(name, ()))
        rows = list(_wanted.automatic.get(name, ()))
    for table, entry, hook in rows:
        version = installed_version(table)
        if version is None or versions.matches(entry.versions, version):
            hooks.append(hook)
    missing: List[str] = []
    for hook in dict.fromkeys(hooks):
        try:
            patches.hook(module, hook.target.path, hook)
        except patches.NotThere as reason:
            missing.append(str(reason))
    if missing and is_run:
        notes.tell_once(f"not all of {name} is hooked, its memory will lack labels or snapshots: it {'; it '.join(missing)}")


def installed_version(table: Framework) -> Optional[Version]:
    """Of the framework in this process; none if it does not say."""
    said = getattr(sys.modules.get(table.package), "__version__", None)
    try:
        return versions.parse(str(said if said is not None else importlib.metadata.version(table.distribution)))
    except (ValueError, importlib.metadata.PackageNotFoundError):
        return None
