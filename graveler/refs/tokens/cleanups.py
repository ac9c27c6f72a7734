"""Clean-up records: intents to delete the rows of staging tokens that no branch names any more.

Written by whoever takes a token out of a branch record, *before* it does so: a crash in between
leaves an intent that the janitor finds void, never rows that nobody knows of.  For the engine.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from graveler import wire
from graveler.clock import Ids
from graveler.errors import OutcomeUnknown
from graveler.ids import BranchId, StagingToken
from graveler.kv.store import WRITTEN, Matches, Store, Write
from graveler.records import Cleanup, Repository
from graveler.refs import rows
from graveler.refs.keys import CLEANUPS, cleanup_key, space


class PendingCleanup(NamedTuple):
    """A clean-up record, the token that it is about, and the version of its stored form."""

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
    """The writes that record the intent for `tokens`, for a batch; may be repeated."""
    raw = wire.encode_cleanup(Cleanup(branch, not_before_ns))
    partition = space(repository)
    return [Write(partition, cleanup_key(token), raw, ids.stamp()) for token in tokens]


def swap(
    kv: Store, repository: Repository, seen: PendingCleanup, new: Cleanup, stamp: bytes
) -> bool:
    """Replace the record that was seen; False: failed or unknown, so look again later.  One
    request."""
    raw, condition = wire.encode_cleanup(new), Matches(seen.version)
    with suppress(OutcomeUnknown):
        key = cleanup_key(seen.token)
        return kv.set_if(space(repository), key, raw, stamp, condition) is WRITTEN
    return False


def list_cleanups(kv: Store, repository: Repository, after: str = "") -> Iterator[PendingCleanup]:
    """Every record by token, that is by the token's birth.  One request for each 1,000."""
    stretch = rows.Stretch(space(repository), CLEANUPS, "", after)
    for name, row in rows.rows(kv, stretch):
        yield PendingCleanup(StagingToken(name), wire.decode_cleanup(row.value), row.version)


def forget(kv: Store, repository: Repository, tokens: Sequence[StagingToken]) -> None:
    """Remove the records.  One request for each 1,000."""
    if tokens:
        kv.delete(space(repository), [cleanup_key(token) for token in tokens])
