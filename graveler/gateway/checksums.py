"""Checksums that clients send, of bodies and of objects that are uploaded in parts.

Content-MD5                     MD5, Base64
x-amz-checksum-<algorithm>      a header, or a trailer that x-amz-trailer announces; Base64
COMPOSITE, FULL_OBJECT          of the checksums of the parts; of all bytes
"""

import hashlib
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import google_crc32c
import xxhash

from graveler.core.records import ABSENT, Absent
from graveler.gateway.errors import S3Error
from graveler.http.answers import Headers
from graveler.http.checksums import GENERATORS, Crc64, crc_of_pieces
from graveler.refs.uploads import ChecksumRow

# ---- of bodies -----------------------------------------------------------------------------------

_PREFIX: Final = b"x-amz-checksum-"
_ELEMENT: Final = "Checksum"
# Headers with the prefix that hold no checksum.
_OTHERS: Final = frozenset((_PREFIX + b"algorithm", _PREFIX + b"mode", _PREFIX + b"type"))
_NAMED: Final = b"x-amz-sdk-checksum-algorithm"
_MD5: Final = "md5"


class Digest(Protocol):
    """A checksum of bytes that come in pieces."""

    def update(self, piece: bytes, /) -> None:
        """Add the next bytes."""
        ...

    def digest(self) -> bytes:
        """The checksum of the bytes so far."""
        ...


class _Crc:
    """A CRC, made by a function that continues one; `length` in bytes."""

    def __init__(self, extend: Callable[[int, bytes], int], length: int) -> None:
        self._extend = extend
        self._length = length
        self._crc = 0

    def update(self, piece: bytes, /) -> None:
        self._crc = self._extend(self._crc, piece)

    def digest(self) -> bytes:
        return self._crc.to_bytes(self._length, "big")


class _Algorithm(NamedTuple):
    length: int  # of the checksum, in bytes
    begin: Callable[[], Digest]


_ALGORITHMS: Final[Mapping[str, _Algorithm]] = {
    "crc32": _Algorithm(4, lambda: _Crc(lambda crc, piece: zlib.crc32(piece, crc), 4)),
    "crc32c": _Algorithm(4, lambda: _Crc(google_crc32c.extend, 4)),
    "crc64nvme": _Algorithm(8, Crc64),
    "sha1": _Algorithm(20, lambda: hashlib.sha1(usedforsecurity=False)),
    "sha256": _Algorithm(32, hashlib.sha256),
    "sha512": _Algorithm(64, hashlib.sha512),
    _MD5: _Algorithm(16, lambda: hashlib.md5(usedforsecurity=False)),
    "xxhash64": _Algorithm(8, xxhash.xxh64),
    "xxhash3": _Algorithm(8, xxhash.xxh3_64),
    "xxhash128": _Algorithm(16, xxhash.xxh3_128),
}
NAMES: Final = tuple(_ALGORITHMS)
# Headers that state the checksum of the body of a request.
OF_BODIES: Final = frozenset((_NAMED, *(_PREFIX + name.encode() for name in NAMES)))


class StatedChecksums(NamedTuple):
    """The checksums that a request states.

    `md5`: empty if there is none.  `algorithm`: empty if there is none; `digest`: empty if a
    trailer states it.
    """

    md5: bytes = b""
    algorithm: str = ""
    digest: bytes = b""

    @property
    def trailers(self) -> tuple[bytes, ...]:
        """The names of the trailers that the request announces."""
        announced = bool(self.algorithm) and not self.digest
        return (_PREFIX + self.algorithm.encode(),) if announced else ()


NO_CHECKSUMS: Final = StatedChecksums()


