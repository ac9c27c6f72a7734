"""Marks of streams: which batch of a stream has landed last on a branch, and as which commit.

A mark is written in one step with the swap of the branch record that lands its commit.  So the mark
and the history never disagree, unless a hard reset moves the head.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from graveler.core import wire
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, Absent, Branch, Repository
from graveler.kv.store import Matches, Store, Write
from graveler.refs import rows
from graveler.refs.branches import CompanionRow
from graveler.refs.keys import STREAMS, space, stream_key

STREAM_KEY: Final = "graveler.stream"
BATCH_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = len(str(BATCH_MAX))


def batch_in(metadata: Mapping[str, str]) -> tuple[str, int]:
    """The stream and the number of the batch that the metadata of a commit names; ("", -1) if it
    names none, for everybody may write such metadata."""
    stream, _, number = metadata.get(STREAM_KEY, "").rpartition(":")
    if number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX:
        return stream, int(number)
    return "", -1


class StreamMark(NamedTuple):
    """The last batch, and its commit.  `origin`, `rewinds`: those of the branch when it landed."""

    batch: int
    commit: CommitId
    origin: str
    rewinds: int
    landed_ns: int
    version: bytes = b""

    def is_kept(self, branch: Branch) -> bool:
        """Whether no hard reset has moved the branch since, so its history has the commit.  Pure;
        False means unknown."""
        return (branch.origin, branch.rewinds) == (self.origin, self.rewinds)


def find(
    kv: Store, repository: Repository, branch: BranchId, stream: str
) -> StreamMark | Literal[Absent.ABSENT]:
    """The mark of a stream on a branch; ABSENT if it has landed nothing there.  One request."""
    row = kv.get(space(repository), _key(branch, stream))
    return ABSENT if row is ABSENT else _mark(row.value, row.version)


def beside(
    repository: Repository,
    branch: BranchId,
    stream: str,
    seen: StreamMark | Literal[Absent.ABSENT],
    new: StreamMark,
) -> CompanionRow:
    """The write of a mark in place of `seen`, for a step with the swap of the branch record.
    `new.version` is its stamp.  No request."""
    pairs = {
        "stream": stream,
        "batch": str(new.batch),
        "commit": new.commit,
        "origin": new.origin,
        "rewinds": str(new.rewinds),
        "landed_ns": str(new.landed_ns),
    }
    write = Write(space(repository), _key(branch, stream), wire.encode_pairs(pairs), new.version)
    return CompanionRow(ABSENT if seen is ABSENT else Matches(seen.version), write)


def every(kv: Store, repository: Repository) -> Iterator[tuple[str, StreamMark]]:
    """All marks, by the names of their rows.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), STREAMS)):
        yield name, _mark(row.value, row.version)


def forget(kv: Store, repository: Repository, old: Sequence[tuple[str, StreamMark]]) -> None:
    """Remove marks that were not replaced since.  One request for each 1,000."""
    if old:
        names = [STREAMS + name.encode() for name, _ in old]
        kv.delete(space(repository), names, [mark.version for _, mark in old])


def _key(branch: BranchId, stream: str) -> bytes:
    return stream_key(branch, sha256(stream.encode()).hexdigest())


def _mark(value: bytes, version: bytes) -> StreamMark:
    pairs = wire.decode_pairs(value)
    return StreamMark(
        int(pairs["batch"]),
        CommitId(pairs["commit"]),
        pairs["origin"],
        int(pairs["rewinds"]),
        int(pairs["landed_ns"]),
        version,
    )
