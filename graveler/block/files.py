"""Writes, removes and lists whole files below the local store's root.

Each modification time is unique, so size and time distinguish one content of a name from the next.
A change that first checks the present file holds a lock of its name.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from itertools import chain, groupby
from pathlib import Path
from typing import Final, Literal, NamedTuple

from graveler.block import file_reads, layout
from graveler.block.adapter import (
    ANY_VERSION,
    CREATE,
    OVERWRITE,
    Mode,
    NewObject,
    ObjectHead,
    Update,
)
from graveler.block.address import Parts
from graveler.block.bodies import Spool
from graveler.block.disk import begin_flush
from graveler.block.drivers import check_size, gathered, measured
from graveler.block.file_reads import Chunks, FileReads, head_of
from graveler.block.folders import Folders, Temporary, closing, open_folder, translated
from graveler.block.journal import Journal, SmallFile
from graveler.block.layout import FilePath
from graveler.block.small_files import SMALL_BYTES, SmallFiles, replayed
from graveler.block.walk import Child, FileHead, FileKey, Start
from graveler.core.clock import Clock, Ids
from graveler.core.errors import GravelerError, PreconditionFailed
from graveler.core.identity import IS_FAST, extended
from graveler.core.records import ABSENT, Absent

_LOCKS = 64
_FLUSHED_BYTES: Final = 16 * 1024 * 1024
OF_THE_BODY: Final = -1  # in place of a checksum


class DeletionTarget(NamedTuple):
    """A file to remove if it still has this version."""

    place: FilePath
    version: str
    address: str


class Files:
    """The files below one root; `reads` reads them.  `address` is for messages, and names the open
    file that a change closes.  `read_only`: reads files in the journal, too, and changes none."""

    def __init__(
        self,
        root: Path,
        clock: Clock,
        ids: Ids,
        *,
        journaled: bool = False,
        synced: bool = True,
        read_only: bool = False,
    ) -> None:
        self._clock = clock
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))
        self._journaled = journaled and synced and not read_only
        self._held = ExitStack()
        with translated(str(root)):
            self.folders = Folders(root, ids, synced=synced, read_only=read_only)
            self._journal = Journal(self.folders)
            self._small = SmallFiles(self.folders, self._journal, self._lock)
            if journaled and not read_only:  # an earlier process may have left one
                self._journal.recover(self._small.write_again)
            newer = self._held.enter_context(replayed(self.folders.root, ids)) if read_only else ""
        self._time_lock, self._newest_ns = threading.Lock(), 0
        self.reads = FileReads(self.folders.root, clock, newer)

    @property
    def root(self) -> str:
        """The path of the root, without links.  A link to it that changes later changes nothing."""
        return self.folders.root

    def write(
        self,
        place: FilePath,
        body: Iterable[bytes],
        mode: Mode,
        address: str,
        crc32c: int | Literal[Absent.ABSENT] = OF_THE_BODY,
        tail: bytes = b"",
    ) -> ObjectHead:
        """Store a body under a name, durably and atomically, under the condition of `mode`.

        `crc32c`: the checksum to keep, that of the file from which the body is copied: if that is
        damaged, so is the copy, and a checksum of the body would hide it.  `tail`: further bytes
        for the end of the file."""
        if isinstance(body, FileSpool) and body.files is self:
            with body.given(tail) as spooled:
                if spooled is not ABSENT:
                    return self._stored(spooled, place, mode, address)
        whole = chain(body, (tail,)) if tail else body
        with self.folders.temporary.new(address) as temporary:
            size, computed = _filled(temporary, whole, address, synced=self.folders.synced)
            known = computed if crc32c == OF_THE_BODY else crc32c
            file_reads.keep_checksum(temporary.file, size, known)
            return self._stored(temporary, place, mode, address)

    def create(self, place: FilePath, body: Sequence[bytes], address: str) -> ObjectHead:
        """As `write`, for a file that must be new and whose body is in memory.  If the journal is
        kept, it makes a small file durable."""
        if self._journaled and sum(map(len, body)) < SMALL_BYTES:
            with translated(address):
                file = SmallFile(place, self._fresh_ns(), b"".join(body))
                status = self._small.create(file)
            if status is not ABSENT:
                return head_of(status)
        return self.write(place, body, CREATE, address)

    def create_many(self, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        """See `BulkCreations.create_many`.  With a journal, one write and one sync make all small
        objects durable."""
        results: dict[int, ObjectHead | GravelerError] = {}
        named: dict[int, tuple[Parts, FilePath]] = {}
        small: dict[int, SmallFile] = {}
        for number, new in enumerate(objects):
            try:
                parts = layout.owned(new.address)
                place = layout.place(parts)
            except GravelerError as error:
                results[number] = error
                continue
            named[number] = parts, place
            if self._journaled and sum(map(len, new.body)) < SMALL_BYTES:
                small[number] = SmallFile(place, self._fresh_ns(), b"".join(new.body))
        created = self._small.create_many(list(small.values())) if small else ()
        for number, result in zip(small, created, strict=True):
            if isinstance(result, os.stat_result):
                results[number] = head_of(result)
            elif result is not ABSENT:
                results[number] = _error(result, named[number][0].address)
        for number, (parts, place) in named.items():
            if number not in results:
                try:
                    results[number] = self.write(place, objects[number].body, CREATE, parts.address)
                except GravelerError as error:
                    results[number] = error
        return [results[number] for number in range(len(objects))]

    def join(self, place: FilePath, pieces: Iterable[Chunks], address: str) -> ObjectHead:
        """As `write`, with the bytes of open files one after the other.  Where the file system
        allows it, they do not pass through this process."""
        with self.folders.temporary.new(address) as temporary:
            size = 0
            for chunks in pieces:
                size += chunks.end - chunks.at
                check_size(size)
                chunks.append_to(temporary)
            return self._stored(temporary, place, OVERWRITE, address)

    def _stored(
        self, temporary: Temporary, place: FilePath, mode: Mode, address: str
    ) -> ObjectHead:
        """Make the bytes durable, and visible under their name."""
        with translated(address):
            written_ns = self._fresh_ns()
            os.utime(temporary.file, ns=(written_ns, written_ns))
            if self.folders.synced:
                os.fsync(temporary.file)
            with closing(self.folders.make(place.folders)) as folder:
                with self._settled(place):
                    _publish(temporary, folder, place.name, mode, address)
                self.reads.forget(address)
                self.folders.sync(place.folders, folder, address)
            return head_of(os.fstat(temporary.file))

    def remove(self, doomed: Sequence[DeletionTarget]) -> None:
        """Remove files of one folder, each only if it exists and has its version.  The folder is
        synced once for all.  If removals fail, the others are still tried, and then the first error
        is raised."""
        first, failed = doomed[0], list[GravelerError]()
        with (
            translated(first.address),
            suppress(FileNotFoundError),
            closing(open_folder(self.folders.root, first.place.folders)) as folder,
        ):
            gone = False
            for target in doomed:
                try:
                    gone = self._unlink(folder, target) or gone
                except GravelerError as error:
                    failed.append(error)
            if gone:
                self.folders.sync(first.place.folders, folder, first.address)
        if failed:
            raise failed[0]

    def _unlink(self, folder: int, doomed: DeletionTarget) -> bool:
        """Remove one file.  Returns whether a file was removed."""
        place, version, address = doomed
        with translated(address), suppress(FileNotFoundError), self._settled(place):
            status = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
            if version in (ANY_VERSION, head_of(status).version):
                os.unlink(place.name, dir_fd=folder)
                self.reads.forget(address)
                return True
        return False

    def discard(self, folders: tuple[str, ...], address: str) -> None:
        """Remove a folder with its files, if it exists: for others all at once."""
        with translated(address):
            self.folders.temporary.discard(os.path.join(self.folders.root, *folders))

    def start(self, parts: Parts) -> Start:
        """The folder where a list of a bucket's keys begins."""
        return Start(parts.key[: parts.key.rfind("/") + 1], layout.folder(parts))

    def children(self, folders: tuple[str, ...], above: Sequence[str]) -> Iterator[Child]:
        """The files and folders in a folder that belong to keys; none if it does not exist."""
        with (
            suppress(FileNotFoundError),
            closing(open_folder(self.folders.root, folders)) as at,
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
                closing(open_folder(self.folders.root, folders)) as at,
            ):
                for one in group:
                    with suppress(FileNotFoundError):
                        status = os.stat(one.name, dir_fd=at, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield FileHead(one.key, head_of(status))

    def close(self) -> None:
        """Sync what the journal holds.  Raises `OSError`; the next start repeats it."""
        self._held.close()
        self._journal.close()

    @contextmanager
    def _settled(self, place: FilePath) -> Iterator[None]:
        """Holds the lock of a name whose file is in no segment of the journal."""
        while True:
            with self._lock(place):
                if not self._journal.holds(place):
                    yield
                    return
            self._journal.settle(place)

    def _lock(self, place: FilePath) -> threading.Lock:
        return self._locks[hash(place) % _LOCKS]

    def _fresh_ns(self) -> int:
        with self._time_lock:
            self._newest_ns = max(self._clock.now_ns(), self._newest_ns + 1)
            return self._newest_ns


class FileSpool(Spool):
    """A spool in a temporary file of the store.  `Files.write` gives this file its name, once,
    instead of a copy."""

    def __init__(self, files: Files, address: str) -> None:
        self.files = files
        self._stack = ExitStack()
        self._address = address
        self._temporary = self._stack.enter_context(files.folders.temporary.new(address))
        super().__init__(FileIO(self._temporary.file, "r+", closefd=False))
        self._flushed = 0
        self._is_given = False

    @contextmanager
    def given(self, tail: bytes) -> Iterator[Temporary | Literal[Absent.ABSENT]]:
        """The file, with `tail` behind the bytes of the body; it is not closed in the block.
        ABSENT after the first call: the file may have been renamed."""
        with self._lock:
            is_first, self._is_given = not self._is_given, True
            if not is_first:
                yield ABSENT
                return
            check_size(self.size)
            with translated(self._address):
                if os.pwrite(self._temporary.file, tail, self.size) < len(tail):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            crc32c = ABSENT if self.crc32c is ABSENT else extended(self.crc32c, tail)
            file_reads.keep_checksum(self._temporary.file, self.size + len(tail), crc32c)
            yield self._temporary

    def close(self) -> None:
        with self._lock:
            self._file.close()
            self._stack.close()

    def _append(self, chunk: bytes) -> None:
        with translated(self._address):
            super()._append(chunk)
            end = self.size + len(chunk)
            if self.files.folders.synced and end - self._flushed >= _FLUSHED_BYTES:
                begin_flush(self._temporary.file, self._flushed, end)
                self._flushed = end


def _error(error: OSError | GravelerError, address: str) -> GravelerError:
    try:
        with translated(address):
            raise error
    except GravelerError as known:
        return known


def _filled(
    temporary: Temporary, body: Iterable[bytes], address: str, *, synced: bool
) -> tuple[int, int | Literal[Absent.ABSENT]]:
    """Write a body into a new file.  Returns its size, and its CRC32C if that costs little."""
    flushed = size = crc32c = 0
    for chunk in gathered(measured(body)):
        with translated(address):
            temporary.write(chunk)
            size += len(chunk)
            if IS_FAST:
                crc32c = extended(crc32c, chunk)
            if synced and size - flushed >= _FLUSHED_BYTES:
                begin_flush(temporary.file, flushed, size)
                flushed = size
    return size, crc32c if IS_FAST else ABSENT


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
