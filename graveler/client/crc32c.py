"""The CRC32C of bytes that are on their way, in place of their MD5 where a server tells it.

It is computed at twenty times the speed of the MD5, so a transfer does not wait for it.  It finds
bytes that changed on their way or on the disk.  CRC32C: RFC 3720, appendix B.4.  For this package,
and for commands that transfer objects.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

HEADER: Final = "x-amz-checksum-crc32c"  # as S3 says it
BYTES_MIN: Final = 4 << 20  # below, the MD5 takes some milliseconds
_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{6}==")


class Crc32c:
    """A CRC32C."""

    def __init__(self) -> None:
        from graveler import crc32c  # here, because few commands need the library

        self._extended = crc32c.extended
        self._value = 0

    def update(self, piece: bytes | memoryview) -> None:
        """Add bytes."""
        self._value = self._extended(self._value, bytes(piece))  # the library takes no view

    def text(self) -> str:
        """The value as headers have it."""
        return b64encode(self._value.to_bytes(4, "big")).decode()


def is_fast() -> bool:
    """Whether it is computed faster than the MD5 here."""
    from graveler import crc32c

    return crc32c.IS_FAST


def told(headers: Mapping[str, str]) -> str:
    """The checksum of a whole object in the headers of an answer; empty if there is none."""
    value = headers.get(HEADER, "")
    return value if _VALUE.fullmatch(value) else ""
