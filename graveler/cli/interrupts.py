"""Delays or ignores Ctrl-C while something must not be left half done.  For this folder."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], None] | signal.Handlers


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end of the block if Ctrl-C was pressed in it; a second press
    raises it at once.  The error of the block goes before.  In threads but the main one, and where
    SIGINT is handled elsewhere, nothing changes."""
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    with _handled(press):
        yield
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
