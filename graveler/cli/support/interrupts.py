"""Delays or ignores Ctrl-C while something must not be left half done.  For this folder."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, TypeAlias

from graveler.core.errors import GravelerError, OutcomeUnknown

_Handler: TypeAlias = Callable[[int, FrameType | None], None] | signal.Handlers
_STDERR: Final = 2
_PRESSED: Final = b"graveler: interrupting; press again to end at once\n"


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end of the block if Ctrl-C was pressed in it.  The first
    press prints a line on stderr; a second one raises the interrupt at once.

    If the block raises a `GravelerError` after a press, the interrupt has its text.
    `OutcomeUnknown` goes before the interrupt: something may have been done, and the exit code says
    so.  Other errors stay as they are.  In threads but the main one, and where SIGINT is handled
    elsewhere, nothing changes."""
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        with suppress(OSError):  # nobody reads it
            os.write(_STDERR, b"\n" * os.isatty(_STDERR) + _PRESSED)

    try:
        with _handled(press):
            yield
    except OutcomeUnknown:
        raise
    except GravelerError as error:
        if pressed:
            raise KeyboardInterrupt(str(error)) from error
        raise
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def interrupt_ignored() -> Iterator[None]:
    """Ctrl-C does nothing during the block, where `interrupt_later` would delay it."""
    with _handled(signal.SIG_IGN):
        yield


@contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
