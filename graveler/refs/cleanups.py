"""Clean-up records: intents to delete the rows of staging tokens that no branch names any more.

Written by whoever takes a token out of a branch record, *before* it does so: a crash in between
leaves an intent that the janitor finds void, never rows that nobody knows of.  For the engine.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from graveler import wire
from graveler.clock import Ids
from graveler.ids import BranchId, StagingToken
from graveler.kv.store import Store, Write
from graveler.records import ABSENT, Absent, Cleanup, Repository
from graveler.refs import listing
from graveler.refs.space import CLEANUPS, cleanup_key, space


class PendingCleanup(NamedTuple):
    """A clean-up record and the token that it is about."""

    token: StagingToken
    cleanup: Cleanup


def cleanup_writes(
    repository: Repository,
    branch: BranchId,
    tokens: Sequence[StagingToken],
    not_before_ns: int,
    ids: Ids,
) -> list[Write]:
    """The writes that record the intent for `tokens`, for a batch; may be repeated."""
    raw = wire.encode_cleanup(Cleanup(branch, not_before_ns))
    partition = space(repository)
    return [Write(partition, cleanup_key(token), raw, ids.stamp()) for token in tokens]


def find(
    kv: Store, repository: Repository, token: StagingToken
) -> Cleanup | Literal[Absent.ABSENT]:
    """One request."""
    row = kv.get(space(repository), cleanup_key(token))
    return ABSENT if row is ABSENT else wire.decode_cleanup(row.value)


def put(
    kv: Store, repository: Repository, token: StagingToken, cleanup: Cleanup, stamp: bytes
) -> None:
    """Store the record, whatever was there.  One request; may be repeated."""
    kv.set(space(repository), cleanup_key(token), wire.encode_cleanup(cleanup), stamp)


def list_cleanups(kv: Store, repository: Repository, after: str = "") -> Iterator[PendingCleanup]:
    """Every record by token, that is by the token's birth.  One request for each 1,000."""
    stretch = listing.Stretch(space(repository), CLEANUPS, "", after)
    for name, row in listing.rows(kv, stretch):
        yield PendingCleanup(StagingToken(name), wire.decode_cleanup(row.value))


def forget(kv: Store, repository: Repository, tokens: Sequence[StagingToken]) -> None:
    """Remove the records.  One request for each 1,000."""
    if tokens:
        kv.delete(space(repository), [cleanup_key(token) for token in tokens])
