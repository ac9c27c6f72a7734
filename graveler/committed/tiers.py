"""Stores table files in block storage, with folders of cached copies in front of it.

    memory                     blocks, indexes, metaranges (sstable.py)
    a folder of this machine   whole files that were scanned, hot, small or written here
    a folder that all share    the same, if one is mounted
    block storage              everything, at `<namespace>/_lakefs/<id>`

Files are named by their content, so a copy never becomes stale.  The folders may be deleted.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from graveler.block.adapter import CREATE, BlockStore
from graveler.committed.cache import BudgetedCache
from graveler.committed.folder import CacheFolder, Copy, LocalFile
from graveler.committed.remote import RemoteFile, room_for_tails
from graveler.committed.table_end import ByteSource
from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import AlreadyExists, NotFound, Unavailable
from graveler.core.records import ABSENT, Absent

COPIES_OPEN_MAX: Final = 128  # 1/8 of the open files that a Lambda may have
_HOT_SHARE = 4  # a file is fetched whole after more than 1/4 of it was requested
_EXPECTED_BYTES_MAX = 8 << 20  # of a longer file, a reader may want too small a part
_EXPECTED_SHARE = 8  # files that are expected at one time fit into 1/8 of the folder
_REQUEST_BYTES = 64 << 10  # so many at least by each request, which lasts longer than they do


class Fetchers(Protocol):
    """What fetches files beside their reader."""

    def begin(self, address: str, fetch: Callable[[str], object]) -> None:
        """Call `fetch(address)` elsewhere, unless that runs or too many wait.  Returns at once."""
        ...

    def wait(self, address: str) -> bool:
        """Wait for the end of such a call, whether it fails or not, if it has begun; else it is
        dropped.  Returns whether it has ended."""
        ...


class TableFiles(Protocol):
    """Table files, by storage namespace and id."""

    def open(self, namespace: str, name: str) -> ByteSource:
        """The file, for reading.  If it does not exist, the first read raises `NotFound`."""
        ...

    def expect(self, namespace: str, sizes: Iterable[tuple[str, int]]) -> None:
        """See `ranges.RangeStore`.  `sizes`: the name of each file, and how long it may be."""
        ...

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        """Store a file durably.  Returns whether the file has these bytes: an existing file keeps
        its own, and they are written again as a new version.  It has the same records, but perhaps
        in other blocks, and a reader that has read its index must find the blocks of that index.
        Raises `StorageFull`, `Unavailable`."""
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
    would only double the bytes."""

    def __init__(self, blocks: BlockStore) -> None:
        self._blocks = blocks
        self._tails = room_for_tails()

    def open(self, namespace: str, name: str) -> ByteSource:
        return RemoteFile(self._blocks, file_address(namespace, name), self._tails)

    def expect(self, namespace: str, sizes: Iterable[tuple[str, int]]) -> None:
        """They are near."""

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
    local folder.  Files that a reader expects are fetched whole by `fetchers`, and whoever reads
    one waits for it; not with a shared folder, where each copy costs more than it saves.

    At most `open_max` copies are open between reads.  Those that were not read lately are closed,
    and the next read opens them again, which costs no request.  Copies that were evicted are closed
    too, so the disk holds no more than the budget."""

    def __init__(
        self,
        blocks: BlockStore,
        folder: Path,
        budget: int,
        shared: Path | Absent = ABSENT,
        shared_budget: int = 0,
        *,
        open_max: int = COPIES_OPEN_MAX,
        fetchers: Fetchers | Absent = ABSENT,
    ) -> None:
        self._blocks = blocks
        self._budget = budget
        self._fetchers = fetchers if shared is ABSENT else ABSENT
        self._tails = room_for_tails()
        self._local = CacheFolder(folder, budget, SystemClock())
        self._shared: CacheFolder | Absent = ABSENT
        # A copy in the shared folder costs more than a request that it saves.
        self.request_bytes = _REQUEST_BYTES if shared is ABSENT else 0
        if shared is not ABSENT:
            self._shared = CacheFolder(shared, shared_budget, SystemClock())
        self._open: _OpenCopies = BudgetedCache(open_max)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, namespace: str, name: str) -> ByteSource:
        address = file_address(namespace, name)
        remote = RemoteFile(self._blocks, address, self._tails)
        copy = self.arrived(address)
        copy = self._opened(address) if copy is ABSENT else copy
        return _WarmingFile(remote, self, self._open, copy)

    def expect(self, namespace: str, sizes: Iterable[tuple[str, int]]) -> None:
        if self._fetchers is ABSENT:
            return
        room = self._budget // _EXPECTED_SHARE
        for name, size in sizes:
            address = file_address(namespace, name)
            if size > _EXPECTED_BYTES_MAX:
                continue
            room -= size
            if room < 0:  # else the files would evict each other before they are read
                return
            if not self._local.has(address):
                self._fetchers.begin(address, self._bring)

    def _bring(self, address: str) -> None:
        with self._local.alone(address) as in_time:
            if in_time and not self._local.has(address):
                self._enter(self._local, address, self._blocks.get(address).chunks)

    def arrived(self, address: str) -> LocalFile | Absent:
        """A local copy of a file that is being fetched, after that; ABSENT if it is not, or if the
        fetch failed: the reader meets its error."""
        if self._fetchers is ABSENT or not self._fetchers.wait(address):
            return ABSENT
        return self._local.opened(address)

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        return self._stored(file_address(namespace, name), content)

    def written(self, namespace: str, name: str, content: Sequence[bytes]) -> ByteSource | Absent:
        return ABSENT

    def _stored(self, address: str, content: Sequence[bytes]) -> bool:
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
        """Store a copy in `folder`.  If that evicted others, the evicted copies are closed.  A read
        that is running on one of them reads to the end."""
        if folder.enter(address, chunks):
            self._open.forget_if(LocalFile.is_gone)

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
    evicted.

    The local copy may be closed between two reads.  It is opened again only if it is still the same
    file: another one may have other blocks than the index that the reader has."""

    def __init__(
        self,
        remote: RemoteFile,
        files: TieredFiles,
        opened: "_OpenCopies",
        file: LocalFile | Absent,
    ) -> None:
        self._remote = remote
        self._files = files
        self._opened = opened
        self._copy: Copy | Absent = ABSENT
        self._wanted = -1
        self.name = remote.name
        if file is not ABSENT:
            self._keep(file)

    def size(self) -> int:
        copy = self._copy
        if copy is not ABSENT:
            return copy.size
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
        local = self._opened.get(self) or self._reopened()
        if local is ABSENT:
            local = self._warmed(offset, length)
        return self._remote.read(offset, length) if local is ABSENT else local.read(offset, length)

    def _reopened(self) -> LocalFile | Absent:
        """The local copy, opened again; ABSENT if there is none, or if it is gone."""
        copy = self._copy
        if copy is ABSENT:
            return ABSENT
        file = copy.opened()
        if file is ABSENT:
            self._copy = ABSENT
            return ABSENT
        return self._keep(file)

    def _keep(self, file: LocalFile) -> LocalFile:
        self._copy = file.copy
        self._opened.put(self, file, 1)
        return file

    def _warmed(self, offset: int, length: int) -> LocalFile | Absent:
        """Count the request.  Returns a local copy of the file if the file is hot now, otherwise
        ABSENT."""
        file = self._files.arrived(self.name)
        if file is not ABSENT:
            return self._keep(file)
        missing = self._remote.missing(offset, length)
        self._wanted += max(missing, self._files.request_bytes) if missing else 0
        if self._wanted * _HOT_SHARE <= self.size():
            return ABSENT
        self._wanted = 0
        file = self._files.fetch(self.name)
        return file if file is ABSENT else self._keep(file)


_OpenCopies = BudgetedCache[_WarmingFile, LocalFile]  # each costs 1


def _store(blocks: BlockStore, address: str, content: Sequence[bytes]) -> bool:
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