def expected(headers: Mapping[bytes, bytes], *, has_trailer: bool) -> StatedChecksums:
    """What the headers of a request state.

    `has_trailer`: the form of the body allows trailers.  Raises `S3Error` for a value that is no
    checksum, for two checksums and for an algorithm that is not served.  Pure.
    """
    md5 = b""
    if b"content-md5" in headers:
        decoded = _decoded(headers[b"content-md5"], _ALGORITHMS[_MD5].length)
        if decoded is ABSENT:
            raise S3Error("InvalidDigest")
        md5 = decoded
    announced = []
    if has_trailer:
        listed = headers.get(b"x-amz-trailer", b"").lower().split(b",")
        announced = [name.strip() for name in listed if name.strip()]
    stated = stated_names(headers)
    if not all(name.startswith(_PREFIX) for name in announced):
        raise S3Error("InvalidRequest", "The value specified in x-amz-trailer is not supported.")
    names = stated + announced
    if not names:
        return StatedChecksums(md5) if md5 else NO_CHECKSUMS
    _check_single(names)
    algorithm = _algorithm(names[0], headers.get(_NAMED, b""))
    if announced:
        return StatedChecksums(md5, algorithm)
    return StatedChecksums(md5, algorithm, parsed(algorithm, headers[names[0]]))


def stated_names(headers: Mapping[bytes, bytes]) -> list[bytes]:
    """The names of the headers that hold a checksum.  Pure."""
    return [name for name in headers if name.startswith(_PREFIX) and name not in _OTHERS]


def _check_single(names: Sequence[bytes]) -> None:
    if len(names) > 1:
        raise S3Error(
            "InvalidRequest",
            "Expecting a single x-amz-checksum- header. Multiple checksum types are not allowed.",
        )


def malformed(algorithm: str) -> S3Error:
    """The error for a header that holds no checksum."""
    return S3Error("InvalidRequest", f"Value for x-amz-checksum-{algorithm} header is invalid.")


class HeaderChecksum(NamedTuple):
    """A checksum in a header, as it was sent."""

    algorithm: str
    text: bytes


def single(headers: Mapping[bytes, bytes]) -> HeaderChecksum | Literal[Absent.ABSENT]:
    """The checksum in a header; `ABSENT` if there is none.  Raises `S3Error` for two, and for an
    algorithm that is not served.  Pure."""
    names = stated_names(headers)
    if not names:
        return ABSENT
    _check_single(names)
    return HeaderChecksum(_algorithm(names[0], headers.get(_NAMED, b"")), headers[names[0]])


def parsed(algorithm: str, text: bytes) -> bytes:
    """The bytes of a checksum in a header.  Raises `S3Error` for any other text.  Pure."""
    digest = _decoded(text, _ALGORITHMS[algorithm].length)
    if digest is ABSENT:
        raise malformed(algorithm)
    return digest


def digest_of(algorithm: str, raw: bytes) -> bytes:
    """The checksum of bytes.  Pure."""
    digest = _ALGORITHMS[algorithm].begin()
    digest.update(raw)
    return digest.digest()


def element_of(algorithm: str) -> str:
    """The name of the element that has such a checksum.  Pure."""
    return _ELEMENT + algorithm.upper()


def algorithm_of(header: bytes) -> str:
    """The algorithm of a header `x-amz-checksum-*` of an answer.  Pure."""
    return header[len(_PREFIX) :].decode("latin-1")


def stated_by(element: str) -> str | Literal[Absent.ABSENT]:
    """The algorithm of an element of a part in the document of a completion; `ABSENT` for an
    element that states no checksum.  Raises `S3Error` for an algorithm that is not served.  Pure.
    """
    if not element.startswith(_ELEMENT):
        return ABSENT
    algorithm = element[len(_ELEMENT) :].lower()
    if algorithm not in _ALGORITHMS:
        raise _unknown_algorithm()
    return algorithm


def _unknown_algorithm() -> S3Error:
    return S3Error(
        "NotImplemented", f"The checksum algorithm is not supported; use one of {', '.join(NAMES)}."
    )


def _algorithm(header: bytes, named: bytes) -> str:
    """The algorithm of a header or a trailer.  Raises `S3Error` if it is unknown, or if the request
    names another one."""
    algorithm = algorithm_of(header)
    if algorithm not in _ALGORITHMS:
        raise _unknown_algorithm()
    if named and named.decode("latin-1").lower() != algorithm:
        raise S3Error(
            "InvalidRequest",
            "Value for x-amz-sdk-checksum-algorithm header is invalid: the checksum that was sent "
            "is of another algorithm.",
        )
    return algorithm


def _decoded(text: bytes, length: int) -> bytes | Literal[Absent.ABSENT]:
    """The bytes of a checksum; `ABSENT` for any other text."""
    try:
        digest = b64decode(text, validate=True)
    except Base64Error:
        return ABSENT
    return digest if len(digest) == length and b64encode(digest) == text else ABSENT


