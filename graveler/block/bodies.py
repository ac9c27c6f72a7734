"""Bodies that can be sent again.

A service may refuse a request whose body was read already.  A list or tuple of chunks can be sent
again, and so can a `Rereadable`, which reads its chunks anew from a file.  A generator cannot:
`held` keeps what was read of it, up to 8 MiB in memory, more in a temporary file.  For drivers,
wrappers and whoever puts a file.
"""

import errno
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from graveler import limits
from graveler.errors import StorageFull, Unavailable

_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


class Rereadable:
    """A body whose `chunks` begins at the first byte whenever it is called.  One reader at a
    time."""

    def __init__(self, chunks: Callable[[], Iterator[bytes]]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks()


def of_path(path: Path) -> Rereadable:
    """The bytes of a file that nobody changes."""

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from _read(file)

    return Rereadable(chunks)


def of_file(file: IO[bytes]) -> Rereadable:
    """The bytes of an open file that nobody changes, and that stays open."""

    def chunks() -> Iterator[bytes]:
        file.seek(0)
        yield from _read(file)

    return Rereadable(chunks)


@contextmanager
def held(body: Iterable[bytes]) -> Iterator[Sequence[bytes] | Rereadable]:
    """`body` as one that can be sent again; what was kept of it is gone afterwards.

    Nothing of it is read before somebody reads the result, which raises what `body` raises, and
    `StorageFull` or `Unavailable` if the temporary file fails.
    """
    if isinstance(body, Sequence | Rereadable):
        yield body
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as file:
        kept = _Kept(body, file)
        yield Rereadable(kept.chunks)


class _Kept:
    """A stream that is kept in a file as far as it was read."""

    def __init__(self, body: Iterable[bytes], file: "tempfile.SpooledTemporaryFile[bytes]") -> None:
        self._rest = iter(body)
        self._file = file
        self._size = 0
        self._broken: list[BaseException] = []

    def chunks(self) -> Iterator[bytes]:
        """What was kept, then the rest.  A stream that broke off breaks off for every reader."""
        offset = 0
        while offset < self._size:
            self._file.seek(offset)
            chunk = self._file.read(min(limits.chunk_length_bytes, self._size - offset))
            offset += len(chunk)
            yield chunk
        if self._broken:
            raise self._broken[0]
        while True:
            try:
                chunk = next(self._rest)
            except StopIteration:
                return
            except BaseException as error:
                self._broken.append(error)
                raise
            self._keep(chunk)
            yield chunk

    def _keep(self, chunk: bytes) -> None:
        try:
            self._file.seek(self._size)
            self._file.write(chunk)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            kind = StorageFull if full else Unavailable
            self._broken.append(kind(f"keep a body to send it: {error.strerror}"))
            raise self._broken[0] from error
        self._size += len(chunk)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(limits.chunk_length_bytes):
        yield chunk
