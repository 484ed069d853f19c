"""Memory of devices, seen whenever `start()` comes: before the driver is loaded, after it, and after it was used."""

import unittest

from recorded import RecordedCase

DRIVER = """
#include <stdlib.h>
int halMemAlloc(void **block, unsigned long size, unsigned long flag) { (void)flag; *block = malloc(size); return !*block; }
int halMemFree(void *block) { free(block); return 0; }
"""
FRAMEWORK = """
int halMemAlloc(void **, unsigned long, unsigned long);
int halMemFree(void *);
int take(int times, unsigned long size) {
    int failed = 0;
    while (times--) {
        void *block = 0;
        failed |= halMemAlloc(&block, size, 3) | halMemFree(block);
    }
    return failed;
}
"""


class Devices(RecordedCase):
    def test_no_call_of_the_driver_is_missed_after_start(self) -> None:
        self.compile(DRIVER, "libascend_hal.so", "-Wl,-soname,libascend_hal.so")
        frameworks = [
            self.compile(
                FRAMEWORK, f"{binding}.so", f"-Wl,-z,{binding}", f"-L{self.directory}", "-lascend_hal", f"-Wl,-rpath,{self.directory}"
            )
            for binding in ("now", "lazy")
        ]
        for moment in ("before", "loaded", "used"):
            with self.subTest(moment):
                self.output = f"{self.directory}/output_{moment}"
                ended = self.run_program(
                    f"""
                    import ctypes, msmemscope
                    msmemscope.config(device="npu", output=output)
                    def load():
                        return [ctypes.CDLL(path) for path in {frameworks!r}]
                    if {moment!r} != "before":
                        frameworks = load()
                    if {moment!r} == "used":
                        for framework in frameworks: framework.take(1, ctypes.c_ulong(777))
                    msmemscope.start()
                    if {moment!r} == "before":
                        frameworks = load()
                    print([framework.take(5, ctypes.c_ulong(4096)) for framework in frameworks])
                    msmemscope.stop()
                    """
                )
                self.assertEqual(ended.out.strip(), "[0, 0]")
                rows = [row for row in self.rows(device="*") if row["Event Type"] == "HAL"]
                kinds = [row["Event"] for row in rows]
                self.assertEqual((kinds.count("MALLOC"), kinds.count("FREE")), (10, 10))


if __name__ == "__main__":
    unittest.main()
