"""The recorder, brought into a process that runs: nothing is missed, and nothing breaks."""

import os
import subprocess
import sys
import sysconfig
import unittest

import msmemscope
from recorded import PROGRAMS, RecordedCase

LIBPYTHON = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "-")
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

WATCH = """
import ctypes, json, sys
witness = ctypes.CDLL(None)
def begin():
    assert witness.witness_begin(), "the wrappers are not in the process"
def end():
    counts = (ctypes.c_long * 4)()
    witness.witness_end(counts)
    print(json.dumps(list(counts)))
"""


class Attach(RecordedCase):
    def test_no_allocation_and_no_free_is_missed_after_start(self) -> None:
        witness = self.compile("witness.c", "witness.so")
        ended = self.run_program(
            WATCH
            + """
import zlib, threading
import msmemscope
msmemscope.config(device="cpu", output=output)
msmemscope.start()
begin()
# Libraries that come later, with constructors that allocate, and what was there before.
import decimal, sqlite3, ssl, xml.dom.minidom, lzma, bz2, hashlib, unicodedata
def work():
    kept = []
    for size in range(1, 3000):
        kept.append(bytearray(size * 7))
        kept.append(zlib.compress(bytes(size)))
    database = sqlite3.connect(":memory:")
    database.execute("create table t(a)")
    database.executemany("insert into t values (?)", ((str(number) * 20,) for number in range(500)))
    xml.dom.minidom.parseString("<a>" + "<b c='d'/>" * 200 + "</a>")
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
end()
msmemscope.stop()
""",
            LD_PRELOAD=witness,
        )
        allocations, missed, frees, missed_frees = eval(ended.out)
        self.assertGreater(allocations, 20_000)
        self.assertGreater(frees, 20_000)
        self.assertEqual((missed, missed_frees), (0, 0), ended.errors)

    def test_what_was_loaded_before_and_what_is_loaded_later_is_recorded_alike(self) -> None:
        source = """
            #include <stdlib.h>
            static void *early;
            __attribute__((constructor)) static void begin(void) { early = malloc(SIZE); }
            void take(int times) { while (times--) free(malloc(SIZE + 1)); }
        """
        libraries = [
            self.compile(source, f"{name}.so", f"-DSIZE={size}", binding)
            for name, size, binding in [
                ("before_lazy", 70001, "-Wl,-z,lazy"),
                ("before_now", 70011, "-Wl,-z,now"),
                ("after_lazy", 70021, "-Wl,-z,lazy"),
                ("after_now", 70031, "-Wl,-z,now"),
            ]
        ]
        self.run_program(
            f"""
            import ctypes, msmemscope
            libraries = {libraries!r}
            before = [ctypes.CDLL(path) for path in libraries[:2]]
            # Bound before, and not bound yet.
            before[0].take(1)
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            after = [ctypes.CDLL(path) for path in libraries[2:]]
            for library in before + after:
                library.take(10)
            msmemscope.stop()
            """
        )
        sizes = [row["Attr"] for row in self.rows() if row["Event"] == "MALLOC"]
        for constructed, size in [(0, 70001), (0, 70011), (1, 70021), (1, 70031)]:
            made = sum(f"size:{size}," in attributes for attributes in sizes)
            taken = sum(f"size:{size + 1}," in attributes for attributes in sizes)
            self.assertEqual((made, taken), (constructed, 10), size)

    def test_an_allocator_of_a_librarys_own_keeps_its_blocks(self) -> None:
        # Bound to itself, because it is loaded with RTLD_DEEPBIND: its blocks must never come to another's free.
        library = self.compile(
            """
            #include <stddef.h>
            static char room[4096];
            static size_t used;
            static int given, returned;
            void *malloc(size_t size) { given++; void *block = room + used; used += (size + 15) & ~15ul; return block; }
            void free(void *block) { if (block) returned++; }
            int give_and_take(void) { for (int i = 0; i < 10; i++) free(malloc(8)); return given * 100 + returned; }
            """,
            "own.so",
            "-Wl,-z,now",
        )
        ended = self.run_program(
            f"""
            import ctypes, os, msmemscope
            own = ctypes.CDLL({library!r}, mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            print(own.give_and_take())
            msmemscope.stop()
            """
        )
        self.assertEqual(ended.out.strip(), "1010")

    @unittest.skipUnless(os.path.exists(LIBPYTHON) and ".so" in LIBPYTHON, "this Python is not a library")
    def test_a_program_that_defines_the_allocator_keeps_it_and_is_told(self) -> None:
        program = os.path.join(self.directory, "own_allocator")
        source = os.path.join(PROGRAMS, "own_allocator.c")
        subprocess.run(["cc", "-O1", "-fno-builtin", "-rdynamic", "-o", program, source, "-ldl"], check=True)
        ended = self.run_program(
            """
            import msmemscope
            msmemscope.config(device="cpu", output=output)
            before = [bytearray(size) for size in range(2000)]
            msmemscope.start()
            del before
            import decimal, sqlite3
            after = [bytearray(size) for size in range(2000)]
            msmemscope.stop()
            print("whole")
            """,
            command=[program, LIBPYTHON],
            PYTHONHOME=sys.base_prefix,
            PYTHONPATH=os.path.dirname(os.path.dirname(msmemscope.__file__)),
        )
        self.assertEqual(ended.out.strip(), "whole")
        self.assertIn("the program has an allocator of its own", ended.errors)

    @unittest.skipUnless(os.path.exists(JEMALLOC), "jemalloc is not there")
    def test_a_preloaded_allocator_stays_the_allocator(self) -> None:
        ended = self.run_program(
            """
            import ctypes, msmemscope
            msmemscope.config(device="cpu", output=output)
            blocks = [bytearray(100_000) for _ in range(100)]
            msmemscope.start()
            del blocks
            import sqlite3
            kept = [bytearray(77_777) for _ in range(50)]
            used = ctypes.c_size_t()
            size = ctypes.c_size_t(8)
            epoch = ctypes.c_uint64(1)
            allocator = ctypes.CDLL(None)
            allocator.mallctl(b"epoch", None, None, ctypes.byref(epoch), ctypes.c_size_t(8))
            allocator.mallctl(b"stats.allocated", ctypes.byref(used), ctypes.byref(size), None, ctypes.c_size_t(0))
            print(used.value)
            msmemscope.stop()
            """,
            LD_PRELOAD=JEMALLOC,
        )
        self.assertGreater(int(ended.out), 50 * 77_777)
        blocks = [row for row in self.rows() if row["Event"] == "MALLOC" and "size:7777" in row["Attr"]]
        self.assertEqual(len(blocks), 50)

    def test_threads_that_load_and_allocate_meanwhile_are_not_disturbed(self) -> None:
        source = "#include <stdlib.h>\nint take(void) { for (int i = 0; i < 50; i++) free(malloc(i)); return 7; }"
        libraries = [self.compile(source, f"loaded{number}.so", "-Wl,-z,lazy") for number in range(4)]
        ended = self.run_program(
            f"""
            import _ctypes, ctypes, os, threading, msmemscope
            libraries = {libraries!r}
            stopped = False
            rounds = [0] * 6
            def load(number):
                while not stopped:
                    for path in libraries:
                        handle = _ctypes.dlopen(path, os.RTLD_LAZY | (os.RTLD_GLOBAL if number else 0))
                        assert ctypes.CFUNCTYPE(ctypes.c_int)(_ctypes.dlsym(handle, "take"))() == 7
                        _ctypes.dlclose(handle)
                    rounds[number] += 1
            def allocate(number):
                while not stopped:
                    bytes(100_000); bytearray(10)
                    rounds[number] += 1
            threads = [threading.Thread(target=load, args=[number]) for number in (0, 1)]
            threads += [threading.Thread(target=allocate, args=[number]) for number in range(2, 6)]
            for thread in threads: thread.start()
            while not all(rounds): pass
            msmemscope.config(device="cpu", output=output)
            for _ in range(20):
                msmemscope.start()
                msmemscope.stop()
            seen = list(rounds)
            while not all(now > before for now, before in zip(rounds, seen)): pass
            stopped = True
            for thread in threads: thread.join()
            print("whole")
            """
        )
        self.assertEqual(ended.out.strip(), "whole")

    def test_forked_children_are_recorded_in_directories_of_their_own(self) -> None:
        self.run_program(
            """
            import os, msmemscope
            msmemscope.config(device="cpu", output=output)
            msmemscope.start()
            children = []
            for number in range(3):
                child = os.fork()
                if child == 0:
                    kept = bytearray(1_000_000 + number)
                    os._exit(0)
                children.append(child)
            for child in children: os.waitpid(child, 0)
            kept = bytearray(2_000_000)
            msmemscope.stop()
            """
        )
        made = [row for row in self.rows() if row["Event"] == "MALLOC"]
        for size in (1_000_001, 1_000_002, 1_000_003, 2_000_001):
            self.assertEqual(sum(f"size:{size}," in row["Attr"] for row in made), 1, size)
        self.assertEqual(len({row["Process Id"] for row in made}), 4)


if __name__ == "__main__":
    unittest.main()
