"""A folder that caches copies of files within a budget of bytes; several processes may share it.

    <sha256 of the address>.sst     a copy: bytes ‖ SHA-256 of the bytes
    <anything>.part                 a copy that is being written; it enters by rename
    <nn>.lock                       a file lock of the process that downloads one of its files:
                                    those whose hash begins with nn

A copy that fails its check is removed.  An open copy can be read to its end, even if it is evicted.
The folder may vanish at any time.  Eviction makes room for 1/64 of the budget at a time, so the
folder is not listed for every copy.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from graveler.committed.cache import Allowance
from graveler.committed.remote import exactly
from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, Absent

_CHECK_LENGTH = 32
_ROOM_SHARE = 64  # eviction makes room for 1/64 of the budget at a time
_ABANDONED_SECONDS = 3_600
_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.005
_PAUSE_SECONDS_MAX = 0.1


class Copy(NamedTuple):
    """A copy that was checked.  `size`: of the file, in bytes."""

    path: str
    name: str
    device: int
    inode: int
    size: int

    def opened(self) -> "LocalFile | Absent":
        """The same copy, open; ABSENT if it was evicted or replaced.  Its bytes never change, so
        they are not checked again.  Cost: three calls of the system."""
        file = _opened(self.path, self.name)
        if file is ABSENT or file.copy != self:
            return ABSENT
        with suppress(OSError):
            os.utime(self.path)  # eviction removes the copies with the oldest times
        return file


class LocalFile:
    """An open copy.  It stays readable after it was evicted.  It is closed when nothing refers to
    this object any more, so a read that is running ends first.

    `copy`: what this is, to open it again after it was closed."""

    def __init__(self, descriptor: int, path: str, name: str) -> None:
        self._descriptor = descriptor
        self.name = name
        status = os.fstat(descriptor)
        self._size = status.st_size - _CHECK_LENGTH
        self.copy = Copy(path, name, status.st_dev, status.st_ino, self._size)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self._size:
            raise Corrupt(f"table is shorter than its index states: table={self.name}")
        return exactly(os.pread(self._descriptor, length, offset), length, self.name)

    def chunks(self) -> Iterator[bytes]:
        """All bytes."""
        for offset in range(0, self._size, limits.chunk_length_bytes):
            yield self.read(offset, min(limits.chunk_length_bytes, self._size - offset))

    def is_gone(self) -> bool:
        """Whether the copy was evicted.  Then its bytes stay on the disk only while it is open."""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:
            return True

    def is_whole(self) -> bool:
        """Whether the bytes match the stored hash."""
        if self._size < 0:
            return False
        digest = sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.digest() == os.pread(self._descriptor, _CHECK_LENGTH, self._size)


def _opened(path: str, name: str) -> LocalFile | Absent:
    """The copy, open and not checked; ABSENT if it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ABSENT
    return LocalFile(descriptor, path, name)


class CacheFolder:
    """Copies by address.  An error of the file system is treated as if there were no copy.

    A single user of the folder stays within the budget.  Of several threads or processes, each may
    exceed it by the bytes that it enters while another makes room: 1/64 of the budget, or one
    file."""

    def __init__(self, folder: Path, budget: int, clock: Clock) -> None:
        self.folder = folder
        self._budget = budget
        self._clock = clock
        self._room = Allowance()  # bytes that may enter before the folder is listed again

    def opened(self, address: str) -> LocalFile | Absent:
        """The copy, checked against its hash; ABSENT if there is none."""
        path = self._path(address)
        file = _opened(str(path), address)
        if file is ABSENT:
            return ABSENT
        with suppress(OSError):
            if not file.is_whole():
                path.unlink(missing_ok=True)
                return ABSENT
            os.utime(path)  # eviction removes the copies with the oldest times
            return file
        return ABSENT

    def has(self, address: str) -> bool:
        """Whether there is a copy, checked or not."""
        return os.path.exists(self._path(address))  # which raises nothing

    def enter(self, address: str, chunks: Iterable[bytes]) -> bool:
        """Store a copy of a file's bytes, unless it is larger than the budget or the file system
        refuses.  Returns whether other copies may have been evicted for it.  An error of `chunks`
        is raised, and nothing is kept."""
        path: Path | Absent = ABSENT
        made_room = False
        try:
            path = scratch_path(self.folder)
            size = self._written(path, chunks)
            if size > self._budget:
                return False
            made_room = self._make_room(size)
            path.replace(self._path(address))
        except OSError:  # the folder is full or gone: copies only make reads faster
            return made_room
        finally:
            if path is not ABSENT:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        return made_room

    def _written(self, path: Path, chunks: Iterable[bytes]) -> int:
        """Write the copy and return its length.  Writing stops when it exceeds the budget."""
        digest, size = sha256(), _CHECK_LENGTH
        with path.open("wb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > self._budget:
                    return size
                digest.update(chunk)
                file.write(chunk)
            file.write(digest.digest())
        return size

    @contextmanager
    def alone(self, address: str) -> Iterator[bool]:
        """A lock for `address` among all threads and processes that share the folder.  Yields False
        if another holder did not release it within 10 seconds.  Yields True without a lock if the
        lock file cannot be opened."""
        descriptor = -1
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._lock_path(address), flags, 0o600)
        try:
            yield descriptor < 0 or self._locked(descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _locked(self, descriptor: int) -> bool:
        end = self._clock.steady_seconds() + _WAIT_SECONDS
        pause = _PAUSE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.steady_seconds() >= end:
                    return False
                self._clock.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            except OSError:  # a file system without locks: go on without one
                return True
            else:
                return True

    def _path(self, address: str) -> Path:
        return self.folder / f"{sha256(address.encode()).hexdigest()}.sst"

    def _lock_path(self, address: str) -> Path:
        return self.folder / f"{sha256(address.encode()).hexdigest()[:2]}.lock"

    def _make_room(self, coming: int) -> bool:
        """Reserve room for `coming` bytes.  If the room of the last eviction is used up, evict
        again.  Returns whether it evicted."""
        if self._room.spend(coming):
            return False
        room = max(coming, self._budget // _ROOM_SHARE)
        self._evict(room)
        self._room.renew(room - coming)
        return True

    def _evict(self, coming: int) -> None:
        """Remove the copies that were not used for the longest time.  Files that are being written
        are removed only if they are so old that their writer must be dead."""
        files: list[tuple[float, int, str]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    files.append((stat.st_mtime, stat.st_size, entry.path))
        newest = max((mtime for mtime, _, _ in files), default=0.0)
        spent = coming
        for mtime, size, path in sorted(files, reverse=True):
            if path.endswith(".sst"):
                spent += size
                if spent > self._budget:
                    _remove(path)
            elif path.endswith(".part") and newest - mtime > _ABANDONED_SECONDS:
                _remove(path)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def scratch_path(folder: Path) -> Path:
    """A new, empty file in `folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(suffix=".part", dir=folder)
    os.close(descriptor)
    return Path(name)
