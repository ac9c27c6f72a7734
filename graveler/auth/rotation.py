"""Replaces the keys of a store, and stores anew what was encrypted under older ones.

    sessions    a new key signs; the old ones verify until their tokens have expired
    secrets     a new key encrypts; each secret is stored anew, encrypted under it and checked under
                the present secret of the store

No access key ends, and nobody is logged out unless the caller asks for it.  A rotation may be
repeated, also after a crash.  For the commands.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from graveler.auth import credentials
from graveler.auth.credentials import Credential
from graveler.auth.keeper import Keeper
from graveler.errors import Corrupt, NotFound
from graveler.kv.store import Store, scan_all


class Rotation(NamedTuple):
    """How many access keys were stored anew, and how many wait for their next use, because their
    secrets are stored only as hashes."""

    renewed: int
    waiting: int


def rotate(keeper: Keeper, *, ends_sessions: bool = False) -> Rotation:
    """Replace the keys that sign sessions and encrypt secrets.

    `ends_sessions`: drop the old keys of sessions, so that all sessions end: in other processes
    within `limits.access_seconds_max` and two seconds more.  Sessions that an earlier release
    issued end with their tokens.

    Raises `Unavailable`, `OutcomeUnknown`, `Contended`.  4 requests for the keyrings; for each
    1,000 access keys 2, and for each key 2 more.
    """
    keeper.sessions.rotate(alone=ends_sessions)
    used = {credentials.sealing_key(stored) for _id, stored in _all(keeper.kv)}
    newest = keeper.seals.rotate(used)
    renewed = waiting = 0
    for key_id, stored in _all(keeper.kv):
        if credentials.sealing_key(stored) == newest.id:
            continue
        with suppress(NotFound, Corrupt):
            credentials.renew(keeper, stored, credentials.unseal(keeper, key_id, stored))
            renewed += 1
            continue
        waiting += 1
    return Rotation(renewed, waiting)


def _all(kv: Store) -> Iterator[tuple[str, Credential]]:
    for key, row in scan_all(kv, credentials.PARTITION):
        yield key.decode(), credentials.decode(row)
