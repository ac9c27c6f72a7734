"""Keeps the memory of the C library level: one heap for all threads, and large blocks apart.

glibc gives threads heaps of their own, up to eight for each core.  What is freed in one heap is
used again only in that heap, so every heap keeps the room of its busiest moment, and the service
grows for hours as these moments come.  One heap uses the room of any thread again.  Its lock
costs little: small objects of Python are not in it, and threads that run Python take turns anyway.

glibc maps a large block apart and gives it back as a whole.  But when it has freed one, it takes
all later blocks of that size from the heap.  Blocks of the database's memory, which stay for
minutes, then lie between small ones, and leave room that the next large block does not fit into.
So the bound of large blocks is fixed: above the pieces of bodies, which come and go all the time,
and below the blocks of the database (kv/database.py).

Nothing trims the heap while the service runs: that would stop all threads that allocate, for about
a millisecond for each MiB.  For host.py.
"""

from contextlib import suppress
from typing import Final

from graveler.variables import environment

_APART_BYTES: Final = 512 * 1024
_KEPT_BYTES: Final = 4 * _APART_BYTES  # free at the end of the heap: pieces of bodies come again
_TUNABLES: Final = "GLIBC_TUNABLES"
# The numbers of <malloc.h>, the variables and tunables that say the same, and the values.
_OPTIONS: Final = (
    (-8, "MALLOC_ARENA_MAX", "glibc.malloc.arena_max=", 1),
    (-3, "MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold=", _APART_BYTES),
    (-1, "MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold=", _KEPT_BYTES),
)


def share() -> None:
    """Let threads that start from now on use one heap, and map large blocks apart, each unless the
    environment says otherwise.  Does nothing without glibc.  Never fails."""
    variables = environment()
    tunables = variables.get(_TUNABLES, "")
    with suppress(ImportError, OSError, AttributeError):  # a Python without libffi, or static
        import ctypes

        library = ctypes.CDLL(None)
        for number, variable, tunable, value in _OPTIONS:
            if variable not in variables and tunable not in tunables:
                library.mallopt(number, value)
