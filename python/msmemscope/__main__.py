"""`python -m msmemscope`: the command."""

from ._command import main

main()
