"""Replaces a small record by a compare-and-swap loop: read, change, write if still unchanged.

Every write names the version that it was made from, so a late duplicate of a write finds another
version and does nothing.  `set` and `delete` do not give this.
"""

from collections.abc import Callable
from typing import Literal

from graveler.core import limits
from graveler.core.clock import Ids
from graveler.core.errors import Contended, OutcomeUnknown, Unavailable
from graveler.core.records import Absent
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Matches,
    Place,
    Row,
    Store,
)

Found = Row | Literal[Absent.ABSENT]
# Arguments: the stored row; and whether an earlier write of this call may have been applied and
# replaced since.  Result: the new value, or ABSENT to leave the row.  It may raise to refuse.  What
# it does to other rows happens after the read of the row, and before the write.
Change = Callable[[Found, bool], bytes | Literal[Absent.ABSENT]]


def replace_row(kv: Store, place: Place, ids: Ids, change: Change) -> None:
    """Read the row, then `replace_seen`.  Two requests if no other client writes the row."""
    replace_seen(kv, place, ids, change, kv.get(*place))


def replace_seen(kv: Store, place: Place, ids: Ids, change: Change, seen: Found) -> None:
    """Replace the row atomically by the result of `change`.  `seen` is the row as last read; it may
    be out of date.

    Errors: those of `change`; `Contended` if the row kept changing; `OutcomeUnknown` if a write may
    have been applied or may still be applied.  One request if no other client writes the row.
    """
    stamps: set[bytes] = set()
    lost = False  # whether a write without an answer may have been applied and replaced since
    unknown: OutcomeUnknown | Literal[Absent.ABSENT] = ABSENT
    for _ in range(limits.commit_round_count_max):
        try:
            value = change(seen, lost)
        except (Unavailable, Contended) as error:  # `Contended` would say that nothing was written
            raise (error if unknown is ABSENT else unknown) from error
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
