"""Checksums of objects that are uploaded in parts: announced at the beginning, stated at the end.

    CreateMultipartUpload     x-amz-checksum-algorithm, x-amz-checksum-type
    CompleteMultipartUpload   x-amz-checksum-<algorithm>, x-amz-checksum-type

    COMPOSITE      the checksum of the checksums of the parts    every algorithm but CRC64NVME
    FULL_OBJECT    the checksum of all bytes                     the CRCs

Both follow from the checksums that arrived with the parts and were verified, so no byte is read
again.  Pure.  For uploads.py.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler.api.answers import Headers
from graveler.gateway import checksums, joined_crc
from graveler.gateway.errors import S3Error
from graveler.gateway.joined_crc import GENERATORS
from graveler.records import ABSENT, Absent
from graveler.refs.tokens.part_checksums import ChecksumRow

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
    if checksums.stated_names(headers):
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
    if algorithm not in checksums.NAMES:
        valid = ", ".join(checksums.NAMES).upper()
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
            raise checksums.malformed(self.algorithm)
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
                raise checksums.differs(self.algorithm)
            return b64encode(whole).decode()
        digests = b"".join(b64decode(row.checksum.text) for row in parts)
        together = checksums.digest_of(self.algorithm, digests)
        if self.digest != together or self.part_count not in (len(parts), ABSENT):
            raise checksums.differs(self.algorithm)
        return f"{b64encode(together).decode()}-{len(parts)}"


def stated(headers: Mapping[bytes, bytes]) -> StatedChecksum:
    """The checksum that a completion states: `<Base64>`, or `<Base64>-<number of parts>` of a
    composite one, which some clients write without the number.

    Raises `S3Error` for a type that the algorithm does not have, for an algorithm that is not
    served, and for a text that is no checksum.
    """
    type, named = _type(headers), checksums.single(headers)
    if named is ABSENT:
        return StatedChecksum(type)
    if type:
        _check_together(named.algorithm, type)
    text, dash, number = named.text.partition(b"-")
    is_number = number.isdigit() and len(number) <= _COUNT_DIGITS_MAX
    if dash and not is_number:
        raise checksums.malformed(named.algorithm)
    digest = checksums.parsed(named.algorithm, text)
    return StatedChecksum(type, named.algorithm, digest, int(number) if dash else ABSENT)


def whole_checksum(algorithm: str, parts: Sequence[ChecksumRow]) -> bytes | Literal[Absent.ABSENT]:
    """The CRC of all bytes of the parts; `ABSENT` if the size of a part is not known."""
    generator = GENERATORS[algorithm]
    pieces = []
    for row in parts:
        if row.size is ABSENT:
            return ABSENT
        pieces.append((int.from_bytes(b64decode(row.checksum.text), "big"), row.size))
    return joined_crc.joined(generator, pieces).to_bytes(generator.width // 8, "big")


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
