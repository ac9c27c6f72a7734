"""Stores table files in block storage, with folders of cached copies in front of it.

    memory                     blocks, indexes, metaranges (sstable.py)
    a folder of this machine   whole files that were scanned, hot, small or written here
    a folder that all share    the same, if one is mounted
    block storage              everything, at `<namespace>/_lakefs/<id>`

Files are immutable and named by their content, so a copy never becomes stale; it can only be
damaged or removed.  Only files in block storage are durable; the folders may be deleted at any time
(folder.py).  For `sstable.py` and the assembly.
"""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from graveler import limits
from graveler.block import bodies
from graveler.block.adapter import CREATE, BlockStore
from graveler.block.bodies import Rereadable
from graveler.clock import SystemClock
from graveler.committed.folder import CacheFolder, LocalFile, scratch_path
from graveler.committed.remote import RemoteFile, room_for_tails
from graveler.committed.table import ByteSource
from graveler.errors import AlreadyExists, NotFound, StorageFull, Unavailable
from graveler.records import ABSENT, Absent

Content = Sequence[bytes] | Rereadable  # read several times: for block storage and for each folder

_HOT_SHARE = 4  # a file is fetched whole after more than 1/4 of it was requested


class TableFiles(Protocol):
    """Table files, by storage namespace and id."""

    def open(self, namespace: str, name: str) -> ByteSource:
        """The file, for reading.  If it does not exist, the first read raises `NotFound`."""
        ...

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        """Call `build` to write a file, and store it durably.  Raises `StorageFull`, `Unavailable`.

        If the file exists already, its bytes are kept, and are written again as a new version.  The
        existing file has the same records, but perhaps in other blocks, and a reader that has read
        its index must find the blocks of that index."""
        ...

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        """As `add`, for content that is in memory.  Returns whether the file has these bytes: an
        existing file keeps its own."""
        ...

    def written(self, namespace: str, name: str, content: Sequence[bytes]) -> ByteSource | Absent:
        """A file that was just stored with this content, for reading; its end is in memory.  ABSENT
        if a copy has to be checked first."""
        ...


def file_address(namespace: str, name: str) -> str:
    """The physical address of a range or metarange file."""
    return f"{namespace.rstrip('/')}/_lakefs/{name}"


class StoredFiles:
    """Block storage without folders of copies.  For block storage on this machine, where a copy
    would only double the bytes.

    Files are built below `scratch` and removed from there after they are stored."""

    def __init__(self, blocks: BlockStore, scratch: Path) -> None:
        self._blocks = blocks
        self._scratch = scratch
        self._tails = room_for_tails()

    def open(self, namespace: str, name: str) -> ByteSource:
        return RemoteFile(self._blocks, file_address(namespace, name), self._tails)

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        with _built(self._scratch, build) as path:
            _store(self._blocks, file_address(namespace, name), bodies.of_path(path))

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        return _store(self._blocks, file_address(namespace, name), content)

    def written(self, namespace: str, name: str, content: Sequence[bytes]) -> ByteSource | Absent:
        address = file_address(namespace, name)
        return RemoteFile.written(self._blocks, address, self._tails, content)


