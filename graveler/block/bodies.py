"""Request bodies that can be sent more than once.

A list or tuple of chunks can be sent again, and so can a `Rereadable`, which reads a file again.  A
generator cannot: `held` keeps the chunks that were read of it, a few in memory, more in a temporary
file.  A `Spool` takes a body that arrives over time, and is then put.  A `MeasuredBody` is counted
and hashed while it is put.
"""

import errno
import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Queue
from typing import IO, Final, Literal

from graveler.core import limits
from graveler.core.errors import StorageFull, Unavailable
from graveler.core.identity import IS_FAST, extended
from graveler.core.records import ABSENT, Absent

_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024
_SPOOL_IN_MEMORY_BYTES: Final = 512 * 1024
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Rereadable:
    """A body whose `chunks` begins at the first byte at every call.  Only one reader at a time."""

    def __init__(self, chunks: Callable[[], Iterator[bytes]]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks()


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
            self._broken.append(_failed(error))
            raise self._broken[0] from error
        self._size += len(chunk)


class Spool(Rereadable):
    """A body that arrives over time: each chunk is written and hashed, and then the spool is put.

    `size` and `crc32c` (ABSENT if it is slow here) are of the bytes that were written.  The driver
    that made a spool may keep its file as the object, instead of a copy.  `write`, `hash` and
    `close` may be called from different threads, one call of `write` and one of `hash` at a time.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(self._from_start)
        self.size = 0
        self.crc32c: int | Literal[Absent.ABSENT] = 0 if IS_FAST else ABSENT
        self._file = file
        self._lock = threading.Lock()  # a spool that is being written is not closed
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._hashed = 0

    def write(self, chunk: bytes) -> None:
        """Append a chunk.  Raises `StorageFull`, `Unavailable`."""
        with self._lock:
            try:
                self._append(chunk)
            except OSError as error:
                raise _failed(error) from error
            self.size += len(chunk)
            if self.crc32c is not ABSENT:
                self.crc32c = extended(self.crc32c, chunk)

    def hash(self, chunks: Iterable[bytes]) -> None:
        """Add the next chunks that were written to the checksum."""
        for chunk in chunks:
            self._md5.update(chunk)
            self._hashed += len(chunk)

    @property
    def checksum(self) -> str:
        """The MD5 of all bytes, in hex digits."""
        assert self._hashed == self.size, "every chunk was hashed"
        return self._md5.hexdigest()

    def whole(self) -> IO[bytes]:
        """The file, at its first byte."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Discard the file."""
        with self._lock, suppress(OSError):  # bytes in its buffer may find no room
            self._file.close()

    def _append(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            view = view[self._file.write(view) :]
        self._file.flush()  # a full disk refuses bytes here, not when they are sent

    def _from_start(self) -> Iterator[bytes]:
        offset = 0
        while offset < self.size:
            self._file.seek(offset)
            chunk = self._file.read(min(limits.chunk_length_bytes, self.size - offset))
            if not chunk:
                raise Unavailable(f"keep a body to send it: the file is too short: {offset=}")
            offset += len(chunk)
            yield chunk


def spool() -> Spool:
    """A spool in memory, and in a temporary file if it is long."""
    return Spool(tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY_BYTES))


def _failed(error: OSError) -> StorageFull | Unavailable:
    kind = StorageFull if error.errno in _FULL else Unavailable
    return kind(f"keep a body to send it: {error.strerror}")


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(limits.chunk_length_bytes):
        yield chunk


# ---- measured bodies -----------------------------------------------------------------------------

_INLINE_BYTES: Final = 1024 * 1024
_WAITING_COUNT_MAX: Final = 4  # chunks that the thread has not hashed
_END: Final = b""


class MeasuredBody:
    """A body that counts and hashes its bytes while a consumer reads it.  The hash is MD5, as in
    the etags of S3.

        chunks ──┬──► consumer: verifies, writes
                 └──► thread: MD5, for what comes after the first MiB

    MD5 takes longer than any other step of a large body, and hashing leaves the interpreter's lock
    to others.  So a thread of its own lets the body move at the speed of MD5 alone.

    Memory holds a few chunks more than the consumer does.  One reader at a time.  The thread ends
    with the iteration, also if the consumer stops early or the body fails.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._digest = hashlib.md5(usedforsecurity=False)
        self._waiting: Queue[bytes] | Literal[Absent.ABSENT] = ABSENT
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._chunks:
                self._add(chunk)
                yield chunk
        finally:
            waiting, self._waiting = self._waiting, ABSENT
            if waiting is not ABSENT:
                waiting.put(_END)
                waiting.join()

    @property
    def checksum(self) -> str:
        """The MD5, in hex digits, of the bytes read so far."""
        if self._waiting is not ABSENT:
            self._waiting.join()
        return self._digest.hexdigest()

    def _add(self, chunk: bytes) -> None:
        if self._waiting is ABSENT and self.size >= _INLINE_BYTES:
            self._begin()
        self.size += len(chunk)
        if self._waiting is ABSENT:
            self._digest.update(chunk)
        elif chunk:
            self._waiting.put(chunk)

    def _begin(self) -> None:
        """Start the thread.  If the system starts none, the reader goes on hashing."""
        waiting: Queue[bytes] = Queue(_WAITING_COUNT_MAX)
        thread = threading.Thread(target=self._hash, args=(waiting,), name="md5", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            self._waiting = waiting

    def _hash(self, waiting: "Queue[bytes]") -> None:
        is_ended = False
        while not is_ended:
            chunk = waiting.get()
            self._digest.update(chunk)
            is_ended = chunk == _END
            del chunk  # while the thread waits, it keeps no bytes alive
            waiting.task_done()
