"""Clean-up records: intents to delete the rows of staging tokens that no branch names any more.

An operation that removes a token from a branch record writes this record *before* the removal.  A
crash in between leaves an intent that the janitor recognises as void; it never leaves rows that no
record names.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from graveler.core import wire
from graveler.core.clock import Ids
from graveler.core.errors import OutcomeUnknown
from graveler.core.ids import BranchId, StagingToken
from graveler.core.records import Cleanup, Repository
from graveler.kv.store import WRITTEN, Matches, Store, Write
from graveler.refs import rows
from graveler.refs.keys import CLEANUPS, cleanup_key, space


class PendingCleanup(NamedTuple):
    """A clean-up record, its token, and the version of its stored form."""

    token: StagingToken
    cleanup: Cleanup
    version: bytes


def cleanup_writes(
    repository: Repository,
    branch: BranchId,
    tokens: Sequence[StagingToken],
    not_before_ns: int,
    ids: Ids,
) -> list[Write]:
    """The writes that record the intent to clean up `tokens`, for a batch.  May be repeated."""
    raw = wire.encode_cleanup(Cleanup(branch, not_before_ns))
    partition = space(repository)
    return [Write(partition, cleanup_key(token), raw, ids.stamp()) for token in tokens]


def swap(
    kv: Store, repository: Repository, seen: PendingCleanup, new: Cleanup, stamp: bytes
) -> bool:
    """Replace the record `seen`.  False: failed or unknown; the caller reads again later.  One
    request."""
    raw, condition = wire.encode_cleanup(new), Matches(seen.version)
    with suppress(OutcomeUnknown):
        key = cleanup_key(seen.token)
        return kv.set_if(space(repository), key, raw, stamp, condition) is WRITTEN
    return False


def list_cleanups(kv: Store, repository: Repository, after: str = "") -> Iterator[PendingCleanup]:
    """Every record in the order of tokens, which is the order of their creation times, after
    `after`.  One request for each 1,000."""
    stretch = rows.Stretch(space(repository), CLEANUPS, "", after)
    for name, row in rows.rows(kv, stretch):
        yield PendingCleanup(StagingToken(name), wire.decode_cleanup(row.value), row.version)


def forget(kv: Store, repository: Repository, tokens: Sequence[StagingToken]) -> None:
    """Remove the records.  One request for each 1,000."""
    if tokens:
        kv.delete(space(repository), [cleanup_key(token) for token in tokens])
