"""CRC32C, by the library for it: RFC 3720, appendix B.4.

One core computes it at many times the speed of MD5, by an instruction of the processor.  Without
its compiled part the library is much slower than MD5, so nobody should use it then.  Lower than
every other package.
"""

from typing import Final

import google_crc32c

IS_FAST: Final[bool] = google_crc32c.implementation == "c"


def extended(crc32c: int, piece: bytes) -> int:
    """The sum of some bytes, whose sum is `crc32c`, and `piece` behind them.  It begins with 0."""
    value: int = google_crc32c.extend(crc32c, piece)
    return value
