"""Writes, reads, removes and lists whole files below the local store's root.

Files that were read stay open for later reads (open_files.py).  A journal may make small new files
durable (journal.py); then names change only once it has let their files go.
This module sets modification times, and each one is unique.  So size and time distinguish one
content of a name from the next; an inode number does not, because file systems reuse it
immediately.  A change that first checks the present file holds a lock of its name.  For the local
driver only.
"""

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.block import layout
from graveler.block.adapter import ANY_VERSION, CREATE, OVERWRITE, Mode, ObjectHead, Update
from graveler.block.address import Parts
from graveler.block.bounds import check_size, gathered, measured
from graveler.block.folders import (
    Folders,
    Temporary,
    closing,
    open_file,
    open_folder,
    translated,
)
from graveler.block.journal import Journal, SmallFile
from graveler.block.layout import Place
from graveler.block.open_files import (
    OBJECTS_KEPT_MAX,
    TABLES_KEPT_MAX,
    OpenFile,
    OpenFiles,
    OpenTable,
    OpenTables,
    kept_max,
)
from graveler.block.small_files import SMALL_BYTES, SmallFiles
from graveler.block.walk import Child, FileHead, FileKey, Start
from graveler.clock import Clock, Ids
from graveler.errors import Corrupt, GravelerError, NotFound, PreconditionFailed
from graveler.records import ABSENT, Absent

_LOCKS = 64
_COPIED_MAX: Final = 64 * 1024 * 1024  # in one call
_FLUSHED_BYTES: Final = 16 * 1024 * 1024
# A pair of file systems, or a kernel, that does not copy by itself, or was interrupted.
_REFUSALS: Final = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EINTR)
)


class DeletionTarget(NamedTuple):
    """A file to remove if it still has this version."""

    place: Place
    version: str
    address: str


