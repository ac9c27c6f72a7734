"""Runs a program that ends with the process that started it, however that one ends.

    python tied.py PARENT PROGRAM ARGUMENT …

`PARENT` is the process id of the caller.  The program replaces this process, so it has the id that
the caller knows.  Only Linux can do it; elsewhere the program runs without the tie.  Linux ends the
program with the *thread* that started it, so that must be one that lives as long as the program.
"""

import ctypes
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main() -> None:
    """Tie this process to its parent, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        if ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0):
            sys.exit("tied.py: the system refused")
        if os.getppid() != parent:  # it died before this process was tied to it
            sys.exit("tied.py: the parent is gone")
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
