"""Identities: what two things must share to be called the same.

    entry identity   what a path says (content), not where or when
    commit id        every field of a commit that its author gave
    record id        key and entry identity; the leaves of the Merkle identity of ranges
    file id          all bytes that readers of a range or metarange rely on
    break hash       where ranges end;  shard   where a staged row lives

Typed hash encoding, so that no two different sequences of items feed the hash the same bytes
(docs/format.md has the
table; the same as lakeFS's, therefore ids agree with its own).  Pure functions; everybody may
import this.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat

import xxhash

from graveler.ids import CommitId, MetarangeId
from graveler.records import Commit, Entry

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
    """`03`, the number as int64, each as `string`."""
    return b"\x03" + int64(len(texts)) + b"".join(map(string, texts))


def pairs(mapping: Mapping[str, str]) -> bytes:
    """`04`, the number as int64, keys and values as `string`, sorted by key."""
    if not mapping:
        return _NO_PAIRS
    body = b"".join(string(key) + string(mapping[key]) for key in sorted(mapping, key=str.encode))
    return b"\x04" + int64(len(mapping)) + body


_NO_PAIRS = b"\x04" + int64(0)


def nested(encoding: bytes) -> bytes:
    """`05`, then the hash of `encoding` as `octets`."""
    return b"\x05" + octets(sha256(encoding).digest())


def entry_identity(entry: Entry) -> bytes:
    """32 bytes: size, checksum, metadata, and content type if there is one; neither address nor
    time."""
    encoding = int64(entry.size) + string(entry.checksum) + pairs(entry.metadata)
    if entry.content_type:
        encoding += string(entry.content_type)
    return sha256(encoding).digest()


def commit_id(commit: Commit) -> CommitId:
    """64 hex digits; the time counts in whole seconds."""
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
    """h(h(key) ‖ h(identity))."""
    return sha256(sha256(key).digest() + sha256(identity).digest()).digest()


def merkle_identity(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The published identity of a range: over its (key, entry identity); of a metarange: over (max
    key, range identity)."""
    digest = sha256()
    for key, identity in records:
        digest.update(record_id(key, identity))
    return digest.digest()


def file_id(records: Iterable[tuple[bytes, bytes]], properties: Mapping[str, str]) -> MetarangeId:
    """The name of a range or metarange file: h over each key and framed value (`length‖bytes‖|`),
    then the properties."""
    digest = sha256()
    for key, value in records:
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    digest.update(pairs(properties))
    return MetarangeId(digest.hexdigest())


def break_seed(salt: bytes) -> int:
    """The seed of a repository's break hash."""
    return xxhash.xxh64_intdigest(salt, seed=SHARD_SEED)


def break_hash(key: bytes, seed: int) -> int:
    """Unsigned; a range may end after `key` where this is a multiple of the raggedness."""
    return xxhash.xxh64_intdigest(key, seed=seed)


def shard(key: bytes, count: int) -> int:
    """Which of `count` shards of a staging token holds `key`."""
    return 0 if count == 1 else xxhash.xxh64_intdigest(key, seed=SHARD_SEED) % count


def hash_breaks(keys: Sequence[bytes], seed: int, raggedness: int) -> list[int]:
    """The positions in `keys` at which `break_hash` is a multiple of `raggedness`."""
    hashes = map(xxhash.xxh64_intdigest, keys, repeat(seed))
    return [at for at, number in enumerate(hashes) if not number % raggedness]
