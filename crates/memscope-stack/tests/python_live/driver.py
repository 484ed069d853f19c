"""Compares the stacks that the probe takes with what the interpreter says of its own frames.

usage: driver.py <libpython_probe.so> check|measure
"""
import asyncio
import ctypes
import gc
import sys
import threading
import weakref

REPORT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
checks = 0


def expected_frames(frame, depth):
    lines = []
    while frame is not None and len(lines) < depth:
        code = frame.f_code
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
        file = code.co_filename.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        lines.append("%s\t%s\t%d\t%d\t%s" % (file, name, max(frame.f_lasti, 0), code.co_firstlineno, table.hex()))
        frame = frame.f_back
    return lines


class Probe:
    """Calls the probe with the interpreter lock held (PyDLL) or released (CDLL), and checks what it says."""

    def __init__(self, library, depth=1000):
        self.library = library
        self.depth = depth
        self.failure = None
        self.callback = REPORT(self.compare)

    def compare(self, text):
        # The calling frame is still at the very instruction that called the probe.
        global checks
        checks += 1
        expected = expected_frames(sys._getframe(1), self.depth)
        found = text.decode("utf-8").splitlines()
        if found != expected and self.failure is None:
            self.failure = "expected:\n  %s\nfound:\n  %s" % ("\n  ".join(expected), "\n  ".join(found))

    def __call__(self, *_):
        # Through this frame, so that every stack has a method in it.
        self.library.probe(self.depth, self.callback)
        if self.failure:
            raise AssertionError(self.failure)


def plain_functions(probe):
    def inner(n):
        probe()
        return n

    class Holder:
        probe()  # a class body

        @staticmethod
        def method(n):
            return inner(n) + inner(n + 1)

    assert Holder.method(1) == 3
    probe()
    return [inner(n) for n in range(3)]


def recursion(probe):
    def down(n):
        if n == 0:
            probe()
        else:
            down(n - 1)
            if n % 17 == 0:
                probe()

    for depth in (1, 10, 150, 400, 3, 700, 699, 698, 20):
        down(depth)


def generators(probe):
    def numbers():
        for n in range(5):
            probe()
            yield n
            probe()

    def delegating():
        yield from numbers()

    assert sum(numbers()) == 10
    assert list(delegating()) == [0, 1, 2, 3, 4]
    one, other = numbers(), numbers()
    for _ in range(2):
        # The same generator frames under different callers and at different instructions.
        next(one), next(other)
        (lambda: next(one))()
        next(other)
    assert [probe(n) for n in range(3)] == [None] * 3
    assert {n: probe(n) for n in range(2)} == {0: None, 1: None}
    assert list(map(lambda n: probe(n), range(3))) == [None] * 3


def coroutines(probe):
    async def leaf(n):
        probe()
        await asyncio.sleep(0)
        probe()
        return n

    async def agen():
        for n in range(3):
            yield await leaf(n)
            probe()

    async def main():
        results = await asyncio.gather(*(leaf(n) for n in range(5)))
        async for n in agen():
            results.append(n)
            probe()
        return results

    assert asyncio.run(main()) == [0, 1, 2, 3, 4, 0, 1, 2]


def through_c(probe):
    """Python called from C called from Python."""

    class Key:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            probe()
            return self.n < other.n

        def __del__(self):
            probe()

        def __getattr__(self, name):
            probe()
            return name

    keys = sorted([Key(3), Key(1), Key(2)])
    assert keys[0].missing == "missing"
    assert sorted([3, 1, 2], key=lambda n: (probe(), n)[1]) == [1, 2, 3]
    del keys
    try:
        try:
            raise ValueError
        except ValueError:
            probe()
            raise KeyError
        finally:
            probe()
    except KeyError:
        probe()
    with open(__file__) as file:
        probe()
        file.readline()


def traced(probe):
    old = sys.gettrace()
    sys.settrace(lambda frame, event, arg: None)
    try:
        plain_functions(probe)
    finally:
        sys.settrace(old)
    sys.setprofile(lambda frame, event, arg: None)
    try:
        plain_functions(probe)
    finally:
        sys.setprofile(None)


