"""Sessions that were ended by a logout: one row each in the KV partition `ended/sessions`.

    ended/sessions / <id of the token> -> pairs: expires (seconds)

A row is needed until its token would have expired.  DynamoDB deletes it soon after (time to live);
with other stores each logout deletes the expired ones of the rows that follow its own.  Ids are
random, so logouts pass all rows, however many there are.  For authenticator.py.
"""

from graveler import limits, wire
from graveler.auth.tokens import Session
from graveler.clock import Ids
from graveler.kv.store import Store
from graveler.records import ABSENT

PARTITION = b"ended/sessions"
_LOOKED_AT = 1_000  # rows behind its own that a logout looks at, and as many from the first


def put(kv: Store, ids: Ids, session: Session, now: int) -> None:
    """End a session.  It is permanent once this returns.  `now` is in seconds since 1970.  3 KV
    requests, 4 if there are expired rows to delete."""
    raw, own = wire.encode_pairs({"expires": str(session.expires)}), session.id.encode()
    kv.set(PARTITION, own, raw, ids.stamp())
    rows = kv.scan(PARTITION, own, b"", _LOOKED_AT).rows
    rows += kv.scan(PARTITION, b"", own, _LOOKED_AT).rows
    expired = [key for key, row in rows if _expires(row.value) <= now][: limits.kv_batch_count_max]
    if expired:
        kv.delete(PARTITION, expired)


def has(kv: Store, session: Session) -> bool:
    """Whether the session was ended.  One KV request."""
    return kv.get(PARTITION, session.id.encode()) is not ABSENT


def _expires(value: bytes) -> int:
    text = wire.decode_pairs(value).get("expires", "")
    return int(text) if text.isdecimal() else 0
