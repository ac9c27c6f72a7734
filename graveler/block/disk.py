"""Makes written files durable, many at once.

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

from graveler.block.layout import Place


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


def sync_path(path: Path) -> None:
    """Make one file durable, or the names in one folder.  Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