def short_lived_code(probe):
    """Code that is compiled, run and freed: addresses of code, strings and frames come back with other contents."""
    for n in range(400):
        lines = "\n" * (n % 7)
        exec(compile("%sdef f%d():\n    probe()\nf%d()\nprobe()" % (lines, n % 5, n % 5), "<file %d>" % (n % 11), "exec"),
             {"probe": probe})
    for n in range(400):
        # The same name and file, other lines: only the line table differs.
        exec("%s\nprobe()%s\nprobe()" % ("\n" * (n % 23), "\n" * (n % 3)), {"probe": probe})
    for n in range(200):
        eval("[probe(), %s][0]" % ("1" * (n % 9 + 1)), {"probe": probe})
        if n % 50 == 0:
            gc.collect()


def changes_of(code, kind, number):
    """What tells the code made anew in round `number` from the one before, which may have lain at the same addresses."""
    table = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
    lines = bytearray(getattr(code, table))
    # Long enough to have a middle.
    lines += bytes(max(0, 40 - len(lines)))
    lines[len(lines) // 2] ^= number % 64 + 1
    name = "co_qualname" if sys.version_info >= (3, 11) else "co_name"
    return (
        {name: "name_%03d" % number},
        {"co_filename": "/made/file_%03d.py" % number},
        {"co_firstlineno": 100 + number},
        # As long as the others of its kind, and with the same beginning and end.
        {table: bytes(lines)},
    )[kind]


def code_made_anew(probe):
    """Code that dies and is made anew without compiling anything, between calls of the same function from the same place."""

    def call(probe, again, others):
        probe()
        for _ in range(others):
            again(probe, again, others - 1)
        probe()
        return others

    def count(probe, again, others):
        for other in range(others):
            probe()
            yield other
            yield from again(probe, again, others - 1)
        probe()

    def replace_while_running(probe, again, others):
        # From now on the frame alone has its code.
        again.__code__ = again.__code__.replace(co_firstlineno=7000 + others)
        probe()
        again.__code__ = again.__code__.replace(co_firstlineno=8000 + others)
        probe()
        return others

    def plain(probe, again, others):
        return 0

    def counting(probe, again, others):
        yield 0

    def run(function, probe, others):
        result = function(probe, function, others)
        return result if isinstance(result, int) else sum(result)

    for original, stand_in in ((call, plain), (count, counting), (replace_while_running, plain)):
        nothing, addresses = stand_in.__code__, []
        for number in range(240):
            # Frees the code of the round before.
            stand_in.__code__ = nothing
            stand_in.__code__ = original.__code__.replace(**changes_of(original.__code__, number // 60, number))
            addresses.append(id(stand_in.__code__))
            # Other depths, so that frames, too, come to old places, and calls of which nobody takes the stack.
            run(stand_in, probe if number % 5 else int, number // 2 % 3)
        # Other threads may be given them.
        if threading.current_thread() is threading.main_thread():
            assert len(set(addresses)) < len(addresses), "addresses of code do not come back"
    body = compile("probe()\n" + "x = 1\n" * 20 + "probe()\n", "<body>", "exec")
    for number in range(100):
        exec(body.replace(**changes_of(body, number // 25, number)), {"probe": probe})


def code_that_dies_with_its_frame(probe):
    """The last reference to code is that of its frame, and Python runs while the code is destroyed: up to 3.11 the frame is
    still linked then. What it calls its code cannot be asked for, so that nothing is compared before it is gone."""
    deaths = []

    def died(_):
        probe.library.probe_unchanged(probe.depth, 1)
        deaths.append(1)

    for number in range(100):
        scope = {"probe": probe}
        exec("%sdef f():\n    del globals()['f']\n    probe()" % ("\n" * (number % 7)), scope)
        scope["f"].__code__ = code = scope["f"].__code__.replace(co_filename="/gone/%d.py" % number)
        reference = weakref.ref(code, died)
        del code
        scope["f"]()
        probe()
        assert len(deaths) == number + 1 and reference() is None


def the_same_code_again_is_defined_once(probe):
    def definitions():
        codes, nodes = ctypes.c_uint32(), ctypes.c_uint32()
        probe.library.probe_definitions(ctypes.byref(codes), ctypes.byref(nodes))
        return codes.value, nodes.value

    seen = []
    for _ in range(100):
        exec(compile("probe()", "<the same>", "exec"), {"probe": probe})
        seen.append(definitions())
    assert seen[0][0] == seen[-1][0], seen
    # Not so early: a call is at another offset once the interpreter has specialised it.
    assert seen[50] == seen[-1], seen


def names_beyond_ascii(probe):
    for name, file in (("é", "/tmp/café.py"), ("训练", "/tmp/模型/训练.py"), ("𝔘", "/tmp/🚀.py"), ("f", "/tmp/\udcff.py")):
        scope = {"probe": probe}
        exec(compile("def %s():\n  probe()\n%s()" % (name, name), file, "exec"), scope)
    # Far longer than any real one, but shorter than what is cut.
    exec(compile("def f():\n  probe()\nf()", "/tmp/" + "长" * 1300, "exec"), {"probe": probe})


def big_function(probe):
    source = "def f(x):\n" + "".join("  x = x + %d\n" % n for n in range(3000)) + "  probe()\n" + "f(1)\n"
    exec(compile(source, "<big>", "exec"), {"probe": probe})


def threads(probe):
    failures = []

    def work(n):
        try:
            for scenario in (plain_functions, generators, through_c):
                scenario(probe)
            probe.depth, depth = 1000, probe.depth
            short_lived_code(probe)
            code_made_anew(probe)
            probe.depth = depth
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


SCENARIOS = (
    plain_functions,
    recursion,
    generators,
    coroutines,
    through_c,
    traced,
    short_lived_code,
    code_made_anew,
    code_that_dies_with_its_frame,
    the_same_code_again_is_defined_once,
    names_beyond_ascii,
    big_function,
)


def check(path):
    for library in (ctypes.PyDLL(path), ctypes.CDLL(path)):
        for depth in (1000, 1, 7, 50):
            probe = Probe(library, depth)
            for scenario in SCENARIOS:
                scenario(probe)
        threads(Probe(library))
    # Frames of a daemon thread while the interpreter goes away.
    daemon = Probe(ctypes.CDLL(path))
    started = threading.Event()

    def forever():
        while True:
            daemon.library.probe_unchanged(50, 20)
            started.set()

    threading.Thread(target=forever, daemon=True).start()
    started.wait()
    print("%s: %d stacks agree" % (sys.version.split()[0], checks))


def measure(path):
    library = ctypes.PyDLL(path)
    library.probe_unchanged.restype = ctypes.c_double
    library.probe_steps.restype = ctypes.c_double

    def at(depth, action):
        return action() if depth == 0 else at(depth - 1, action)

    def unchanged():
        return library.probe_unchanged(1000, 200)

    def top_changes():
        step = library.probe_step
        for _ in range(20000):
            step(1000)
            step(1000)
        return library.probe_steps()

    def called_anew():
        step = library.probe_step

        def callee():
            step(1000)

        for _ in range(20000):
            callee()
            callee()
        return library.probe_steps()

    for frames in (5, 20, 40):
        # The module, measure, and the action itself are frames too.
        print("%s: %2d frames: unchanged %5.1f ns, top line changes %5.1f ns, call anew %5.1f ns" % (
            sys.version.split()[0], frames, at(frames - 4, unchanged), at(frames - 4, top_changes),
            at(frames - 5, called_anew)))


library = ctypes.CDLL(sys.argv[1])
found = library.probe_initialise()
if found != sys.hexversion >> 16:
    sys.exit("the probe found version %#x in %#x" % (found, sys.hexversion >> 16))
sys.setrecursionlimit(5000)
check(sys.argv[1]) if sys.argv[2] == "check" else measure(sys.argv[1])
