"""CRC32C, by the library for it: RFC 3720, appendix B.4.

One core computes it at many times the speed of MD5, by an instruction of the processor.  Without
its compiled part the library is much slower than MD5, so nobody should use it then.  Lower than
every other package.

A record of a log whose sum is wrong is torn or damaged.  A crash tears only the end of a log:
sectors of it were never written, and read as zeros.  See `is_torn`.
"""

from typing import Final

import google_crc32c

IS_FAST: Final[bool] = google_crc32c.implementation == "c"
_SECTOR_BYTES: Final = 512
_ZEROS_MIN: Final = 8


def extended(crc32c: int, piece: bytes) -> int:
    """The sum of some bytes, whose sum is `crc32c`, and `piece` behind them.  It begins with 0."""
    value: int = google_crc32c.extend(crc32c, piece)
    return value


def is_torn(log: bytes, start: int, end: int) -> bool:
    """Whether a crash may have left bytes like those from `start` to `end`: the log ends before
    `end`, or they or a sector of them end in zeros, because these bytes were never written.  A
    record may have single zeros of its own at the end of a sector."""
    if end > len(log) or not log[end - 1]:
        return True
    while start < end:
        stop = min(start - start % _SECTOR_BYTES + _SECTOR_BYTES, end)
        if not any(log[max(start, stop - _ZEROS_MIN) : stop]):
            return True
        start = stop
    return False
