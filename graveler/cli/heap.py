"""Keeps the memory of the C library in one heap that all threads share.

glibc gives threads heaps of their own, up to eight for each core.  What is freed in one heap is
used again only in that heap, so every heap keeps the room of its busiest moment, and the service
grows for hours as these moments come.  One heap uses the room of any thread again.  Its lock costs
little: small objects of Python are not in it, and threads that run Python take turns anyway.  For
host.py.
"""

import ctypes
from typing import Final

_HEAPS_MAX: Final = -8  # M_ARENA_MAX of <malloc.h>


def share() -> None:
    """Let threads that start from now on use one heap.  Does nothing without glibc.  Never
    fails."""
    system = ctypes.CDLL(None)
    if hasattr(system, "mallopt"):
        system.mallopt(_HEAPS_MAX, 1)
