"""How many requests a deployment has answered, by month; and the id of the deployment.

    usage / installation          pairs: id, a UUID, stored by the first report
    usage / <YYYY-MM>/<0 to 15>   pairs: requests, one of the counters of a month

Processes add to the counter that their id chooses, so that they seldom meet.  A process adds what
it has counted from time to time: one that dies loses the rest.  A lost answer may add twice.  The
numbers never leave the deployment.  For api/.
"""

from collections import Counter
from contextlib import suppress
from typing import Final, NamedTuple

from graveler import wire
from graveler.clock import Ids
from graveler.errors import OutcomeUnknown, Unavailable
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import Row, Store, scan_all
from graveler.records import ABSENT

_PARTITION: Final = b"usage"
_INSTALLATION: Final = b"installation"
_COUNTERS: Final = 16
_CUTS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


class MonthUsage(NamedTuple):
    """The requests of one month."""

    year: int
    month: int
    requests: int


class UsageReport(NamedTuple):
    """The id of the deployment, and its months in order."""

    installation: str
    months: tuple[MonthUsage, ...]


def add(kv: Store, ids: Ids, month: str, requests: int) -> None:
    """Add to the requests of a month, `YYYY-MM`.

    Errors: `Contended`; `OutcomeUnknown`: they may be added.  Two requests.
    """
    stamp = ids.stamp()
    key = f"{month}/{stamp[0] % _COUNTERS}".encode()

    def change(row: Found, _lost: bool) -> bytes:
        known = 0 if row is ABSENT else int(wire.decode_pairs(row.value)["requests"])
        return wire.encode_pairs({"requests": str(known + requests)})

    replace_row(kv, (_PARTITION, key), ids, change)


def report(kv: Store, ids: Ids) -> UsageReport:
    """What was counted.

    Errors: `Unavailable`.  One request for each 1,000 counters; two more the first time.
    """
    rows = dict(scan_all(kv, _PARTITION))
    known = rows.pop(_INSTALLATION, ABSENT)
    if known is ABSENT:
        known = _installed(kv, ids)
    counted: Counter[str] = Counter()
    for key, row in rows.items():
        counted[key.decode().partition("/")[0]] += int(wire.decode_pairs(row.value)["requests"])
    months = []
    for month, count in sorted(counted.items()):
        year, _, number = month.partition("-")
        months.append(MonthUsage(int(year), int(number), count))
    return UsageReport(wire.decode_pairs(known.value)["id"], tuple(months))


def _installed(kv: Store, ids: Ids) -> Row:
    """Store an id, unless another process has."""
    digits = ids.stamp().hex()
    id = "-".join(digits[start:end] for start, end in _CUTS)
    with suppress(OutcomeUnknown):
        kv.set_if(_PARTITION, _INSTALLATION, wire.encode_pairs({"id": id}), ids.stamp(), ABSENT)
    row = kv.get(_PARTITION, _INSTALLATION)
    if row is ABSENT:
        raise Unavailable("id of the installation not stored; try again")
    return row
