"""The id of a table by the rule of `graveler.identity.file_id`, for records already in a sequence.

Same bytes into the same hash, but joined for some thousand records at a time, which is several
times faster.  Pure; for the stores of this package.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from graveler.identity import pairs
from graveler.records import Record

_BATCH = 1024
_SHORT = 8192
_LENGTHS = tuple(b"%d" % length for length in range(_SHORT))
_BAR_LENGTHS = tuple(b"|%d" % length for length in range(_SHORT))


def file_id(records: Sequence[Record], properties: Mapping[str, str]) -> str:
    """64 hex digits over every key and framed value, then the properties."""
    digest = sha256()
    for start in range(0, len(records), _BATCH):
        digest.update(_joined(records[start : start + _BATCH]))
    digest.update(pairs(properties))
    return digest.hexdigest()


def _joined(records: Sequence[Record]) -> bytes:
    try:
        return b"".join(
            [
                piece
                for key, value in records
                for piece in (_LENGTHS[len(key)], key, _BAR_LENGTHS[len(value)], value, b"|")
            ]
        )
    except IndexError:  # some value is longer than the prepared lengths
        return b"".join(
            [b"%d%b|%d%b|" % (len(key), key, len(value), value) for key, value in records]
        )
