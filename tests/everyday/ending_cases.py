"""Ways to start and to end."""

import signal
import subprocess

from shell_cases import shell
from trial import Case


def crash(site, work):
    (work / "crash.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n"
                                  "int main(void) { for (int i = 0; i < 1000; i++) if (!malloc(100)) return 1;\n"
                                  "puts(\"soon\"); fflush(stdout); *(volatile int *)8 = 1; }\n")
    subprocess.run(["cc", "-g", "-o", work / "crash", work / "crash.c"], check=True)
    return [work / "crash"]


def limited(site, work):
    return shell("ulimit -v 3000000; exec python3 -c '"
                 "blocks = [bytes(1 << 20) for _ in range(50)]\n"
                 "try:\n    bytes(4 << 30)\nexcept MemoryError:\n    print(len(blocks), \"MemoryError\")'")


CASES = [
    Case("exit status 42", shell("echo out; echo err >&2; exit 42"), mode="c", status=42),
    Case("death by SIGSEGV", crash, mode="c", status=-signal.SIGSEGV),
    Case("death by SIGTERM", shell("kill -TERM $$"), mode="c", status=-signal.SIGTERM),
    Case("death by SIGKILL", shell("kill -KILL $$"), mode="c", status=-signal.SIGKILL),
    Case("timeout", ["timeout", "-s", "TERM", "1", "sleep", "30"], mode="c", status=124),
    Case("nohup", ["nohup", "sh", "-c", "ls / | md5sum"], mode="c"),
    Case("env -i", ["env", "-i", "/bin/ls", "/"], mode="c", counted=False),
    Case("command not found", shell("exec no-such-program-here"), mode="c", status=127),
    Case("not executable", shell("exec /etc/passwd"), mode="c", status=126),
    Case("ulimit -v", limited, mode="c", counted=False),
    Case("standard streams closed", shell("exec ls / <&- 2>&-"), mode="c"),
]
