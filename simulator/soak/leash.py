"""A leash: a process on it watches a pipe, and ends with the process that started it.

    python -m simulator.soak.leash COMMAND...    runs it; kills it when stdin is closed

The operating system closes a pipe when the last process that could write to it has ended, in any
way.  This works on any system.  The interpreters of `multiprocessing` hold such a pipe already.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import parent_process

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with_stdin() -> None:
    """From now on this process is killed when its stdin is closed."""
    _when(_stdin_is_closed, _die)


def end_with_parent() -> None:
    """From now on this worker is killed when its parent has ended, and ignores the signals of a
    terminal: the parent gets them too, and ends its workers in order."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        _when(parent.join, _die)


def _stdin_is_closed() -> None:
    while os.read(0, 1):
        pass


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _when(waits: Callable[[], None], then: Callable[[], None]) -> None:
    def watch() -> None:
        waits()
        then()

    threading.Thread(target=watch, name="leash", daemon=True).start()


def main(command: list[str]) -> int:
    """Run `command`; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.soak.leash",
        description="Runs a command, and kills it when stdin is closed.",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    command = parser.parse_args(command).command
    if not command:
        parser.error("a command expected")
    for number in SIGNALS:  # of a whole group: who has the other end of stdin gets them, too
        signal.signal(number, lambda *_: None)  # unlike SIG_IGN, not inherited by the command
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        _when(_stdin_is_closed, lambda: os.killpg(process.pid, signal.SIGKILL))
        return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
