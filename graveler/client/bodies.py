"""The body of an upload: it is counted and digested while it is sent, and compared with what was
stored.

    pieces ──► held until the next one comes ──► sent ──► digested, while the receiver works

A receiver gets the last piece only after all checks of the content.  The checksum of a small body
costs no time before it is sent.  For this package.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from graveler.client.crc32c import Crc32c
from graveler.client.digest import Digest
from graveler.errors import Corrupt, Invalid

_MD5: Final = re.compile(r"[0-9a-fA-F]{32}")
_ENCRYPTION: Final = "x-amz-server-side-encryption"
_OTHER_ETAGS: Final = (
    f"{_ENCRYPTION}-customer-algorithm",
    "x-goog-encryption-algorithm",
    "x-goog-encryption-kms-key-name",
)
NO_HEADERS: Final[Mapping[str, str]] = {}
_EXPRESS: Final = "s3express"  # directory buckets of S3: their ETags are no MD5


class UploadBody:
    """The pieces of an upload to `path`, to be sent in a `with` block, or closed.

    `length`: how many bytes they must have in all, or -1.  A wrong length raises `Invalid` before
    the last piece is handed out: so the receiver never has a body that looks whole.  `ended`: all
    pieces were handed out.  If the pieces are iterated again, count and checksum begin anew.
    `by_crc32c`: the checksum is a CRC32C, not the MD5.
    """

    def __init__(
        self, path: str, pieces: Iterable[bytes], length: int = -1, *, by_crc32c: bool = False
    ) -> None:
        self._path, self._pieces, self._length = path, pieces, length
        self._by_crc32c = by_crc32c
        self._digest = self._new_digest()
        self._is_fresh = True
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
        self._begin()
        return self._whole() if self._length >= 0 else self._as_they_come()

    def checksum(self) -> str:
        """The checksum of the pieces that were handed out; no more may follow.  An MD5 is in hex
        digits, a CRC32C as headers have it."""
        digest = self._digest
        return digest.text() if isinstance(digest, Crc32c) else digest.hexdigest()

    def check(self, stored: str, remedy: str) -> None:
        """Compare with the checksum of what was stored.  A text that is no MD5 is not compared with
        one, nor is an empty one.  `remedy`: what to do.  Raises `Corrupt`."""
        _compare(self._path, self.checksum, stored if self._by_crc32c else _md5(stored), remedy)

    def _begin(self) -> None:
        if not self._is_fresh:
            self.close()
            self._digest, self.ended = self._new_digest(), False
        self._is_fresh = False

    def _new_digest(self) -> Digest | Crc32c:
        return Crc32c() if self._by_crc32c else Digest(self._length)

    def _as_they_come(self) -> Iterator[bytes]:
        for piece in filter(None, self._pieces):
            yield piece
            self._digest.update(piece)
        self.ended = True

    def _whole(self) -> Iterator[bytes]:
        held, length = b"", 0
        for piece in filter(None, self._pieces):
            length += len(piece)
            if length > self._length:
                break
            if held:
                yield held
                self._digest.update(held)
            held = piece
        if length != self._length:
            raise Invalid(
                f"the content changed while it was uploaded: it had {self._length:,} bytes"
            )
        if held:
            yield held
            self._digest.update(held)
        self.ended = True


def compare_md5(path: str, sent: str, stored: str, remedy: str) -> None:
    """As `UploadBody.check`, with the MD5 of what was sent."""
    _compare(path, lambda: sent, _md5(stored), remedy)


def _compare(path: str, checksum: Callable[[], str], stored: str, remedy: str) -> None:
    """Raises `Corrupt` if something is known of what was stored, and it is not the checksum."""
    if stored and stored != (sent := checksum()):
        raise Corrupt(
            f"other bytes were stored than were sent: {path=!s} {sent=} {stored=!s}; {remedy}"
        )


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
    return headers.get("ETag", "").strip('"')


def _md5(checksum: str) -> str:
    return checksum.lower() if _MD5.fullmatch(checksum) else ""
