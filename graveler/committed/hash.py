"""Computes the id of a table, by the rule of `graveler.identity.file_id`, but several times faster.

The same bytes enter the same hash; they are joined for about a thousand records at a time.  Pure;
for the stores of this package.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from graveler.identity import pairs
from graveler.records import Record

_BATCH = 1024
_SHORT = 8192
_MARKS = tuple(b"|%d" % length for length in range(_SHORT))


def file_id(records: Sequence[Record], properties: Mapping[str, str]) -> str:
    """The id: 64 hex digits, hashed over every key and framed value, then over the properties."""
    digest = sha256()
    for at in range(0, len(records), _BATCH):
        digest.update(joined(*zip(*records[at : at + _BATCH], strict=True)))
    digest.update(pairs(properties))
    return digest.hexdigest()


def joined(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """The bytes by which records enter an id."""
    return interleaved(_marks(keys), keys, _marks(values), values)


def interleaved(
    key_marks: Sequence[bytes],
    keys: Sequence[bytes],
    value_marks: Sequence[bytes],
    values: Sequence[bytes],
) -> bytes:
    """As `joined`, with the `mark` of each key and value."""
    if not keys:
        return b""
    pieces = [b"|"] * (4 * len(keys) + 1)
    pieces[0:-1:4], pieces[1::4], pieces[2::4], pieces[3::4] = key_marks, keys, value_marks, values
    pieces[0] = pieces[0][1:]
    return b"".join(pieces)


def mark(length: int) -> bytes:
    """What stands before a key or value of this length: the end of what is before it, and the
    length."""
    return _MARKS[length] if length < _SHORT else b"|%d" % length


def _marks(texts: Sequence[bytes]) -> list[bytes]:
    try:
        return list(map(_MARKS.__getitem__, map(len, texts)))
    except IndexError:  # some text is longer than the prepared marks
        return [mark(len(text)) for text in texts]
