"""Writes blocks of a RocksDB block-based table (entries, compression, checksum), and computes ids.

Each entry is a restart point, so every key is stored whole.  `blocks.py` draws a block.  The id
follows the rule of `identity.file_id`, and is computed several times faster.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from operator import add

import cramjam

from graveler.committed.blocks import masked_crc
from graveler.core.identity import pairs, varint
from graveler.core.records import Record

# ---- hash ------------------------------------------------------------------------------------

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


# ---- seal ------------------------------------------------------------------------------------

BLOCK_LENGTH = 16 * 1024
BEHIND_KEYS = b"\1" + bytes(7)  # type "set", sequence number 0
SNAPPY, NONE = b"\1", b"\0"
_HEADS_MAX = 1 << 14
_AROUND = range(len(BEHIND_KEYS), 64)  # by the length of an entry's head: all but key and value


def payload(entries: Sequence[Record]) -> bytes:
    """An uncompressed block.  Keys are given with all bytes that are stored behind them."""
    behind = len(BEHIND_KEYS)  # which `head` counts in addition
    encoded = [head(len(key) - behind, len(value)) + key + value for key, value in entries]
    starts = [0, *accumulate(map(len, encoded[:-1]))]
    return b"".join([*encoded, restarts(starts)])


def data_payload(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """An uncompressed data block of at least one record.  Keys are given without the bytes behind
    them."""
    key_lengths, value_lengths = list(map(len, keys)), list(map(len, values))
    heads = list(map(_heads.__getitem__, zip(key_lengths, value_lengths, strict=True)))
    pieces = [BEHIND_KEYS] * (4 * len(heads))
    pieces[0::4], pieces[1::4], pieces[3::4] = heads, keys, values
    records = map(add, key_lengths, value_lengths)
    starts = [0, *accumulate(map(add, records, map(_AROUND.__getitem__, map(len, heads))))]
    starts.pop()
    return b"".join([*pieces, restarts(starts)])


def head(key_length: int, value_length: int) -> bytes:
    """What is stored in front of a record whose key and value have these lengths."""
    return _heads[key_length, value_length]


def restarts(starts: Sequence[int]) -> bytes:
    """What is stored behind the entries of a block: where they begin, and their number."""
    return struct.pack(f"<{len(starts)}II", *starts, len(starts))


def compressed(raw: bytes) -> bytes:
    """The stored form of a block: compressed with Snappy if that saves more than 1/8, and followed
    by type and checksum."""
    packed = bytes(cramjam.snappy.compress_raw(raw))
    if len(packed) < len(raw) - len(raw) // 8:
        return sealed(packed, SNAPPY)
    return sealed(raw, NONE)


def sealed(raw: bytes, kind: bytes) -> bytes:
    """`raw`, followed by type and checksum."""
    body = raw + kind
    return body + struct.pack("<I", masked_crc(body))


class _Heads(dict[tuple[int, int], bytes]):
    """A cache from the lengths of a key and a value to what is stored in front of them."""

    def __missing__(self, lengths: tuple[int, int]) -> bytes:
        key_length, value_length = lengths
        encoded = b"\0" + varint(key_length + len(BEHIND_KEYS)) + varint(value_length)
        if len(self) >= _HEADS_MAX:
            self.clear()
        self[lengths] = encoded
        return encoded


_heads = _Heads()
