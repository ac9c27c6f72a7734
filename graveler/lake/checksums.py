"""Checksums of transfers: what is sent or received is compared with what the server stored.

The MD5 of many bytes is computed by a second thread, while the transfer goes on.  CRC32C (RFC 3720,
appendix B.4) takes its place where a server tells it: it is computed at twenty times the speed.
"""

import queue
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import md5
from types import TracebackType
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from graveler.core.errors import Corrupt, Invalid

CRC32C_HEADER: Final = "x-amz-checksum-crc32c"  # as S3 says it
CRC32C_BYTES_MIN: Final = 4 << 20  # below, the MD5 takes some milliseconds
NO_HEADERS: Final[Mapping[str, str]] = {}
_CRC32C: Final = re.compile(r"[A-Za-z0-9+/]{6}==")
_MD5: Final = re.compile(r"[0-9a-fA-F]{32}")
_ENCRYPTION: Final = "x-amz-server-side-encryption"
_OTHER_ETAGS: Final = (
    f"{_ENCRYPTION}-customer-algorithm",
    "x-goog-encryption-algorithm",
    "x-goog-encryption-kms-key-name",
)
_EXPRESS: Final = "s3express"  # directory buckets of S3: their ETags are no MD5
_THREAD_BYTES_MIN: Final = 4 << 20
_AHEAD: Final = 16  # pieces that wait for the thread
_BUFFER_BYTES: Final = 1 << 17  # the system takes longer for writes of more, if memory is full
_BUFFER_BYTES_MIN: Final = 1 << 12
_Item: TypeAlias = tuple[bytes | memoryview, memoryview | None]


class Pipeline:
    """Calls `use` with pieces, in their order; about `length` bytes in all: if they are many, in a
    second thread, and through buffers that are used again.  Use it in a `with` block, which ends
    its thread.  After an error of `use` it is not called again.  Ctrl-C in the main thread may
    leave the thread behind, so use it there only if the process ends then."""

    def __init__(self, use: Callable[[bytes | memoryview], object], length: int) -> None:
        self._use = use
        self._error: BaseException | None = None
        # One more than the last byte, but not few: the content may be longer than it was said.
        self._buffer_bytes = min(max(length + 1, _BUFFER_BYTES_MIN), _BUFFER_BYTES)
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self._buffers_left = 1  # that are not made yet
        self._queue: queue.Queue[_Item | None] | None = None
        self._thread: threading.Thread | None = None
        if length >= _THREAD_BYTES_MIN:
            self._buffers_left = _AHEAD
            self._queue = queue.Queue(_AHEAD)
            self._thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
            self._thread.start()

    def add(self, piece: bytes | memoryview, buffer: memoryview | None = None) -> None:
        """Use a piece, now or later.  `buffer`: for this class.  Raises the error of `use`, also
        for an earlier piece."""
        self._check()
        if self._queue is not None:
            self._queue.put((piece, buffer))
        else:
            self._try(piece, buffer)
            self._check()

    def take(self, read_into: Callable[[memoryview], int]) -> memoryview:
        """Add the bytes that `read_into` puts into a buffer, and return them; none at the end.
        They are valid until the next call.  Raises what `add` raises, before it reads."""
        self._check()
        buffer = self._buffer()
        try:
            piece = buffer[: read_into(buffer)]
        except BaseException:
            self._free.put(buffer)
            raise
        self.add(piece, buffer)
        return piece

    def close(self) -> None:
        """End the thread, after all pieces.  Raises the error of `use`."""
        self._end()
        self._check()

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._end()
        if kind is None:
            self._check()

    def _end(self) -> None:
        if self._thread is not None and self._queue is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = self._queue = None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _buffer(self) -> memoryview:
        """A buffer that is free, if need be after the thread is done with one."""
        if self._buffers_left and self._free.empty():
            self._buffers_left -= 1
            return memoryview(bytearray(self._buffer_bytes))
        return self._free.get()

    def _run(self) -> None:
        waiting = self._queue
        assert waiting is not None
        while (item := waiting.get()) is not None:
            self._try(*item)

    def _try(self, piece: bytes | memoryview, buffer: memoryview | None) -> None:
        try:
            if self._error is None:
                self._use(piece)
        except BaseException as error:  # the caller raises it
            self._error = error
        if buffer is not None:
            self._free.put(buffer)


class Digest(Pipeline):
    """The MD5 of about `length` bytes."""

    def __init__(self, length: int) -> None:
        self._md5 = md5(usedforsecurity=False)
        super().__init__(self._md5.update, length)

    def __enter__(self) -> "Digest":
        return self

    def hexdigest(self) -> str:
        """The MD5 of all bytes; no more may follow."""
        self.close()
        return self._md5.hexdigest()


