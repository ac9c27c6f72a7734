"""Files of the local store that stay open between reads.

`OpenFiles` keeps objects: if a name was removed or replaced (`st_nlink` is 0), the next read opens
it again.  `OpenTables` keeps ranges and metaranges, whose names stand for their content.  A file
that leaves the cache stays open for its present readers.
"""

import os
import resource
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from graveler.block.drivers import clip_read
from graveler.core.clock import Clock
from graveler.core.errors import Corrupt

OBJECTS_KEPT_MAX: Final = 128
TABLES_KEPT_MAX: Final = 2_048  # 10 million records are in about 1,000 tables
_IDLE_SECONDS: Final = 60.0
_LOOKS: Final = 4  # tables that are checked for idleness when another one is opened
_SHARE: Final = 8  # with a low limit of open files, at most 1/8 of it


class OpenFile:
    """An open descriptor, which is closed with this object."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class OpenFiles:
    """The files that were read last, by address in its canonical spelling.  Thread-safe."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._kept: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, address: str) -> tuple[OpenFile, os.stat_result] | None:
        """The file that now has this name, and its attributes; None if it is not open."""
        with self._lock:
            file = self._kept.get(address)
            if file is None:
                return None
            self._kept.move_to_end(address)
        status = os.fstat(file.descriptor)
        return (file, status) if status.st_nlink else None

    def read(self, address: str, start: int, length: int) -> bytes | None:
        """These bytes of the file that now has this name, fewer only at its end; None if it is not
        open, has none of them, or does not give them in one call of the system."""
        known = self.get(address)
        if known is None or not stat.S_ISREG(known[1].st_mode):
            return None
        file, status = known
        length = min(length, status.st_size - start)
        if start < 0 or length <= 0:
            return None
        raw = os.pread(file.descriptor, length, start)
        return raw if len(raw) == length else None

    def open(self, address: str, opened: Callable[[], int]) -> tuple[OpenFile, os.stat_result]:
        """As `get`.  If the file is not open yet, `opened` opens it.  Raises what `opened`
        raises."""
        known = self.get(address)
        if known is not None:
            return known
        file = OpenFile(opened())
        with self._lock:
            self._kept[address] = file
            self._kept.move_to_end(address)
            doomed = self._kept.popitem(last=False) if len(self._kept) > self._count_max else None
        del doomed  # closed without the lock
        status = os.fstat(file.descriptor)
        if not status.st_nlink:  # removed meanwhile, perhaps before `forget` could find it here
            self.forget(address)
        return file, status

    def forget(self, address: str) -> None:
        """Close the file, so that it takes no room once its name is removed or replaced.  Called
        after that."""
        with self._lock:
            doomed = self._kept.pop(address, None)
        del doomed


class OpenTable(OpenFile):
    """An open range or metarange.  Its name stands for its content, so it is never replaced by
    another one, and its size never changes."""

    __slots__ = ("_size", "address", "used_at")

    def __init__(self, descriptor: int, address: str) -> None:
        super().__init__(descriptor)
        self._size = os.fstat(descriptor).st_size
        self.address = address
        self.used_at = 0.0

    def read(self, start: int, length: int) -> bytes:
        """See `BlockStore.read`.  One call of the system."""
        at, end = start, start + length
        if at < 0 or end > self._size:
            at, end = clip_read(self._size, start, length)
        raw = os.pread(self.descriptor, end - at, at)
        while len(raw) < end - at:  # the system may give less, and the file may have been cut off
            rest = os.pread(self.descriptor, end - at - len(raw), at + len(raw))
            if not rest:
                raise Corrupt(f"object ended early while being read: address={self.address}")
            raw += rest
        return raw

    def is_all(self, raw: bytes) -> bool:
        """Whether `raw`, a part of the table, is all of it."""
        return len(raw) == self._size


class OpenTables:
    """Tables that stay open, by address.  Thread-safe; a read takes no lock.

    There are at most `count_max`.  When a table is opened, tables that were not read for a minute
    are closed, a few at a time.  A table that this process removes is closed at once (`forget`).  A
    table that another process removes takes room on the disk until this process closes it."""

    def __init__(self, count_max: int, clock: Clock) -> None:
        self._count_max = count_max
        self._clock = clock
        self._now = 0.0  # when the last table was opened: exact enough, and costs a read nothing
        self._kept: OrderedDict[str, OpenTable] = OrderedDict()  # looked at longest ago first
        self._lock = threading.Lock()

    def get(self, address: str) -> OpenTable | None:
        """The table, if it is open."""
        table = self._kept.get(address)
        if table is not None:
            table.used_at = self._now
        return table

    def keep(self, table: OpenTable) -> None:
        """Keep a table open, and close others that are not needed, or too many."""
        doomed = [table]
        with self._lock:
            self._now = table.used_at = self._clock.steady_seconds()
            doomed.append(self._kept.pop(table.address, table))
            self._kept[table.address] = table
            for _ in range(min(_LOOKS, len(self._kept))):
                address, oldest = next(iter(self._kept.items()))
                is_idle = self._now - oldest.used_at > _IDLE_SECONDS
                if is_idle or len(self._kept) > self._count_max:
                    doomed.append(self._kept.pop(address))
                else:
                    self._kept.move_to_end(address)
        if not os.fstat(table.descriptor).st_nlink:  # removed before `forget` could find it here
            self.forget(table.address)
        del doomed  # closed without the lock

    def forget(self, address: str) -> None:
        """Close the table, so that it takes no room once its name is removed.  Called after
        that."""
        with self._lock:
            doomed = self._kept.pop(address, None)
        del doomed


def kept_max(most: int) -> int:
    """How many files may stay open in this process: `most`, or fewer if its limit is low."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, soft // _SHARE)
