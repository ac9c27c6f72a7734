"""Files of the local store that stay open between reads, so that a small read needs two calls of
the system instead of seven.

A file is closed when nobody refers to its `OpenFile` any more, so a file that leaves the cache
stays open for those who read it.  A name that was removed or replaced is never served: its file has
no name any more, and the system says so.  For the local driver only.
"""

import os
import resource
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from graveler.block.layout import Place

_KEPT_MAX: Final = 128
_SHARE: Final = 8  # with a low limit of open files, at most 1/8 of it


class OpenFile:
    """An open descriptor, which is closed with this object."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class OpenFiles:
    """The files that were read last.  Thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._kept: OrderedDict[Place, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, place: Place, opened: Callable[[Place], int]) -> tuple[OpenFile, os.stat_result]:
        """The file that now has this name, and its attributes.  `opened` opens it unless it is
        kept.  Raises what `opened` raises."""
        with self._lock:
            file = self._kept.get(place)
            if file is not None:
                self._kept.move_to_end(place)
        if file is not None:
            status = os.fstat(file.descriptor)
            if status.st_nlink:
                return file, status
        file = OpenFile(opened(place))
        with self._lock:
            self._kept[place] = file
            self._kept.move_to_end(place)
            doomed = self._kept.popitem(last=False) if len(self._kept) > self._count_max else None
        del doomed  # closed without the lock
        status = os.fstat(file.descriptor)
        if not status.st_nlink:  # removed meanwhile, perhaps before `forget` could find it here
            self.forget(place)
        return file, status

    def forget(self, place: Place) -> None:
        """Close the file, so that it takes no room once its name is removed or replaced.  Called
        after that."""
        with self._lock:
            doomed = self._kept.pop(place, None)
        del doomed


def kept_max() -> int:
    """How many files may stay open in this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _KEPT_MAX if soft == resource.RLIM_INFINITY else min(_KEPT_MAX, soft // _SHARE)