class Crc32c:
    """A CRC32C."""

    def __init__(self) -> None:
        from graveler.core import identity  # here, because few commands need the library

        self._extended = identity.extended
        self._value = 0

    def add(self, piece: bytes | memoryview) -> None:
        """Add bytes."""
        self._value = self._extended(self._value, bytes(piece))  # the library takes no view

    def text(self) -> str:
        """The value as headers have it."""
        return b64encode(self._value.to_bytes(4, "big")).decode()


def crc32c_is_fast() -> bool:
    """Whether a CRC32C is computed faster than the MD5 here."""
    from graveler.core import identity

    return identity.IS_FAST


# ---- bodies of uploads ---------------------------------------------------------------------------


class UploadBody:
    """The pieces of an upload to `path`, to be sent in a `with` block, or closed.

    `length`: how many bytes they must have in all, or -1.  A wrong length raises `Invalid` before
    the last piece is handed out: so the receiver never has a body that looks whole.  `ended`: all
    pieces were handed out.  `by_crc32c`: the checksum is a CRC32C, not the MD5."""

    def __init__(
        self, path: str, pieces: Iterable[bytes], length: int = -1, *, by_crc32c: bool = False
    ) -> None:
        self._path, self._pieces, self._length = path, pieces, length
        self._digest = Crc32c() if by_crc32c else Digest(length)
        self.ended = False

    def __enter__(self) -> "UploadBody":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread of the checksum, if there is one."""
        if isinstance(self._digest, Digest):
            self._digest.close()

    def __iter__(self) -> Iterator[bytes]:
        pieces = filter(None, self._pieces)
        for piece in self._whole(pieces) if self._length >= 0 else pieces:
            yield piece
            self._digest.add(piece)  # while the receiver works
        self.ended = True

    def checksum(self) -> str:
        """The checksum of the pieces that were handed out; no more may follow.  An MD5 is in hex
        digits, a CRC32C as headers have it."""
        digest = self._digest
        return digest.text() if isinstance(digest, Crc32c) else digest.hexdigest()

    def check(self, stored: str, remedy: str) -> None:
        """Compare with the checksum of what was stored.  A text that is no MD5 is not compared with
        one, nor is an empty one.  `remedy`: what to do.  Raises `Corrupt`."""
        known = stored if isinstance(self._digest, Crc32c) else _md5(stored)
        if known:
            _compare(self._path, self.checksum(), known, remedy)

    def _whole(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, each after the next one has come."""
        held, length = b"", 0
        for piece in pieces:
            length += len(piece)
            if length > self._length:
                break
            if held:
                yield held
            held = piece
        if length != self._length:
            raise Invalid(
                f"the content changed while it was uploaded: it had {self._length:,} bytes"
            )
        if held:
            yield held


def compare_md5(path: str, sent: str, stored: str, remedy: str) -> None:
    """As `UploadBody.check`, with the MD5 of what was sent."""
    if known := _md5(stored):
        _compare(path, sent, known, remedy)


def _compare(path: str, sent: str, stored: str, remedy: str) -> None:
    if stored != sent:
        raise Corrupt(
            f"other bytes were stored than were sent: {path=!s} {sent=} {stored=!s}; {remedy}"
        )


# ---- checksums in answers ------------------------------------------------------------------------


def crc32c_of(headers: Mapping[str, str]) -> str:
    """The CRC32C of a whole object in the headers of an answer; empty if there is none."""
    value = headers.get(CRC32C_HEADER, "")
    return value if _CRC32C.fullmatch(value) else ""


def md5_of(url: str, headers: Mapping[str, str]) -> str:
    """The MD5 in the ETag of an object store's answer to a PUT, or nothing.  `url`: of the request.

    ETags of objects in parts, or encrypted by a key of KMS or of the customer, are no MD5, though
    those of encrypted objects may look like one."""
    is_other = _is_encrypted(headers) or _EXPRESS in urlsplit(url).netloc
    return "" if is_other else _md5(etag(headers))


def expected_md5(checksum: str, headers: Mapping[str, str] = NO_HEADERS) -> str:
    """The MD5 that the bytes of an object must have, or nothing if none is known.

    `checksum`: of the object, as the server describes it.  `headers`: of the answer with the bytes.
    The checksum may be the ETag that an import found; if that of an encrypted object, it is no MD5.
    """
    return "" if _is_encrypted(headers) and etag(headers) == checksum else _md5(checksum)


def _is_encrypted(headers: Mapping[str, str]) -> bool:
    """Whether an object is encrypted so that its ETag is no MD5."""
    return headers.get(_ENCRYPTION, "AES256") != "AES256" or any(
        name in headers for name in _OTHER_ETAGS
    )


def etag(headers: Mapping[str, str]) -> str:
    """The ETag of an answer without its quotes; empty if there is none."""
    return headers.get("ETag", "").strip().strip('"')


def _md5(checksum: str) -> str:
    return checksum.lower() if _MD5.fullmatch(checksum) else ""
