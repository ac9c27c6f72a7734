"""The free room in the heap of the C library, as a process says it of itself, for who watches it.

What is freed often stays in the heap, between blocks that are in use, and the next blocks fill it.
So resident memory rises until the free room has its usual size, and that is no leak.  A part of the
room may not be resident: pages that were never touched.  It is small beside its bound.

Python does the same: it keeps freed tuples, up to 2,000 of each length, until its collector looks
at all objects, which is rare in a service.  That is 5 MB which fill within half an hour.  So the
watched process lets the collector look now and then.  It finds no garbage that would hide a leak:
requests leave no cycles (tests/api/test_garbage.py).

The watched process calls `tell`, and its watcher calls `told` with the same file.  For tests only.
"""

import ctypes
import gc
import struct
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Final

_EVERY_SECONDS: Final = 2.0
_FIGURES_FOR_A_LOOK: Final = 10  # a look takes a few milliseconds
_STALE_SECONDS: Final = 120.0  # a busy machine takes its time
_FIGURE: Final = struct.Struct("<Q")


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of <malloc.h>, of all arenas of the process."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def free_bytes() -> int:
    """The free room in the heap of this process; 0 without glibc 2.33."""
    ask = _mallinfo2()
    return 0 if ask is None else int(ask().fordblks)


@lru_cache(maxsize=1)  # each new library leaves 5 KiB until Python's collector comes
def _mallinfo2() -> Callable[[], _Mallinfo2] | None:
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is not None:
        ask.restype = _Mallinfo2
    return ask


def prelude(file: Path) -> str:
    """The statements with which another process calls `tell`."""
    return f"from simulator.soak import heap_room; heap_room.tell({str(file)!r}); "


def tell(file: str) -> None:
    """Write the free room of this process to a file, from now on, every two seconds."""
    threading.Thread(target=_tell, args=(Path(file),), name="heap-room", daemon=True).start()


def _tell(file: Path) -> None:
    with file.open("wb", buffering=0) as written:
        for number in count():
            if number % _FIGURES_FOR_A_LOOK == 0:
                gc.collect()
            written.seek(0)
            written.write(_FIGURE.pack(free_bytes()))
            time.sleep(_EVERY_SECONDS)


def told(file: Path) -> int:
    """What a process wrote last, in bytes; 0 if it has not written yet.  Raises `RuntimeError` if
    it writes no more."""
    if not file.exists():
        return 0
    age = time.time() - file.stat().st_mtime
    if age > _STALE_SECONDS:
        raise RuntimeError(f"the process no longer tells the free room in its heap: {age=:.0f}")
    figure = file.read_bytes()
    return _FIGURE.unpack(figure)[0] if len(figure) == _FIGURE.size else 0
