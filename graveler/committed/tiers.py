"""Where the files of tables lie: block storage, and before it folders of copies.

    memory                     blocks, indexes, metaranges (sstable.py)
    a folder of this machine   whole files that were scanned, hot, small or written here
    a folder that all share    the same, where one is mounted
    block storage              everything, at `<namespace>/_lakefs/<id>`

Files are immutable and named by their content, so a copy never goes stale; only damage and removal
matter.  Only what is in block storage is durable; folders may be deleted at any time (folder.py).
For `sstable.py` and the assembly.
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
from graveler.committed.table import Source
from graveler.errors import AlreadyExists, NotFound, StorageFull, Unavailable
from graveler.records import ABSENT, Absent

Content = Sequence[bytes] | Rereadable  # it is stored, perhaps twice, and copied into folders

_HOT_SHARE = 4  # a file of which a quarter was read is fetched whole


class TableFiles(Protocol):
    """Files of tables by namespace and id."""

    def open(self, namespace: str, name: str) -> Source:
        """That there is no such file is told by the first reading, as `NotFound`."""
        ...

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        """Have `build` write a file, and store it durably.  Raises `StorageFull`, `Unavailable`.

        One that is there already keeps its bytes (as a new version): it has the same records, but
        perhaps in other blocks, and who has read its index must find the blocks that it knows."""
        ...

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> None:
        """As `add`, of bytes that are at hand."""
        ...


def file_address(namespace: str, name: str) -> str:
    """The physical address of a range or metarange file."""
    return f"{namespace.rstrip('/')}/_lakefs/{name}"


class StoredFiles:
    """Block storage alone: for stores that are local anyway, where a copy would double the bytes.

    Files are built below `scratch` and removed from it when they are stored."""

    def __init__(self, blocks: BlockStore, scratch: Path) -> None:
        self._blocks = blocks
        self._scratch = scratch
        self._tails = room_for_tails()

    def open(self, namespace: str, name: str) -> Source:
        return RemoteFile(self._blocks, file_address(namespace, name), self._tails)

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        with _built(self._scratch, build) as path:
            _store(self._blocks, file_address(namespace, name), bodies.of_path(path))

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> None:
        _store(self._blocks, file_address(namespace, name), content)


class TieredFiles:
    """A folder of at most `budget` bytes before block storage, and between them perhaps a folder
    that machines share.

    A file is read by ranges from block storage until a quarter of it was wanted; then it is fetched
    whole, by one of all who want it at that moment, and enters the folders.  So does what is
    written, and what came whole by the first request.  A copy in the shared folder is copied to
    the local one when it is opened, and checked on the way.  Copies that were evicted are let go,
    so that tables that stay open hold no more of the disk than the budget."""

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

    def open(self, namespace: str, name: str) -> Source:
        address = file_address(namespace, name)
        remote = RemoteFile(self._blocks, address, self._tails)
        file = _WarmingFile(remote, self, self._opened(address))
        with self._open_lock:
            self._open.add(file)
        return file

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        with _built(self._scratch, build) as path:
            self._stored(file_address(namespace, name), bodies.of_path(path))

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> None:
        self._stored(file_address(namespace, name), content)

    def _stored(self, address: str, content: Content) -> None:
        if not _store(self._blocks, address, content):
            return  # a copy of ours might have other blocks than the file that is stored
        with suppress(OSError):  # stored already: the copies are a matter of speed
            self._enter(self._local, address, content)
            if self._shared is not ABSENT:
                self._enter(self._shared, address, content)

    def fetch(self, address: str) -> LocalFile | Absent:
        """The file as a local one, fetched whole if need be; `ABSENT` if no folder can hold it or
        whoever fetches it takes too long."""
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
        """Take a copy of a file that is at hand."""
        self._enter(self._local, address, [content])
        if self._shared is not ABSENT:
            self._enter(self._shared, address, [content])

    def _enter(self, folder: CacheFolder, address: str, chunks: Iterable[bytes]) -> None:
        """Take a copy; open tables let go of those that had to make room for it."""
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
    """Read by ranges until it is hot, from then on local, until the copy is evicted."""

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
        """The file as a local one if it is hot now."""
        self._wanted += self._remote.missing(offset, length)
        if self._wanted * _HOT_SHARE <= self.size():
            return ABSENT
        self._wanted = 0
        copy = self._local = self._files.fetch(self.name)
        return copy

    def let_go(self) -> None:
        """Hold on to no copy that was evicted; who reads it at this moment reads to the end."""
        local = self._local
        if local is not ABSENT and local.is_gone():
            self._local = ABSENT


def _store(blocks: BlockStore, address: str, content: Content) -> bool:
    """Whether the file was not there before.

    One that was is written again with the bytes that it has: garbage collection deletes a file
    only as the version that it saw, and must see that somebody needs this one anew."""
    for _ in range(limits.conditional_round_count_max):
        with suppress(AlreadyExists):
            blocks.put(address, content, CREATE)
            return True
        with suppress(NotFound):  # collected in between
            blocks.copy(address, address)
            return False
    raise Unavailable(f"write a table: it keeps coming and going: table={address}")


@contextmanager
def _built(folder: Path, build: Callable[[Path], None]) -> Iterator[Path]:
    """A file of its own that `build` has written; it is gone afterwards."""
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
