"""Delays Ctrl-C while a request is sent whose answer is needed to undo it.  For this folder."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end of the block if Ctrl-C was pressed in it; a second press
    raises it at once.  The error of the block goes before.  In threads but the main one, and where
    SIGINT is handled elsewhere, nothing changes."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or handler is not signal.default_int_handler:
        yield
        return
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        raise KeyboardInterrupt
