"""Computes the id of a table, by the rule of `graveler.identity.file_id`, but several times faster.

The same bytes enter the same hash; they are joined for some hundred records at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from graveler.identity import pairs
from graveler.records import Record

# Joined records.  The allocator gives a long piece fresh pages, and the first touch of each is a
# page fault: 100,000 records of 250 bytes took 63 ms instead of 44 with 4,096 in a piece.
_BATCH = 512
_SHORT = 8192
_MARKS = tuple(b"|%d" % length for length in range(_SHORT))


def file_id(records: Sequence[Record], properties: Mapping[str, str]) -> str:
    """The id: 64 hex digits, hashed over every key and framed value, then over the properties."""
    digest = sha256()
    for piece in joined([key for key, _ in records], [value for _, value in records]):
        digest.update(piece)
    digest.update(pairs(properties))
    return digest.hexdigest()


def joined(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[bytes]:
    """The bytes by which records enter an id, in pieces."""
    return interleaved(_marks(keys), keys, _marks(values), values)


def interleaved(
    key_marks: Sequence[bytes],
    keys: Sequence[bytes],
    value_marks: Sequence[bytes],
    values: Sequence[bytes],
) -> Iterator[bytes]:
    """As `joined`, with the `mark` of each key and value."""
    for at in range(0, len(keys), _BATCH):
        some = slice(at, at + _BATCH)
        parts = [b"|"] * (4 * len(keys[some]) + 1)
        parts[0:-1:4], parts[1::4] = key_marks[some], keys[some]
        parts[2::4], parts[3::4] = value_marks[some], values[some]
        parts[0] = parts[0][1:]
        yield b"".join(parts)


def mark(length: int) -> bytes:
    """What stands before a key or value of this length: the end of what is before it, and the
    length."""
    return _MARKS[length] if length < _SHORT else b"|%d" % length


def _marks(texts: Sequence[bytes]) -> list[bytes]:
    try:
        return list(map(_MARKS.__getitem__, map(len, texts)))
    except IndexError:  # some text is longer than the prepared marks
        return [mark(len(text)) for text in texts]
