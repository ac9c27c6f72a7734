"""Bodies that can be sent again.

A service may refuse a request whose body was read already.  A list or tuple of chunks can be sent
again, and so can a `Rereadable`, which reads its chunks anew from a file.  A generator cannot:
`held` keeps its bytes, short ones in memory, long ones in a temporary file.  For drivers, wrappers
and whoever puts a file.
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
    """`size` bytes; `chunks` begins at the first of them whenever it is called.  One reader at a
    time."""

    def __init__(self, chunks: Callable[[], Iterator[bytes]], size: int) -> None:
        self._chunks = chunks
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks()


def of_path(path: Path) -> Rereadable:
    """The bytes of a file that nobody changes."""

    def chunks() -> Iterator[bytes]:
        with path.open("rb") as file:
            yield from _read(file)

    return Rereadable(chunks, path.stat().st_size)


def of_file(file: IO[bytes], size: int) -> Rereadable:
    """The first `size` bytes of an open file, which stays open."""

    def chunks() -> Iterator[bytes]:
        file.seek(0)
        yield from _read(file)

    return Rereadable(chunks, size)


@contextmanager
def held(body: Iterable[bytes]) -> Iterator[Sequence[bytes] | Rereadable]:
    """`body` as one that can be sent again; what was kept of it is gone afterwards.

    Raises what `body` raises, `StorageFull` or `Unavailable` if the temporary file fails.
    """
    if isinstance(body, Sequence | Rereadable):
        yield body
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as file:
        size = 0
        for chunk in body:
            with _kinds():
                file.write(chunk)
            size += len(chunk)
        yield of_file(file, size)


@contextmanager
def _kinds() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
        raise kind(f"keep a body to send it: {error.strerror}") from error


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(limits.chunk_length_bytes):
        yield chunk
