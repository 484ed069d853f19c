"""The commands `msmemscope` and `msleaks`: the program inside the package takes this process over."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the command, by the name it was called by."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "msmemscope")
    os.execv(command, [os.path.basename(sys.argv[0]), *sys.argv[1:]])