class TieredFiles:
    """Block storage behind a local folder of at most `budget` bytes, with an optional folder
    between them that machines share.

    A file is read from block storage by byte ranges until more than 1/4 of it was requested.  Then
    it is fetched whole and enters the folders; of several clients that want it at that moment, one
    fetches it.  Files that are written here, and files that the first request returns whole, enter
    the folders too.  When a copy in the shared folder is opened, it is checked and copied to the
    local folder.  Open tables close evicted copies, so the disk holds no more than the budget."""

    def __init__(
        self,
        blocks: BlockStore,
        folder: Path,
        budget: int,
        shared: Path | Absent = ABSENT,
        shared_budget: int = 0,
    ) -> None:
        self._blocks = blocks
        self._tails = room_for_tails()
        self._scratch = folder
        self._local = CacheFolder(folder, budget, SystemClock())
        self._shared: CacheFolder | Absent = ABSENT
        if shared is not ABSENT:
            self._shared = CacheFolder(shared, shared_budget, SystemClock())
        self._open: WeakSet[_WarmingFile] = WeakSet()
        self._open_lock = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, namespace: str, name: str) -> ByteSource:
        address = file_address(namespace, name)
        remote = RemoteFile(self._blocks, address, self._tails)
        file = _WarmingFile(remote, self, self._opened(address))
        with self._open_lock:
            self._open.add(file)
        return file

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        with _built(self._scratch, build) as path:
            self._stored(file_address(namespace, name), bodies.of_path(path))

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        return self._stored(file_address(namespace, name), content)

    def written(self, namespace: str, name: str, content: Sequence[bytes]) -> ByteSource | Absent:
        return ABSENT

    def _stored(self, address: str, content: Content) -> bool:
        if not _store(self._blocks, address, content):
            return False  # this copy may have other blocks than the stored file
        with suppress(OSError):  # the file is durable already: copies only make reads faster
            self._enter(self._local, address, content)
            if self._shared is not ABSENT:
                self._enter(self._shared, address, content)
        return True

    def fetch(self, address: str) -> LocalFile | Absent:
        """A local copy of the file, which is fetched whole if there is none; ABSENT if no folder
        can hold it, or if another client that fetches it takes too long."""
        meeting = self._local if self._shared is ABSENT else self._shared
        with meeting.alone(address) as in_time:
            copy = self._opened(address)
            if copy is not ABSENT or not in_time:
                return copy
            self._enter(self._local, address, self._blocks.get(address).chunks)
            copy = self._local.opened(address)
            if copy is not ABSENT and self._shared is not ABSENT:
                self._enter(self._shared, address, copy.chunks())
            return copy

    def keep(self, address: str, content: bytes) -> None:
        """Store copies of a file whose bytes are in memory."""
        self._enter(self._local, address, [content])
        if self._shared is not ABSENT:
            self._enter(self._shared, address, [content])

    def _enter(self, folder: CacheFolder, address: str, chunks: Iterable[bytes]) -> None:
        """Store a copy in `folder`.  If that evicted others, open tables close the evicted
        copies."""
        if folder.enter(address, chunks):
            with self._open_lock:
                for file in self._open:
                    file.let_go()

    def _opened(self, address: str) -> LocalFile | Absent:
        copy = self._local.opened(address)
        if copy is ABSENT and self._shared is not ABSENT:
            shared = self._shared.opened(address)
            if shared is not ABSENT:
                self._enter(self._local, address, shared.chunks())
                copy = self._local.opened(address)
                return copy if copy is not ABSENT else shared
        return copy


class _WarmingFile:
    """A file that is read by byte ranges until it is hot, then from a local copy until the copy is
    evicted."""

    def __init__(self, remote: RemoteFile, files: TieredFiles, copy: LocalFile | Absent) -> None:
        self._remote = remote
        self._local = copy
        self._files = files
        self._wanted = -1
        self.name = remote.name

    def size(self) -> int:
        local = self._local
        if local is not ABSENT:
            return local.size()
        size = self._remote.size()
        if self._wanted < 0:
            self._wanted = 0
            content = self._remote.whole()
            if content is not ABSENT:
                self._files.keep(self.name, content)
        return size

    @property
    def held(self) -> int:
        return self._remote.held

    def read(self, offset: int, length: int) -> bytes:
        local = self._local
        if local is ABSENT:
            local = self._warmed(offset, length)
        return self._remote.read(offset, length) if local is ABSENT else local.read(offset, length)

    def _warmed(self, offset: int, length: int) -> LocalFile | Absent:
        """Count the request.  Returns a local copy of the file if the file is hot now, otherwise
        ABSENT."""
        self._wanted += self._remote.missing(offset, length)
        if self._wanted * _HOT_SHARE <= self.size():
            return ABSENT
        self._wanted = 0
        copy = self._local = self._files.fetch(self.name)
        return copy

    def let_go(self) -> None:
        """Close the local copy if it was evicted.  A read that is running on it reads to the
        end."""
        local = self._local
        if local is not ABSENT and local.is_gone():
            self._local = ABSENT


def _store(blocks: BlockStore, address: str, content: Content) -> bool:
    """Store a file.  Returns whether it did not exist before.

    An existing file is written again with its own bytes.  Garbage collection deletes only the
    version of a file that it has seen; the new version protects the file."""
    for _ in range(limits.conditional_round_count_max):
        with suppress(AlreadyExists):
            blocks.put(address, content, CREATE)
            return True
        with suppress(NotFound):  # garbage collection deleted it in between
            blocks.copy(address, address)
            return False
    raise Unavailable(
        f"write a table: other processes keep deleting it; try again: table={address}"
    )


@contextmanager
def _built(folder: Path, build: Callable[[Path], None]) -> Iterator[Path]:
    """A temporary file that `build` has written.  It is removed afterwards."""
    with _kinds():
        path = scratch_path(folder)
    try:
        with _kinds():
            build(path)
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _kinds() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
        raise kind(f"write a table: {error.strerror}") from error
