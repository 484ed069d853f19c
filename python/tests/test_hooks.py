"""Hooks on functions of modules, whenever and however these are imported, and what is left of them afterwards: nothing."""

import asyncio
import gc
import importlib
import importlib.util
import inspect
import os
import pickle
import sys
import threading
import unittest
import warnings
from typing import Any, Dict, List, Optional, Tuple

import msmemscope
from hooked import HookedCase
from msmemscope.frameworks import imports, patches, windows
from msmemscope.frameworks.hooks import During, Target

LABELS = ((1, "component"), (2, "process"))


class Noted:
    """A hook that keeps what it was told."""

    def __init__(self, name: str, log: List[Any]) -> None:
        self.name = name
        self.log = log

    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.log.append((self.name, "enter", args, kwargs))

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        self.log.append((self.name, "leave", result, error))


class Broken(Noted):
    def enter(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        raise LookupError("before")

    def leave(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any, error: Optional[BaseException]) -> None:
        raise AssertionError("not entered, not left")


class Imports(HookedCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(imports.unwatch_all)
        self.told: List[str] = []

    def watch(self, name: str) -> None:
        imports.watch(name, lambda fullname, module, is_run: self.told.append(f"{fullname} {module.value} {is_run}"))

    def test_a_module_is_told_when_its_code_has_run_and_one_that_is_there_at_once(self) -> None:
        self.write({"early": "value = 1", "late": "value = 2", "other": "value = 3"})
        self.load("early")
        self.watch("early")
        self.watch("late")
        self.assertEqual(self.told, ["early 1 True"])
        self.load("other")
        module = self.load("late")
        self.assertEqual(self.told, ["early 1 True", "late 2 True"])
        loader = module.__loader__
        self.assertIs(type(loader), importlib.machinery.SourceFileLoader)
        self.assertNotIn("exec_module", vars(loader))
        self.assertIs(module.__spec__ and module.__spec__.loader, loader)

    def test_reloading_tells_again(self) -> None:
        self.write({"late": "value = 1"})
        self.watch("late")
        module = self.load("late")
        importlib.reload(module)
        self.assertEqual(self.told, ["late 1 True"] * 2)

    def test_a_lazy_module_stays_lazy_and_is_told_when_it_is_used(self) -> None:
        for watched_first in (True, False):
            with self.subTest(watched_first=watched_first):
                name = f"lazy_{watched_first}".lower()
                self.write({name: "import seen\nseen.call('ran')\nvalue = 1"})
                if watched_first:
                    self.watch(name)
                spec = importlib.util.find_spec(name)
                assert spec is not None and spec.loader is not None
                spec.loader = importlib.util.LazyLoader(spec.loader)
                module = importlib.util.module_from_spec(spec)
                sys.modules[name] = module
                spec.loader.exec_module(module)
                if not watched_first:
                    self.watch(name)
                self.assertEqual((self.told, self.load("seen").calls), ([], []))
                self.assertEqual(module.value, 1)
                self.assertEqual((self.told, self.load("seen").calls), ([f"{name} 1 True"], ["ran"]))
                self.told.clear()
                self.load("seen").calls.clear()

    def test_modules_in_namespaces_and_those_of_old_loaders_are_told(self) -> None:
        os.mkdir(os.path.join(self.directory, "room"))
        with open(os.path.join(self.directory, "room", "inside.py"), "w") as file:
            file.write("value = 5")
        self.watch("room")
        self.watch("room.inside")
        # A namespace has no code that could run.
        self.load("room.inside")
        self.assertEqual(self.told, ["room.inside 5 True"])

        class OldLoader:
            def load_module(self, name: str) -> Any:
                module = sys.modules[name] = type(sys)(name)
                module.value = 7  # type: ignore[attr-defined]
                return module

        class OldFinder:
            def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
                return importlib.machinery.ModuleSpec(name, OldLoader()) if name == "old" else None  # type: ignore[arg-type]

        finder = OldFinder()
        sys.meta_path.append(finder)
        self.addCleanup(sys.meta_path.remove, finder)
        self.watch("old")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.load("old")
        self.assertEqual(self.told[1:], ["old 7 True"])

    def test_looking_for_a_module_or_failing_to_import_it_tells_nothing(self) -> None:
        self.write({"there": "value = 1", "broken": "value = 1\nraise KeyError('its own')"})
        for name in ("there", "broken", "nowhere"):
            self.watch(name)
        self.assertIsNotNone(importlib.util.find_spec("there"))
        self.assertNotIn("there", sys.modules)
        with self.assertRaisesRegex(KeyError, "its own"):
            self.load("broken")
        with self.assertRaises(ModuleNotFoundError):
            self.load("nowhere")
        self.assertEqual(self.told, [])

    def test_a_module_that_is_running_is_looked_at_again(self) -> None:
        self.write({"running": "import seen\nseen.call('in')\nvalue = 2", "next_one": "value = 3"})
        self.load("seen").inside = lambda name: self.watch_half("running")
        self.load("running")
        self.watch("next_one")
        self.assertEqual(self.told, ["half", "running 2 True"])

    def watch_half(self, name: str) -> None:
        def told(fullname: str, module: Any, is_run: bool) -> None:
            self.told.append(f"{fullname} {module.value} {is_run}" if is_run else "half")

        imports.watch(name, told)

    def test_a_module_may_put_another_in_its_place(self) -> None:
        self.write({"chameleon": "import sys, types\nnew = types.ModuleType(__name__)\nnew.value = 9\nsys.modules[__name__] = new"})
        self.watch("chameleon")
        self.load("chameleon")
        self.assertEqual(self.told, ["chameleon 9 True"])

    def test_what_fails_in_a_callback_is_one_warning(self) -> None:
        self.write({"one": "value = 1", "two": "value = 1"})
        imports.watch("one", lambda *_: 1 / 0)  # type: ignore[arg-type]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            importlib.reload(self.load("one"))
        self.assertEqual([str(warning.message).split(":")[0] for warning in caught], ["hooking one failed and is left out"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            imports.watch("two", lambda *_: [][1])
            self.assertEqual(self.load("two").value, 1)

    def test_imports_in_many_threads_tell_once_each(self) -> None:
        names = [f"many_{number}" for number in range(20)]
        self.write({name: "value = 1" for name in names})
        for name in names:
            self.watch(name)
        threads = [threading.Thread(target=lambda: [self.load(name) for name in names]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.told), sorted(f"{name} 1 True" for name in names))


SOURCE = """
    import functools

    def plain(a, b=2, *, c: int = 3) -> int:
        "Doc of plain."
        return a + b + c

    def raises():
        raise KeyError("its own")

    class Base:
        def inherited(self, a): return ("base", a)

    class Thing(Base):
        "Doc of Thing."
        def method(self, a): return (self, a)
        @staticmethod
        def static(a): return a
        @classmethod
        def of_class(cls, a): return (cls, a)
        @property
        def prop(self): "Doc of prop."; return 7
        async def wait(self, event):
            await event
            return "waited"

    constant = 5
"""
METHODS = ("method", "static", "of_class", "prop", "wait", "inherited")


class Patches(HookedCase):
    def setUp(self) -> None:
        super().setUp()
        self.write({"target": SOURCE})
        self.module = self.load("target")
        self.log: List[Any] = []

    def hook(self, path: str, name: str = "hook") -> Noted:
        hook = Noted(name, self.log)
        patches.hook(self.module, path, hook)
        return hook

    def test_functions_are_called_as_before_and_look_as_before(self) -> None:
        Thing = self.module.Thing
        before = {name: vars(Thing).get(name) for name in METHODS}
        signatures = {name: str(inspect.signature(getattr(Thing, name))) for name in METHODS if name != "prop"}
        signature, plain = str(inspect.signature(self.module.plain)), self.module.plain
        for name in METHODS:
            self.hook(f"Thing.{name}")
        self.hook("plain")
        self.assertEqual(self.module.plain(1, c=5), 8)
        self.assertEqual(self.log, [("hook", "enter", (1,), {"c": 5}), ("hook", "leave", 8, None)])
        self.assertEqual((self.module.plain.__name__, self.module.plain.__doc__), ("plain", "Doc of plain."))
        self.assertEqual(str(inspect.signature(self.module.plain)), signature)
        self.assertIs(pickle.loads(pickle.dumps(self.module.plain)), self.module.plain)
        thing = Thing()
        self.assertEqual(thing.method(1), (thing, 1))
        self.assertEqual((thing.static(2), Thing.static(2)), (2, 2))
        self.assertEqual((thing.of_class(3), Thing.of_class(3)), ((Thing, 3),) * 2)
        self.assertEqual((thing.prop, Thing.prop.__doc__), (7, "Doc of prop."))
        self.assertEqual(thing.inherited(4), ("base", 4))
        self.assertTrue(inspect.iscoroutinefunction(Thing.wait))
        self.assertEqual({name: str(inspect.signature(getattr(Thing, name))) for name in signatures}, signatures)
        with self.assertRaises(TypeError):
            self.module.plain()
        msmemscope.cleanup_framework_hooks()
        self.assertEqual({name: vars(Thing).get(name) for name in METHODS}, before)
        self.assertIs(self.module.plain, plain)
        self.assertNotIn("inherited", vars(Thing))

    def test_hooks_are_left_in_reverse_and_also_if_the_function_raises(self) -> None:
        self.hook("raises", "first")
        self.hook("raises", "second")
        with self.assertRaisesRegex(KeyError, "its own") as raised:
            self.module.raises()
        self.assertEqual([(name, what) for name, what, *_ in self.log], [("first", "enter"), ("second", "enter"), ("second", "leave"), ("first", "leave")])
        self.assertIs(self.log[-1][3], raised.exception)

    def test_the_same_hook_counts_once(self) -> None:
        hook = During(Target("target", "plain"), LABELS)
        patches.hook(self.module, "plain", hook)
        patches.hook(self.module, "plain", During(Target("target", "plain"), LABELS))
        self.module.plain(1)
        self.assertEqual([what for what, *_ in self.recorder.told], ["start", "start", "end", "end"])

    def test_a_hook_that_fails_is_one_warning_and_the_program_goes_on(self) -> None:
        patches.hook(self.module, "plain", Broken("broken", self.log))
        self.hook("plain")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual([self.module.plain(1) for _ in range(3)], [6, 6, 6])
        self.assertEqual([str(warning.message) for warning in caught], ["the hook before target.plain failed and is left out: LookupError: before"])
        self.assertEqual(len(self.log), 6)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(self.module.plain(1), 6)

    def test_what_is_not_there_or_no_function_is_said(self) -> None:
        for path, reason in (
            ("missing", "has no function missing"),
            ("Missing.method", "has no class Missing"),
            ("Thing.missing", "has no missing in its class Thing"),
            ("constant", "has no function constant: it is a int"),
            ("Thing", "has no function Thing: it is a type"),
        ):
            with self.assertRaisesRegex(patches.NotThere, reason):
                self.hook(path)
        self.assertEqual(patches.hooked(), [])

    def test_a_function_by_another_name_has_hooks_of_its_own(self) -> None:
        original = self.module.plain
        self.write({"importer": "from target import plain"})
        self.hook("plain", "by its name")
        importer = self.load("importer")
        patches.hook(importer, "plain", Noted("by the other", self.log))
        importer.plain(1)
        self.assertEqual({name for name, *_ in self.log}, {"by the other"})
        msmemscope.cleanup_framework_hooks()
        self.assertIs(importer.plain, original)
        self.assertIs(self.module.plain, original)

    def test_what_somebody_put_around_it_stays_and_calls_the_original(self) -> None:
        self.hook("plain")
        ours = self.module.plain
        theirs = self.module.plain = lambda *given, **named: ours(*given, **named)
        msmemscope.cleanup_framework_hooks()
        self.assertIs(self.module.plain, theirs)
        self.assertEqual(self.module.plain(1), 6)
        self.assertEqual(self.log, [])

    def test_a_coroutine_has_its_labels_only_while_it_runs(self) -> None:
        patches.hook(self.module, "Thing.wait", During(Target("target", "Thing.wait"), LABELS))
        between: List[str] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            event = loop.create_future()
            task = loop.create_task(self.module.Thing().wait(event))
            await asyncio.sleep(0)
            between.append(self.recorder.now())
            event.set_result(None)
            self.assertEqual(await task, "waited")
            cancelled = loop.create_task(self.module.Thing().wait(loop.create_future()))
            await asyncio.sleep(0)
            cancelled.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await cancelled

        asyncio.run(main())
        self.assertEqual(between, [""])
        self.assertEqual(self.recorder.open, [])
        starts = [told for told in self.recorder.told if told[0] == "start"]
        self.assertEqual(len(starts), 4 * len(LABELS))

    def test_hooking_and_unhooking_while_others_call_does_no_harm(self) -> None:
        ends = threading.Event()
        failures: List[BaseException] = []

        def call() -> None:
            try:
                while not ends.is_set():
                    assert self.module.plain(1) == 6
                    assert self.module.Thing().inherited(1) == ("base", 1)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        plain = self.module.plain
        for _ in range(200):
            self.hook("plain")
            self.hook("Thing.inherited")
            msmemscope.cleanup_framework_hooks()
        ends.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        # A thread may have looked it up just before.
        self.assertIn(getattr(self.module.plain, "__wrapped__", self.module.plain), (plain,))
        self.assertEqual(patches.hooked(), [])


class Windows(HookedCase):
    def test_a_window_lasts_from_where_it_is_opened_to_where_it_is_closed(self) -> None:
        windows.open_window("a", LABELS)
        windows.open_window("a", LABELS)
        self.assertEqual(self.recorder.now(), "component@process")
        windows.close_window("a")
        windows.close_window("a")
        self.assertEqual((self.recorder.now(), len(self.recorder.told)), ("", 4))

    def test_a_window_that_another_thread_closes_ends_before_its_thread_goes_on(self) -> None:
        windows.open_window("mine", LABELS)
        other = threading.Thread(target=windows.close_window, args=("mine",))
        other.start()
        other.join()
        # Ends are only the thread's own to tell.
        self.assertEqual(self.recorder.now(), "component@process")
        windows.open_window("next", ((2, "next"),))
        self.assertEqual(self.recorder.now(), "next")
        windows.close_window("next")

    def test_windows_that_overlap_end_in_any_order(self) -> None:
        for key in ("a", "b", "c"):
            windows.open_window(key, LABELS)
        for key in ("a", "c", "b"):
            self.assertEqual(self.recorder.now(), "component@process")
            windows.close_window(key)
        self.assertEqual(self.recorder.now(), "")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_goes_on_with_its_own_windows(self) -> None:
        windows.open_window("mine", LABELS)
        opened, ends = threading.Event(), threading.Event()

        def other() -> None:
            windows.open_window("theirs", ((2, "theirs"),))
            opened.set()
            ends.wait()
            windows.close_window("theirs")

        thread = threading.Thread(target=other)
        thread.start()
        opened.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            keys = windows.open_keys()
            windows.close_window("mine")
            os._exit(0 if keys == ["mine"] and not windows.open_keys() else 1)
        ends.set()
        thread.join()
        windows.close_window("mine")
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
