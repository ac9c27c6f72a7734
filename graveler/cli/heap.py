"""Keeps the memory of the C library level: one heap, large blocks apart, free room given back.

glibc gives threads heaps of their own, up to eight for each core.  What is freed in one heap is
used again only in that heap, so every heap keeps the room of its busiest moment, and the service
grows for hours as these moments come.  One heap uses the room of any thread again.  Its lock
costs little: small objects of Python are not in it, and threads that run Python take turns anyway.

glibc maps a large block apart and gives it back as a whole.  But when it has freed one, it takes
all later blocks of that size from the heap.  Blocks of the database's memory, which stay for
minutes, then lie between small ones, and leave room that the next large block does not fit into.
So the bound of large blocks is fixed: above the pieces of bodies, which come and go all the time,
and below the blocks of the database (kv/database.py).

glibc gives back only what is free at the end of a heap.  A cached block that lives long keeps all
the free room below it.  So the service gives all of it back once a minute, which takes some
milliseconds.  For host.py.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from graveler.variables import environment

_PERIOD_SECONDS: Final = 60.0
_APART_BYTES: Final = 512 * 1024
_KEPT_BYTES: Final = 4 * _APART_BYTES  # free at the end of the heap: pieces of bodies come again
# The numbers of <malloc.h>, the variables that say the same, and the values.
_OPTIONS: Final = (
    (-8, "MALLOC_ARENA_MAX", 1),
    (-3, "MALLOC_MMAP_THRESHOLD_", _APART_BYTES),
    (-1, "MALLOC_TRIM_THRESHOLD_", _KEPT_BYTES),
)


def share() -> None:
    """Let threads that start from now on use one heap, and map large blocks apart, each unless the
    environment says otherwise.  Does nothing without glibc.  Never fails."""
    variables = environment()
    with suppress(ImportError, OSError, AttributeError):
        library = _library()
        for number, variable, value in _OPTIONS:
            if variable not in variables:
                library.mallopt(number, value)


@contextmanager
def trimmed(period_seconds: float = _PERIOD_SECONDS) -> Iterator[None]:
    """Give free memory back to the system every `period_seconds`, by a thread that ends with the
    block.  Does nothing without glibc.  Never fails."""
    trim = _trim()
    if trim is None:
        yield
        return
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(period_seconds):
            trim()

    thread = threading.Thread(target=run, name="heap", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _trim() -> Callable[[], object] | None:
    """What gives all free pages of all heaps back; None if the C library has no such call."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        call = _library().malloc_trim
        return lambda: call(ctypes.c_size_t(0))
    return None


def _library() -> Any:
    """The C library.  Raises `ImportError` if Python has no libffi, `OSError` if it is static."""
    import ctypes

    return ctypes.CDLL(None)
