"""Keeps the memory of the C library in one heap that all threads share.

glibc gives threads heaps of their own, up to eight for each core.  What is freed in one heap is
used again only in that heap, so every heap keeps the room of its busiest moment, and the service
grows for hours as these moments come.  One heap uses the room of any thread again.  Its lock
costs little: small objects of Python are not in it, and threads that run Python take turns anyway.
For host.py.
"""

from contextlib import suppress
from typing import Final

from graveler.variables import environment

_HEAPS_MAX: Final = -8  # M_ARENA_MAX of <malloc.h>
_VARIABLE: Final = "MALLOC_ARENA_MAX"


def share() -> None:
    """Let threads that start from now on use one heap, unless the environment sets their number.
    Does nothing without glibc.  Never fails."""
    if _VARIABLE in environment():
        return
    with suppress(ImportError, OSError, AttributeError):  # a Python without libffi, or static
        import ctypes

        ctypes.CDLL(None).mallopt(_HEAPS_MAX, 1)
