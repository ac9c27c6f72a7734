"""Where the files of tables lie: block storage, and before it a folder on the local disk.

Files are immutable and named by their content, so a copy never goes stale; only damage and removal
matter.  Everything durable is in block storage at `<namespace>/_lakefs/<id>`; the folder is a
cache that any process may share, and that may be deleted at any time.

A file enters the folder by rename, with the hash of its bytes behind them, and is checked when it
is opened.  Who has opened it can read it to the end, whoever evicts it meanwhile.  Whatever fails
the check is removed and fetched again.  For `sstable.py` and the assembly.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from graveler import limits
from graveler.block.adapter import CREATE, BlockStore
from graveler.committed.table import Source
from graveler.errors import AlreadyExists, Corrupt, NotFound, StorageFull, Unavailable

_CHECK_LENGTH = 32
_ABANDONED_SECONDS = 3_600
_HOT_SHARE = 4  # a file of which a quarter was read is fetched whole


class TableFiles(Protocol):
    """Files of tables by namespace and id."""

    def open(self, namespace: str, name: str) -> Source:
        """Raises `NotFound`."""
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

    def open(self, namespace: str, name: str) -> Source:
        return RemoteFile(self._blocks, file_address(namespace, name))

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        with _built(self._scratch, build) as path:
            _store(self._blocks, file_address(namespace, name), lambda: _chunks_of(path))

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> None:
        _store(self._blocks, file_address(namespace, name), lambda: content)


class TieredFiles:
    """A folder of at most `budget` bytes before block storage.

    A file is read by ranges from block storage until a quarter of it was wanted; then it is fetched
    whole.  What is written enters the folder at once."""

    def __init__(self, blocks: BlockStore, folder: Path, budget: int) -> None:
        self._blocks = blocks
        self._folder = folder
        self._budget = budget
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, namespace: str, name: str) -> Source:
        address = file_address(namespace, name)
        return self._opened(address) or _WarmingFile(RemoteFile(self._blocks, address), self)

    def add(self, namespace: str, name: str, build: Callable[[Path], None]) -> None:
        address = file_address(namespace, name)
        with _built(self._folder, build) as path:
            if not _store(self._blocks, address, lambda: _chunks_of(path)):
                return  # a copy of ours might have other blocks than the file that is stored
            with suppress(OSError):  # stored already: the copy is a matter of speed
                self._enter(path, address)

    def put(self, namespace: str, name: str, content: Sequence[bytes]) -> None:
        self.add(namespace, name, lambda path: _write(path, content))

    def fetch(self, address: str) -> "LocalFile | None":
        """The file as a local one, fetched whole if need be; None if the folder cannot hold it."""
        opened = self._opened(address)
        if opened is not None:
            return opened
        body = self._blocks.get(address)
        with suppress(OSError):  # the folder is full or gone: block storage still answers
            path = _scratch_path(self._folder)
            try:
                with path.open("wb") as file:
                    for chunk in body.chunks:
                        file.write(chunk)
                self._enter(path, address)
            finally:
                path.unlink(missing_ok=True)
        return self._opened(address)

    def _path(self, address: str) -> Path:
        return self._folder / f"{sha256(address.encode()).hexdigest()}.sst"

    def _opened(self, address: str) -> "LocalFile | None":
        path = self._path(address)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        file = LocalFile(descriptor, address)
        if not file.is_whole():
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            os.utime(path)  # recency for eviction
        return file

    def _enter(self, path: Path, address: str) -> None:
        size = path.stat().st_size
        if size > self._budget:
            return
        digest = sha256()
        for chunk in _chunks_of(path):
            digest.update(chunk)
        with path.open("ab") as file:
            file.write(digest.digest())
        self._evict(size)
        path.replace(self._path(address))

    def _evict(self, coming: int) -> None:
        """Make room: the longest unused go first.  Half-written files are left alone unless their
        writer must be dead."""
        found: list[tuple[float, int, Path]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    found.append((stat.st_mtime, stat.st_size, Path(entry.path)))
        newest = max((mtime for mtime, _, _ in found), default=0.0)
        spent = coming
        for mtime, size, path in sorted(found, reverse=True):
            if path.suffix != ".sst":
                if newest - mtime > _ABANDONED_SECONDS:
                    path.unlink(missing_ok=True)
                continue
            spent += size
            if spent > self._budget:
                path.unlink(missing_ok=True)


class RemoteFile:
    """A file in block storage, read by ranges."""

    def __init__(self, blocks: BlockStore, address: str) -> None:
        self._blocks = blocks
        self.name = address
        self._size = blocks.head(address).size

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        raw = self._blocks.read(self.name, offset, length)
        return _exactly(raw, length, self.name)


class LocalFile:
    """A file of the folder, open: it stays readable when it is evicted."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self.name = name
        self._size = os.fstat(descriptor).st_size - _CHECK_LENGTH

    def __del__(self) -> None:
        os.close(self._descriptor)

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        if offset + length > self._size:
            raise Corrupt(f"table is shorter than its index says: table={self.name}")
        return _exactly(os.pread(self._descriptor, length, offset), length, self.name)

    def is_whole(self) -> bool:
        """Whether the bytes still are what was stored."""
        if self._size < 0:
            return False
        digest = sha256()
        for offset in range(0, self._size, limits.chunk_length_bytes):
            length = min(limits.chunk_length_bytes, self._size - offset)
            digest.update(os.pread(self._descriptor, length, offset))
        return digest.digest() == os.pread(self._descriptor, _CHECK_LENGTH, self._size)


class _WarmingFile:
    """Read by ranges until it is hot, from then on local."""

    def __init__(self, remote: RemoteFile, files: TieredFiles) -> None:
        self._source: Source = remote
        self._files = files
        self._wanted = 0
        self.name = remote.name

    def size(self) -> int:
        return self._source.size()

    def read(self, offset: int, length: int) -> bytes:
        if self._wanted >= 0:
            self._wanted += length
            if offset + length < self.size() and self._wanted * _HOT_SHARE > self.size():
                self._wanted = -1
                self._source = self._files.fetch(self.name) or self._source
        return self._source.read(offset, length)


def _store(blocks: BlockStore, address: str, content: Callable[[], Iterable[bytes]]) -> bool:
    """Whether the file was not there before.

    One that was is written again with the bytes that it has: garbage collection deletes a file
    only as the version that it saw, and must see that somebody needs this one anew."""
    for _ in range(limits.conditional_round_count_max):
        with suppress(AlreadyExists):
            blocks.put(address, content(), CREATE)
            return True
        with suppress(NotFound):  # collected in between
            blocks.copy(address, address)
            return False
    raise Unavailable(f"write a table: it keeps coming and going: table={address}")


@contextmanager
def _built(folder: Path, build: Callable[[Path], None]) -> Iterator[Path]:
    """A file of its own that `build` has written; it is gone afterwards."""
    with _kinds():
        path = _scratch_path(folder)
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


def _scratch_path(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(suffix=".part", dir=folder)
    os.close(descriptor)
    return Path(name)


def _write(path: Path, content: Sequence[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(content)


def _chunks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(limits.chunk_length_bytes):
            yield chunk


def _exactly(raw: bytes, length: int, name: str) -> bytes:
    if len(raw) != length:
        raise Corrupt(f"table is shorter than its index says: table={name}")
    return raw
