"""Replacing a small record: read, change, write over exactly what was read, until it is settled.

    row ──change──► new row        set_if on the version that was read: one of ours, or begin again

Every write names the row that it was made from, and no row is removed before no twin of a write can
be on its way any more, so a twin that arrives late finds another row and does nothing.  That is
what `set` and `delete` do not give: a late twin of theirs brings an old value back, or removes what
was made anew.  For refs and auth.
"""

from collections.abc import Callable
from typing import Literal

from graveler import limits
from graveler.clock import Ids
from graveler.errors import Contended, OutcomeUnknown, Unavailable
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Matches,
    Place,
    Row,
    Store,
)
from graveler.records import Absent

Found = Row | Literal[Absent.ABSENT]
# From the row, and whether an earlier write of this call may have landed and been replaced since,
# to the new value, or ABSENT: leave it.  It may raise to refuse.
Change = Callable[[Found, bool], bytes | Literal[Absent.ABSENT]]


def replace_row(kv: Store, place: Place, ids: Ids, change: Change) -> None:
    """Read the row, and `replace_seen`.  Two requests if nobody else writes it."""
    replace_seen(kv, place, ids, change, kv.get(*place))


def replace_seen(kv: Store, place: Place, ids: Ids, change: Change, seen: Found) -> None:
    """Put what `change` makes of the row in its place, atomically; `seen` is what it was lately.

    Errors: what `change` raises, `Contended`; `OutcomeUnknown`: a write may have landed or may land
    yet.  One request if nobody else writes the row.
    """
    stamps: set[bytes] = set()
    lost = False  # whether a write without an answer was made from another row than `seen`
    unknown: OutcomeUnknown | Literal[Absent.ABSENT] = ABSENT
    for _ in range(limits.commit_round_count_max):
        value = change(seen, lost)
        if value is ABSENT:
            return
        stamp = ids.stamp()
        stamps.add(stamp)
        try:
            condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
            outcome = kv.set_if(*place, value, stamp, condition)
            if outcome is WRITTEN:
                return
            now = outcome.current
        except OutcomeUnknown as error:
            unknown = error
            now = _read_back(kv, place, error)
        except Unavailable as error:
            raise (error if unknown is ABSENT else unknown) from error
        if now is not ABSENT and now.version in stamps:
            return
        lost = lost or (unknown is not ABSENT and now != seen)
        seen = now
    if unknown is not ABSENT:
        raise unknown
    raise Contended(f"record kept changing; try again: {place=}")


def _read_back(kv: Store, place: Place, unknown: OutcomeUnknown) -> Found:
    try:
        return kv.get(*place)
    except Unavailable as error:
        raise unknown from error
