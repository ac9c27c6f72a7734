"""Request bodies that can be sent more than once.

A service may refuse a request after its body was read, so a retry must send the body again.  A list
or tuple of chunks can be sent again, and so can a `Rereadable`, which reads a file again.  A
generator cannot: `held` keeps the chunks that were read of it, a few in memory, more in a temporary
file.  For drivers, wrappers and callers that put a file.
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
    """A body whose `chunks` begins at the first byte at every call.  Only one reader at a time."""

    def __init__(self, chunks: Callable[[], Iterator[bytes]]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks()


def of_path(path: Path) -> Rereadable:
    """The bytes of a file, which must not change."""

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from _read(file)

    return Rereadable(chunks)


def of_file(file: IO[bytes]) -> Rereadable:
    """The bytes of an open file, which must not change and must stay open."""

    def chunks() -> Iterator[bytes]:
        file.seek(0)
        yield from _read(file)

    return Rereadable(chunks)


@contextmanager
def held(
    body: Iterable[bytes], memory_bytes_max: int = _IN_MEMORY_BYTES
) -> Iterator[Sequence[bytes] | Rereadable]:
    """A body with the bytes of `body` that can be sent again, until the end of the block.

    `body` is read only as far as the result is read.  Reading the result raises the errors of
    `body`, and `StorageFull` or `Unavailable` if the temporary file fails.  `memory_bytes_max`: how
    much of a stream is kept in memory.
    """
    if isinstance(body, Sequence | Rereadable):
        yield body
        return
    with tempfile.SpooledTemporaryFile(max_size=memory_bytes_max) as file:
        yield Kept(body, file)


class Kept(Rereadable):
    """A stream whose bytes are kept in a file as they are read."""

    def __init__(self, body: Iterable[bytes], file: "tempfile.SpooledTemporaryFile[bytes]") -> None:
        super().__init__(self._from_start)
        self._rest = iter(body)
        self._file = file
        self._size = 0
        self._broken: list[BaseException] = []

    def whole(self) -> "tempfile.SpooledTemporaryFile[bytes]":
        """The file with all bytes, at the first one.  The stream is read to its end before."""
        for _ in self._further():
            pass
        self._file.seek(0)
        return self._file

    def _from_start(self) -> Iterator[bytes]:
        """The kept bytes, then the rest of the stream."""
        offset = 0
        while offset < self._size:
            self._file.seek(offset)
            chunk = self._file.read(min(limits.chunk_length_bytes, self._size - offset))
            offset += len(chunk)
            yield chunk
        yield from self._further()

    def _further(self) -> Iterator[bytes]:
        """The rest of the stream.  If the stream fails, every later reader gets the same error."""
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
