"""Hashes that decide whether two entries, commits, ranges or metaranges are the same; the framed
values that carry an identity; CRC32C, by which the logs tell a torn end from damage.

The hash input is encoded with types and lengths, so two different sequences of items never give the
same bytes: docs/reference/format.md has the table.  The encoding is that of lakeFS, so ids are
equal to those of lakeFS.  Pure functions; every module may import this.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from operator import mod
from struct import Struct
from typing import Final

import google_crc32c
import xxhash

from graveler.core.errors import Corrupt
from graveler.core.ids import CommitId, MetarangeId
from graveler.core.records import Commit, Entry

# ---- identity --------------------------------------------------------------------------------

SHARD_SEED = 42


def int64(number: int) -> bytes:
    """`02`, length 8, then 8 bytes big endian, two's complement."""
    return b"\x02\x08" + number.to_bytes(8, "big", signed=True)


def octets(raw: bytes) -> bytes:
    """`00`, the length as int64, the bytes."""
    return b"\x00" + int64(len(raw)) + raw


def string(text: str) -> bytes:
    """`01`, the length as int64, the UTF-8."""
    raw = text.encode()
    return b"\x01" + int64(len(raw)) + raw


def strings(texts: Sequence[str]) -> bytes:
    """`03`, the number of texts as int64, then each text as `string`."""
    return b"\x03" + int64(len(texts)) + b"".join(map(string, texts))


def pairs(mapping: Mapping[str, str]) -> bytes:
    """`04`, the number of pairs as int64, then keys and values as `string`, sorted by the UTF-8
    bytes of the key."""
    if not mapping:
        return _NO_PAIRS
    body = b"".join(string(key) + string(mapping[key]) for key in sorted(mapping, key=str.encode))
    return b"\x04" + int64(len(mapping)) + body


_NO_PAIRS = b"\x04" + int64(0)
_SIZE_AND_CHECKSUM = Struct(">BBqBBBq").pack  # an int64, and a string up to its bytes


def nested(encoding: bytes) -> bytes:
    """`05`, then the hash of `encoding` as `octets`."""
    return b"\x05" + octets(sha256(encoding).digest())


def entry_identity(entry: Entry) -> bytes:
    """32 bytes: the SHA-256 of size, checksum, metadata, and content type if it is not empty.
    Address and time do not count."""
    checksum = entry.checksum.encode()
    encoding = _SIZE_AND_CHECKSUM(2, 8, entry.size, 1, 2, 8, len(checksum)) + checksum
    encoding += pairs(entry.metadata)
    if entry.content_type:
        encoding += string(entry.content_type)
    return sha256(encoding).digest()


def commit_id(commit: Commit) -> CommitId:
    """64 hex digits: the SHA-256 of committer, message, metarange, time in whole seconds, metadata
    and parents."""
    encoding = (
        string("commit:v1")
        + string(commit.committer)
        + string(commit.message)
        + string(commit.metarange)
        + int64(commit.created_ns // 1_000_000_000)
        + pairs(commit.metadata)
        + nested(strings(commit.parents))
    )
    return CommitId(sha256(encoding).hexdigest())


def record_id(key: bytes, identity: bytes) -> bytes:
    """h(h(key) ‖ h(identity)), where h is SHA-256; 32 bytes."""
    return sha256(sha256(key).digest() + sha256(identity).digest()).digest()


def merkle_identity(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The Merkle identity that lakeFS publishes, 32 bytes.

    Of a range: over its (key, entry identity) pairs.  Of a metarange: over its (max key, range
    identity) pairs.
    """
    digest = sha256()
    for key, identity in records:
        digest.update(record_id(key, identity))
    return digest.digest()


def file_id(records: Iterable[tuple[bytes, bytes]], properties: Mapping[str, str]) -> MetarangeId:
    """The name of a range or metarange file, 64 hex digits: SHA-256 over each key and framed value
    (`length‖bytes‖|`), then over the properties."""
    digest = sha256()
    for key, value in records:
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    digest.update(pairs(properties))
    return MetarangeId(digest.hexdigest())


def break_seed(salt: bytes) -> int:
    """The seed of a repository's break hash, derived from its salt."""
    return xxhash.xxh64_intdigest(salt, seed=SHARD_SEED)


def break_hash(key: bytes, seed: int) -> int:
    """An unsigned 64-bit hash.  A range may end after `key` if it is a multiple of the
    raggedness."""
    return xxhash.xxh64_intdigest(key, seed=seed)


def shard(key: bytes, count: int) -> int:
    """The number of the shard, of `count` shards of a staging token, that holds `key`."""
    return 0 if count == 1 else xxhash.xxh64_intdigest(key, seed=SHARD_SEED) % count


def hash_breaks(keys: Sequence[bytes], seed: int, raggedness: int) -> list[int]:
    """The positions in `keys` at which `break_hash` is a multiple of `raggedness`."""
    hashes = map(xxhash.xxh64_intdigest, keys, repeat(seed))
    rests = list(map(mod, hashes, repeat(raggedness)))
    return [at for at, rest in enumerate(rests) if not rest] if 0 in rests else []


# ---- crc32c ----------------------------------------------------------------------------------

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


# ---- framed values -------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    """A varint: seven bits per byte, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, and the position after it.  Raises `Corrupt`."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(raw):
            break
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise Corrupt("stored value ends inside a number")


def _read_length(raw: bytes, at: int) -> tuple[int, int]:
    """A length is stored as the zigzag of a number that is not negative."""
    number, at = read_varint(raw, at)
    if number & 1:
        raise Corrupt("framed value has a negative length")
    return number >> 1, at


def frame(identity: bytes, body: bytes) -> bytes:
    """The framed value of `identity` and `body`."""
    return varint(len(identity) << 1) + identity + varint(len(body) << 1) + body


def unframe(value: bytes) -> tuple[bytes, bytes]:
    """The (identity, body) of a framed value.  Ignores trailing bytes.  Raises `Corrupt`."""
    length, start = _read_length(value, 0)
    identity = value[start : start + length]
    size, body_start = _read_length(value, start + length)
    body = value[body_start : body_start + size]
    if len(identity) != length or len(body) != size:
        raise Corrupt("framed value is shorter than its lengths state")
    return identity, body


def body_of(value: bytes) -> bytes:
    """The body of a framed value.  With an identity of 32 bytes and a body below 8 KiB it costs one
    slice.  Raises `Corrupt`."""
    if len(value) > 34 and value[0] == 0x40:
        number, more = value[33], value[34]
        start = 34 if number < 0x80 else 35
        if start == 35:
            number = number & 0x7F | more << 7
        end = start + (number >> 1)
        if not number & 1 and (start == 34 or more < 0x80) and end <= len(value):
            return value[start:end]
    return unframe(value)[1]


def identity_of(value: bytes) -> bytes:
    """The identity of a framed value.  The ordinary identity of 32 bytes costs one slice.  Any
    other raises `Corrupt` if it does not parse."""
    if value[:1] == b"\x40":
        return value[1:33]
    return unframe(value)[0]