class _FileTree:
    """The files below one root, as lists see them."""

    _folders: Folders

    def start(self, parts: Parts) -> Start:
        """The folder where a list of a bucket's keys begins."""
        return Start(parts.key[: parts.key.rfind("/") + 1], layout.folder(parts))

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        """The files and folders in a folder that belong to keys; none if it does not exist."""
        with (
            suppress(FileNotFoundError),
            closing(open_folder(self._folders.root, folders)) as at,
            os.scandir(at) as entries,
        ):
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                segment = layout.segment(above, entry.name, is_folder)
                if segment is not ABSENT:
                    yield Child(segment, entry.name, is_folder)

    def heads(self, files: Sequence[FileKey]) -> Iterator[FileHead]:
        """The heads of files, without links and without files that were deleted meanwhile."""
        for folders, group in groupby(files, key=lambda one: one.folders):
            with (
                suppress(FileNotFoundError),
                closing(open_folder(self._folders.root, folders)) as at,
            ):
                for one in group:
                    with suppress(FileNotFoundError):
                        status = os.stat(one.name, dir_fd=at, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield FileHead(one.key, head_of(status))


class Files(_FileTree):
    """The files below one root.  `address` is for messages only."""

    def __init__(self, root: Path, clock: Clock, ids: Ids, *, journaled: bool = False) -> None:
        self._clock = clock
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))
        with translated(str(root)):
            self._folders = Folders(root, ids)
        self._journal = Journal(self._folders)
        self._small = SmallFiles(self._folders, self._journal, self._lock)
        self._journaled = journaled
        if journaled:
            with translated(str(root)):
                self._journal.recover(self._small.write_again)
        self._time_lock = threading.Lock()
        self._newest_ns = 0
        self._open_files = OpenFiles(kept_max(OBJECTS_KEPT_MAX))
        self._open_tables = OpenTables(kept_max(TABLES_KEPT_MAX), clock)

    @property
    def root(self) -> str:
        """The path of the root, without links.  A link to it that changes later changes nothing."""
        return self._folders.root

    def open(self, place: Place, address: str) -> "Chunks":
        """Open a file for reading."""
        with translated(address):
            return Chunks(OpenFile(open_file(self._folders.root, place)), address)

    def kept_open(self, place: Place, address: str) -> "Chunks":
        """As `open`, with a file that stays open for later reads."""
        with translated(address):
            file, status = self._open_files.open(place, self._opened)
        return Chunks(file, address, status)

    def read_known(self, address: str, start: int, length: int) -> bytes | Literal[Absent.ABSENT]:
        """As `read_table`, if the table is open; otherwise ABSENT."""
        table = self._open_tables.get(address)
        if table is None:
            return ABSENT
        with translated(address):
            return table.read(start, length)

    def read_table(self, place: Place, address: str, start: int, length: int) -> bytes:
        """Some bytes of a table, which stays open for later reads unless they are all.  See
        `BlockStore.read`."""
        with translated(address):
            table = OpenTable(open_file(self._folders.root, place), address)
            if not stat.S_ISREG(os.fstat(table.descriptor).st_mode):
                raise NotFound(f"object not found: {address=}")
            raw = table.read(start, length)
            if not table.is_all(raw):
                self._open_tables.keep(table)
            return raw

    def write(self, place: Place, body: Iterable[bytes], mode: Mode, address: str) -> ObjectHead:
        """Store a body under a name, durably and atomically, under the condition of `mode`."""
        with self._folders.temporary.new(address) as temporary:
            flushed = size = 0
            for chunk in gathered(measured(body)):
                with translated(address):
                    temporary.write(chunk)
                    size += len(chunk)
                    if size - flushed >= _FLUSHED_BYTES:
                        _begin_flush(temporary, flushed, size)
                        flushed = size
            return self._stored(temporary, place, mode, address)

    def create(self, place: Place, body: Sequence[bytes], address: str) -> ObjectHead:
        """As `write`, for a file that must be new and whose body is in memory.  If the journal is
        kept, it makes a small file durable."""
        if self._journaled and sum(map(len, body)) < SMALL_BYTES:
            with translated(address):
                file = SmallFile(place, self._fresh_ns(), b"".join(body))
                status = self._small.create(file)
            if status is not ABSENT:
                return head_of(status)
        return self.write(place, body, CREATE, address)

    def join(self, place: Place, pieces: Iterable["Chunks"], address: str) -> ObjectHead:
        """As `write`, with the bytes of open files one after the other.  Where the file system
        allows it, they do not pass through this process."""
        with self._folders.temporary.new(address) as temporary:
            size = 0
            for chunks in pieces:
                size += chunks.end - chunks.at
                check_size(size)
                chunks.append_to(temporary)
            return self._stored(temporary, place, OVERWRITE, address)

    def _stored(self, temporary: Temporary, place: Place, mode: Mode, address: str) -> ObjectHead:
        """Make the bytes durable, and visible under their name."""
        with translated(address):
            written_ns = self._fresh_ns()
            os.utime(temporary.file, ns=(written_ns, written_ns))
            os.fsync(temporary.file)
            with closing(self._folders.make(place.folders)) as folder:
                with self._settled(place):
                    _publish(temporary, folder, place.name, mode, address)
                self._forget(place, address)
                self._folders.sync(place.folders, folder, address)
            return head_of(os.fstat(temporary.file))

    def remove(self, doomed: Sequence[DeletionTarget]) -> None:
        """Remove files of one folder, each only if it exists and has its version.  The folder is
        synced once for all.  If removals fail, the others are still tried, and then the first error
        is raised."""
        first, failed = doomed[0], list[GravelerError]()
        with (
            translated(first.address),
            suppress(FileNotFoundError),
            closing(open_folder(self._folders.root, first.place.folders)) as folder,
        ):
            gone = False
            for target in doomed:
                try:
                    gone = self._unlink(folder, target) or gone
                except GravelerError as error:
                    failed.append(error)
            if gone:
                self._folders.sync(first.place.folders, folder, first.address)
        if failed:
            raise failed[0]

    def _unlink(self, folder: int, doomed: DeletionTarget) -> bool:
        """Remove one file.  Returns whether a file was removed."""
        place, version, address = doomed
        with translated(address), suppress(FileNotFoundError), self._settled(place):
            status = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
            if version in (ANY_VERSION, head_of(status).version):
                os.unlink(place.name, dir_fd=folder)
                self._forget(place, address)
                return True
        return False

    def discard(self, folders: tuple[str, ...], address: str) -> None:
        """Remove a folder with its files, if it exists: for others all at once."""
        with translated(address):
            self._folders.temporary.discard(os.path.join(self._folders.root, *folders))

    def _forget(self, place: Place, address: str) -> None:
        self._open_files.forget(place)
        self._open_tables.forget(address)

    def _opened(self, place: Place) -> int:
        return open_file(self._folders.root, place)

    def close(self) -> None:
        """Sync what the journal holds.  Raises `OSError`; the next start repeats it."""
        self._journal.close()

    @contextmanager
    def _settled(self, place: Place) -> Iterator[None]:
        """Holds the lock of a name whose file is in no segment of the journal."""
        while True:
            with self._lock(place):
                if not self._journal.holds(place):
                    yield
                    return
            self._journal.settle(place)

    def _lock(self, place: Place) -> threading.Lock:
        return self._locks[hash(place) % _LOCKS]

    def _fresh_ns(self) -> int:
        with self._time_lock:
            self._newest_ns = max(self._clock.now_ns(), self._newest_ns + 1)
            return self._newest_ns


