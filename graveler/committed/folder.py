"""A folder of copies of files, of at most so many bytes, that any process may share.

A copy enters by rename, with the hash of its bytes behind them, and is checked when it is opened.
Who has opened it can read it to the end, whoever evicts it meanwhile.  Whatever fails the check is
removed.  The folder may lie on a file system of the network, and may vanish at any time: then there
are no copies.

    <sha256 of the address>.sst     a copy: bytes ‖ SHA-256 of the bytes
    <anything>.part                 being written
    <nn>.lock                       held by whoever downloads one of the files that it stands for

The folder is not looked through for every copy that enters: room for a share of the budget is made
at a time, and what has entered since is counted.  So it costs nothing to keep thousands of copies.

Locks are those of the system: they end with the process that holds them.  For `tiers.py`.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from graveler import limits
from graveler.clock import Clock
from graveler.committed.cache import Allowance
from graveler.committed.remote import exactly
from graveler.errors import Corrupt
from graveler.records import ABSENT, Absent

_CHECK_LENGTH = 32
_ROOM_SHARE = 64  # of the budget is made room for at a time
_ABANDONED_SECONDS = 3_600
_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.005
_PAUSE_SECONDS_MAX = 0.1


class LocalFile:
    """A file of the folder, open: it stays readable when it is evicted.  See `table.Source`."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self.name = name
        self._size = os.fstat(descriptor).st_size - _CHECK_LENGTH

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def held(self) -> int:
        return 0

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self._size:
            raise Corrupt(f"table is shorter than its index says: table={self.name}")
        return exactly(os.pread(self._descriptor, length, offset), length, self.name)

    def chunks(self) -> Iterator[bytes]:
        """All bytes."""
        for offset in range(0, self._size, limits.chunk_length_bytes):
            yield self.read(offset, min(limits.chunk_length_bytes, self._size - offset))

    def is_gone(self) -> bool:
        """Whether the folder has it no more: its bytes are on the disk only while it is open."""
        try:
            return os.fstat(self._descriptor).st_nlink == 0
        except OSError:
            return True

    def is_whole(self) -> bool:
        """Whether the bytes still are what was stored."""
        if self._size < 0:
            return False
        digest = sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.digest() == os.pread(self._descriptor, _CHECK_LENGTH, self._size)


class CacheFolder:
    """Copies by address.  What fails in the file system is as if there were no copy.

    Who is alone with the folder keeps to the budget.  Of several threads or processes, each may
    exceed it by what it enters while another makes room: a 64th of it, or one file."""

    def __init__(self, folder: Path, budget: int, clock: Clock) -> None:
        self.folder = folder
        self._budget = budget
        self._clock = clock
        self._room = Allowance()  # for what enters before the folder is looked through again

    def opened(self, address: str) -> LocalFile | Absent:
        """The copy, checked."""
        path = self._path(address)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return ABSENT
        file = LocalFile(descriptor, address)
        with suppress(OSError):
            if not file.is_whole():
                path.unlink(missing_ok=True)
                return ABSENT
            os.utime(path)  # recency for eviction
            return file
        return ABSENT

    def enter(self, address: str, chunks: Iterable[bytes]) -> bool:
        """Take a copy of a file's bytes, unless it is too large or the file system refuses; whether
        others may have gone for it.  An error of `chunks` passes on, and nothing is kept."""
        path: Path | Absent = ABSENT
        made_room = False
        try:
            path = scratch_path(self.folder)
            size = self._written(path, chunks)
            if size > self._budget:
                return False
            made_room = self._make_room(size)
            path.replace(self._path(address))
        except OSError:  # full, or gone: a copy is a matter of speed
            return made_room
        finally:
            if path is not ABSENT:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        return made_room

    def _written(self, path: Path, chunks: Iterable[bytes]) -> int:
        """The length of the copy; writing ends when it is too long."""
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
        """Be the only one, of all threads and processes that share the folder, who is in here for
        `address`.  Tells False if another did not come out in time."""
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
            except OSError:  # a file system without locks: each for himself
                return True
            else:
                return True

    def _path(self, address: str) -> Path:
        return self.folder / f"{sha256(address.encode()).hexdigest()}.sst"

    def _lock_path(self, address: str) -> Path:
        return self.folder / f"{sha256(address.encode()).hexdigest()[:2]}.lock"

    def _make_room(self, coming: int) -> bool:
        """Whether the folder had to be looked through, because what entered since has used up the
        room that was made then."""
        if self._room.spend(coming):
            return False
        room = max(coming, self._budget // _ROOM_SHARE)
        self._evict(room)
        self._room.renew(room - coming)
        return True

    def _evict(self, coming: int) -> None:
        """Let the longest unused go.  Half-written files are left alone unless their writer must be
        dead."""
        found: list[tuple[float, int, str]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    found.append((stat.st_mtime, stat.st_size, entry.path))
        newest = max((mtime for mtime, _, _ in found), default=0.0)
        spent = coming
        for mtime, size, path in sorted(found, reverse=True):
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
