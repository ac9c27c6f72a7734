"""Makes written files durable, many at once, or begins while they are written.

Linux can sync a whole file system in one call, which also reports what failed since the given
descriptor was opened.  Elsewhere each file and each folder is synced.  For the local driver, and
for the folder of an embedded store.
"""

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from graveler.block.layout import Place

_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE of <fcntl.h>


def sync_files(root: str, descriptor: int, places: Iterable[Place]) -> None:
    """Make files below the folder `root` durable, with their names.  Those that are gone stay gone.

    `descriptor`: of `root`, open since before the first of them was written.  Raises `OSError`.
    """
    sync = _sync_of_file_systems()
    if sync is not None:
        if sync(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return
    folders = set()
    for place in places:
        folder = Path(root, *place.folders)
        folders.add(folder)
        with suppress(FileNotFoundError):
            sync_path(folder / place.name)
    for folder in folders:
        sync_path(folder)


@lru_cache(maxsize=1)
def _sync_of_file_systems() -> Callable[[int], int] | None:
    """`syncfs` of the system, which returns 0 or sets `errno`; None if it has none."""
    system = ctypes.CDLL(None, use_errno=True)
    sync: Callable[[int], int] | None = getattr(system, "syncfs", None)
    return sync


def begin_flush(descriptor: int, start: int, end: int) -> None:
    """Make the system write these bytes of a file to the disk while more arrive, so that the sync
    at the end waits only for the last ones.  They stay in memory, for who reads the file next.

    Does nothing where the system cannot; the sync at the end reports what fails."""
    begin = _beginning_of_flushes()
    if begin is not None:
        begin(descriptor, ctypes.c_int64(start), ctypes.c_int64(end - start), _WRITE)


@lru_cache(maxsize=1)
def _beginning_of_flushes() -> Callable[..., int] | None:
    """`sync_file_range` of Linux; None if there is none."""
    begin: Callable[..., int] | None = getattr(ctypes.CDLL(None), "sync_file_range", None)
    return begin


def sync_path(path: Path) -> None:
    """Make one file durable, or the names in one folder.  Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
