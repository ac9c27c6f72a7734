"""Signatures that have proved an identity: one row each, so that nobody can use one later.

    ended/signatures / <signature> -> pairs: used, expires (seconds)

A signature is accepted for `limits.signature_reuse_seconds` from its first use on.  Processes with
the same credentials that sign in the same second, such as the tasks of a job, make equal
signatures, and each of them needs a session.

A row is needed until its signature expires, at most 15 minutes.  DynamoDB deletes it later (time to
live); with other stores each login deletes the expired ones of the rows that follow its own.
Signatures are random, so logins pass all rows, however many there are.  For api/.
"""

from typing import Final

from graveler import limits, wire
from graveler.auth.keeper import Keeper
from graveler.errors import Unauthenticated
from graveler.kv.replace import Found
from graveler.kv.store import Declined, landed
from graveler.records import ABSENT

PARTITION: Final = b"ended/signatures"


def spend(keeper: Keeper, signature: str, expires: int, now: int) -> None:
    """Record the use of a signature that STS has accepted; times are in seconds since 1970.

    Raises `Unauthenticated` if it was first used too long ago, `OutcomeUnknown`: its use may be
    recorded.  2 requests, 3 if there are expired rows to delete; 1 if it was used before.
    """
    raw = wire.encode_pairs({"used": str(now), "expires": str(expires)})
    stamp = keeper.ids.stamp()
    outcome = keeper.kv.set_if(PARTITION, signature.encode(), raw, stamp, ABSENT)
    if isinstance(outcome, Declined) and not landed(outcome, stamp):
        if now > _number(outcome.current, "used") + limits.signature_reuse_seconds:
            raise Unauthenticated("signature was used before")
        return
    rows = keeper.kv.scan(PARTITION, signature.encode(), b"", limits.kv_batch_count_max).rows
    expired = [key for key, row in rows if _number(row, "expires") <= now]
    if expired:
        keeper.kv.delete(PARTITION, expired)


def _number(row: Found, name: str) -> int:
    text = "" if row is ABSENT else wire.decode_pairs(row.value).get(name, "")
    return int(text) if text.isdecimal() else 0
