"""Makes written files durable, many at once, or begins while they are written.

Linux can sync a whole file system in one call.  From version 5.8 on, the call also reports what
failed since the descriptor was opened.  Elsewhere each file and each folder is synced.
"""

import ctypes
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from graveler.block.layout import FilePath

_REPORTS_SINCE: Final = [5, 8]
# virtiofs is another kind; a file system in user space has a name behind the dot.
_PASSED_ON_TO_NOBODY: Final = ("fuse", "fuseblk", "9p")
_DEVICE: Final = 2  # the field of a device, major:minor, in a line of mountinfo
_WRITE: Final = 2  # SYNC_FILE_RANGE_WRITE of <fcntl.h>


def sync_files(root: str, descriptor: int, places: Iterable[FilePath]) -> None:
    """Make files below the folder `root` durable, with their names.  Those that are gone stay gone.

    `descriptor`: of `root`, open since before the first of them was written.  Raises `OSError`.
    """
    sync = sync_of_file_systems()
    if sync is not None and sync(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if sync is not None and is_trusted(root):
        return
    # After a sync of the whole file system these find little to write, but report what was lost.
    folders = set()
    for place in places:
        folder = Path(root, *place.folders)
        folders.add(folder)
        with suppress(FileNotFoundError):
            sync_path(folder / place.name)
    for folder in folders:
        sync_path(folder)


@lru_cache(maxsize=1)
def sync_of_file_systems() -> Callable[[int], int] | None:
    """`syncfs` of the system, which returns 0 or sets `errno`; None if it has none."""
    system = ctypes.CDLL(None, use_errno=True)
    sync: Callable[[int], int] | None = getattr(system, "syncfs", None)
    return sync


@lru_cache(maxsize=64)
def is_trusted(root: str) -> bool:
    """Whether `syncfs` makes the files below `root` durable, and says so if it does not."""
    mounts = Path("/proc/self/mountinfo")
    device = os.stat(root).st_dev
    kind = ""
    with suppress(OSError):
        kind = kind_of(mounts.read_text(errors="replace"), os.major(device), os.minor(device))
    return is_whole_sync(os.uname().release, kind)


def kind_of(mounts: str, major: int, minor: int) -> str:
    """The kind of the file system on a device, by the lines of `/proc/self/mountinfo`; empty if
    they do not have it."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > _DEVICE and fields[_DEVICE] == f"{major}:{minor}" and after:
            return after.split()[0]
    return ""


def is_whole_sync(release: str, kind: str) -> bool:
    """Whether `syncfs` of this release of Linux, on this kind of file system, reaches the disk and
    reports each failure.  `kind` may be empty."""
    numbers = [int(digits) for digits in re.findall(r"\d+", release)[:2]]
    return numbers >= _REPORTS_SINCE and kind.partition(".")[0] not in _PASSED_ON_TO_NOBODY


def begin_flush(descriptor: int, start: int, end: int) -> None:
    """Make the system write these bytes of a file to the disk while more arrive, so that the sync
    at the end waits only for the last ones.  They stay in memory, for who reads the file next.

    Does nothing where the system cannot; the sync at the end reports what fails."""
    begin = beginning_of_flushes()
    if begin is not None:
        begin(descriptor, ctypes.c_int64(start), ctypes.c_int64(end - start), _WRITE)


@lru_cache(maxsize=1)
def beginning_of_flushes() -> Callable[..., int] | None:
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
