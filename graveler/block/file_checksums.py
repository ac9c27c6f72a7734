"""The CRC32C (RFC 3720) of a large file of the local store, in an extended attribute of the file.

A CRC32C is computed many times faster than an MD5, so a reader can verify a large file without
waiting.  The attribute is no part of the format: without it, readers take the MD5 of the entry.
"""

import os
import re
import sys
from contextlib import suppress
from typing import Final, Literal

from graveler.records import ABSENT, Absent

BYTES_MIN: Final = 4 << 20  # the MD5 of fewer bytes takes some milliseconds
_NAME: Final = "user.graveler.crc32c"
_VALUE: Final = re.compile(rb"[0-9a-f]{8}")


def keep(descriptor: int, size: int, crc32c: int | Literal[Absent.ABSENT]) -> None:
    """Keep the checksum of a new file, if there is one, the file is large, and its file system
    takes it.  The sync of the file makes it durable."""
    if crc32c is not ABSENT and size >= BYTES_MIN and sys.platform == "linux":
        with suppress(OSError):
            os.setxattr(descriptor, _NAME, b"%08x" % crc32c)


def kept(descriptor: int) -> int | Literal[Absent.ABSENT]:
    """The checksum of a large file; ABSENT if none is known.  One call of the system."""
    if sys.platform == "linux":
        with suppress(OSError):
            value = os.getxattr(descriptor, _NAME)
            if _VALUE.fullmatch(value):
                return int(value, 16)
    return ABSENT