def differs(algorithm: str) -> S3Error:
    """The error for a checksum that is not that of the bytes."""
    return S3Error(
        "BadDigest", f"The {algorithm.upper()} you specified did not match the calculated checksum."
    )


class Checks:
    """Computes what a request states, and compares it at the end."""

    def __init__(self, expected: StatedChecksums) -> None:
        self._expected = expected
        self._md5 = _ALGORITHMS[_MD5].begin() if expected.md5 else ABSENT
        algorithm = expected.algorithm
        self._digest = _ALGORITHMS[algorithm].begin() if algorithm else ABSENT

    def update(self, piece: bytes) -> None:
        """Add the next bytes of the body."""
        if self._md5 is not ABSENT:
            self._md5.update(piece)
        if self._digest is not ABSENT:
            self._digest.update(piece)

    def finish(self, trailers: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
        """Compare all checksums; `trailers`: those of the body, by name.  The result is the headers
        of the answer that repeat what was verified.  Raises `S3Error`."""
        expected = self._expected
        if self._md5 is not ABSENT and self._md5.digest() != expected.md5:
            raise S3Error(
                "BadDigest", "The Content-MD5 you specified did not match what we received."
            )
        if self._digest is ABSENT:
            return ()
        name = _PREFIX + expected.algorithm.encode()
        digest: bytes | Literal[Absent.ABSENT] = expected.digest
        if not expected.digest:
            digest = _decoded(trailers[name], _ALGORITHMS[expected.algorithm].length)
            if digest is ABSENT:
                raise S3Error(
                    "InvalidRequest", f"Value for {name.decode()} trailing header is invalid."
                )
        if self._digest.digest() != digest:
            raise differs(expected.algorithm)
        return ((name, b64encode(digest)),)


# ---- of objects in parts -------------------------------------------------------------------------

COMPOSITE: Final = "COMPOSITE"
FULL_OBJECT: Final = "FULL_OBJECT"
_ALGORITHM_HEADER: Final = b"x-amz-checksum-algorithm"
_TYPE_HEADER: Final = b"x-amz-checksum-type"
# S3 has it of whole objects only.
_NEVER_COMPOSITE: Final = "crc64nvme"
_COUNT_DIGITS_MAX: Final = len("10000")


class AnnouncedChecksum(NamedTuple):
    """What the request that begins an upload says of checksums; both empty if it says nothing."""

    algorithm: str = ""  # in lower case
    type: str = ""

    @property
    def whole(self) -> str:
        """The algorithm of a checksum of all bytes; empty if none is announced."""
        return self.algorithm if self.type == FULL_OBJECT else ""

    @property
    def headers(self) -> Headers:
        """The headers of the answer."""
        if not self.algorithm:
            return ()
        algorithm = self.algorithm.upper().encode()
        return ((_ALGORITHM_HEADER, algorithm), (_TYPE_HEADER, self.type.encode()))


def announced(headers: Mapping[bytes, bytes]) -> AnnouncedChecksum:
    """What a CreateMultipartUpload announces.

    Raises `S3Error`: for a type without an algorithm, for two that do not go together, and for a
    header with a checksum, which is not compared there and so is not passed over.
    """
    if stated_names(headers):
        raise S3Error(
            "NotImplemented",
            "not implemented: a checksum in CreateMultipartUpload; send the checksum of the object "
            "in CompleteMultipartUpload",
        )
    algorithm, type = headers.get(_ALGORITHM_HEADER, b"").decode("latin-1").lower(), _type(headers)
    if not algorithm and not type:
        return AnnouncedChecksum()
    if not algorithm:
        raise S3Error(
            "InvalidRequest",
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm "
            "header.",
        )
    if algorithm not in NAMES:
        valid = ", ".join(NAMES).upper()
        raise S3Error(
            "InvalidRequest",
            "Checksum algorithm provided is unsupported. Please try again with any of the valid "
            f"types: [{valid}]",
        )
    type = type or (FULL_OBJECT if algorithm == _NEVER_COMPOSITE else COMPOSITE)
    _check_together(algorithm, type)
    return AnnouncedChecksum(algorithm, type)


class StatedChecksum(NamedTuple):
    """What a CompleteMultipartUpload states of the checksum of the object.

    `algorithm`: empty if there is none.  `type`: empty if there is none.  `part_count`: if it is
    stated.
    """

    type: str = ""
    algorithm: str = ""
    digest: bytes = b""
    part_count: int | Literal[Absent.ABSENT] = ABSENT

    def of_upload(self, whole: str) -> "StatedChecksum":
        """The same with the type that it has for an upload; empty if nothing is stated or computed.

        `whole`: see `AnnouncedChecksum`.  Raises `S3Error` if another type or algorithm was
        announced.
        """
        if whole and self.type == COMPOSITE:
            raise S3Error(
                "InvalidRequest",
                "The upload was created using the FULL_OBJECT checksum mode. The complete request "
                "must use the same checksum mode.",
            )
        if whole and self.algorithm not in (whole, ""):
            raise S3Error(
                "InvalidRequest",
                f"Checksum Type mismatch occurred, expected checksum Type: {whole}, actual "
                f"checksum Type: {self.algorithm}",
            )
        type = self.type
        if not type and (whole or self.algorithm == _NEVER_COMPOSITE):
            type = FULL_OBJECT
        if not type and self.algorithm:
            type = COMPOSITE
        if type == FULL_OBJECT and self.part_count is not ABSENT:
            raise malformed(self.algorithm)
        return self._replace(type=type)

    def check(self, parts: Sequence[ChecksumRow]) -> str:
        """Compare it with the checksums of the parts; it has the type of its upload.  The result is
        its text, as S3 writes it.  Raises `S3Error` if it differs."""
        assert self.algorithm and self.type
        if self.type == FULL_OBJECT:
            whole = whole_checksum(self.algorithm, parts)
            if whole is ABSENT:  # of a part that an older release stored
                raise S3Error("InvalidPart")
            if whole != self.digest:
                raise differs(self.algorithm)
            return b64encode(whole).decode()
        digests = b"".join(b64decode(row.checksum.text) for row in parts)
        together = digest_of(self.algorithm, digests)
        if self.digest != together or self.part_count not in (len(parts), ABSENT):
            raise differs(self.algorithm)
        return f"{b64encode(together).decode()}-{len(parts)}"


def stated(headers: Mapping[bytes, bytes]) -> StatedChecksum:
    """The checksum that a completion states: `<Base64>`, or `<Base64>-<number of parts>` of a
    composite one, which some clients write without the number.

    Raises `S3Error` for a type that the algorithm does not have, for an algorithm that is not
    served, and for a text that is no checksum.
    """
    type, named = _type(headers), single(headers)
    if named is ABSENT:
        return StatedChecksum(type)
    if type:
        _check_together(named.algorithm, type)
    text, dash, number = named.text.partition(b"-")
    is_number = number.isdigit() and len(number) <= _COUNT_DIGITS_MAX
    if dash and not is_number:
        raise malformed(named.algorithm)
    digest = parsed(named.algorithm, text)
    return StatedChecksum(type, named.algorithm, digest, int(number) if dash else ABSENT)


def whole_checksum(algorithm: str, parts: Sequence[ChecksumRow]) -> bytes | Literal[Absent.ABSENT]:
    """The CRC of all bytes of the parts; `ABSENT` if the size of a part is not known."""
    generator = GENERATORS[algorithm]
    pieces = []
    for row in parts:
        if row.size is ABSENT:
            return ABSENT
        pieces.append((int.from_bytes(b64decode(row.checksum.text), "big"), row.size))
    return crc_of_pieces(generator, pieces).to_bytes(generator.width // 8, "big")


def _type(headers: Mapping[bytes, bytes]) -> str:
    type = headers.get(_TYPE_HEADER, b"").decode("latin-1")
    if type not in (COMPOSITE, FULL_OBJECT, ""):
        raise S3Error("InvalidRequest", "Value for x-amz-checksum-type header is invalid.")
    return type


def _check_together(algorithm: str, type: str) -> None:
    exists = algorithm in GENERATORS if type == FULL_OBJECT else algorithm != _NEVER_COMPOSITE
    if not exists:
        raise S3Error(
            "InvalidRequest",
            f"The {type} checksum type cannot be used with the {algorithm} checksum algorithm.",
        )