class Chunks:
    """The bytes of an open file from the offset `at` to `end`.  Lets the file go at the end.

    `status`: the attributes of the file, if they are known.
    """

    def __init__(
        self, file: OpenFile, address: str, status: os.stat_result | Literal[Absent.ABSENT] = ABSENT
    ) -> None:
        self._file: OpenFile | Literal[Absent.ABSENT] = file
        self._address = address
        self._status = status
        self.at = 0
        self.end = 0

    def head(self) -> ObjectHead:
        """The head of the file; `NotFound` if it is not a regular file."""
        if self._status is ABSENT:
            with translated(self._address):
                self._status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            raise NotFound(f"object not found: address={self._address}")
        return head_of(self._status)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        file = self._file  # stays open while it is read, whoever calls `close` meanwhile
        if self.at >= self.end or file is ABSENT:
            self.close()
            raise StopIteration
        with translated(self._address):
            length = min(limits.chunk_length_bytes, self.end - self.at)
            chunk = os.pread(file.descriptor, length, self.at)
        if not chunk:
            raise Corrupt(f"object ended early while being read: address={self._address}")
        self.at += len(chunk)
        return chunk

    def append_to(self, target: Temporary) -> None:
        """Append all bytes to a file; then this one is closed.

        The kernel copies them, or shares their blocks.  If it refuses, they are read and written.
        """
        with translated(self._address):
            while self.at < self.end:
                count = _copied(self._descriptor, target.file, self.end - self.at, self.at)
                if not count:
                    break
                self.at += count
        for chunk in self:
            with translated(self._address):
                target.write(chunk)

    def close(self) -> None:
        """Let the file go.  Idempotent."""
        self._file = ABSENT

    @property
    def _descriptor(self) -> int:
        return -1 if self._file is ABSENT else self._file.descriptor


def head_of(status: os.stat_result) -> ObjectHead:
    """The head of an object, from the attributes of its file."""
    return ObjectHead(
        status.st_size,
        f"{status.st_mtime_ns:x}-{status.st_size:x}",
        status.st_mtime_ns,
        f"{status.st_ino:x}-{status.st_mtime_ns:x}",
    )


def _copied(source: int, target: int, length: int, at: int) -> int:
    """Append up to `length` bytes of a file from the offset `at` to another one.  Returns how many
    the kernel has copied; 0 if it refuses."""
    if sys.platform != "linux":
        return 0
    try:
        return os.copy_file_range(source, target, min(length, _COPIED_MAX), offset_src=at)
    except OSError as error:
        if error.errno in _REFUSALS:
            return 0
        raise


def _begin_flush(temporary: Temporary, start: int, end: int) -> None:
    """Make the system write these bytes to the disk while more arrive, so that the sync at the end
    waits only for the last ones.

    Linux starts to write dirty pages when it is told that they are not needed.  It keeps them in
    memory, because only pages that are on the disk already are dropped.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # the sync at the end reports what fails
            os.posix_fadvise(temporary.file, start, end - start, os.POSIX_FADV_DONTNEED)


def _publish(temporary: Temporary, folder: int, name: str, mode: Mode, address: str) -> None:
    if mode is CREATE:
        os.link(temporary.name, name, src_dir_fd=temporary.folder, dst_dir_fd=folder)
        return
    if isinstance(mode, Update) and _etag(folder, name) != mode.etag:
        raise PreconditionFailed(f"object has another etag: {address=}")
    os.rename(temporary.name, name, src_dir_fd=temporary.folder, dst_dir_fd=folder)


def _etag(folder: int, name: str) -> str | Absent:
    with suppress(FileNotFoundError):
        return head_of(os.stat(name, dir_fd=folder, follow_symlinks=False)).etag
    return ABSENT
