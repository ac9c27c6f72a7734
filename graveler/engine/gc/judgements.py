"""Snapshots of a judgement about all commits, so that later pages of one read judge nothing again.

    <namespace>/_graveler/gc/cluster/judged/<kind>-<sha256>    records of one length, in byte order

    first page: judge ──► fits? ──yes──► answer, nothing is stored
                            └─no──► put ──► answer, with the place of the next page
    later page: read the stretch

A snapshot is named by its content, so it never changes.  A repeated first page stores the same
bytes at the same address.

The service never deletes a snapshot.  `graveler.spark.collect` deletes everything in that folder
that is a day old.  The purge of a deleted repository deletes the folder.  A page whose snapshot
is gone raises `Gone`: the reader must begin again from the first page.

Used by root_pages.py and cluster.py.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from graveler.block import address
from graveler.engine.ports import OpenRepository
from graveler.errors import Corrupt, Gone, Invalid, NotFound, RangeUnsatisfiable
from graveler.records import Repository

_FOLDER: Final = "_graveler/gc/cluster/judged"
_SPOT: Final = re.compile(r"([0-9a-f]{64})-([0-9]{1,12})-([0-9]{1,12})", re.ASCII)


class Spot(NamedTuple):
    """A place in a snapshot: its name, the number of records before the place, the number of all
    records.
    """

    name: str
    at: int
    total: int

    def __str__(self) -> str:
        return f"{self.name}-{self.at}-{self.total}"


class Stretch(NamedTuple):
    """Consecutive records; `following`: the place of the next page, empty after the last."""

    records: Sequence[bytes]
    following: str


def first(repo: OpenRepository, kind: str, records: Sequence[bytes], amount: int) -> Stretch:
    """The first `amount` of `records`, which are sorted and of one length.

    If there are more, also store a snapshot of all of them, of this `kind`.  Cost: a put in that
    case.
    """
    if len(records) <= amount:
        return Stretch(records, "")
    body = b"".join(records)
    name = sha256(body).hexdigest()
    repo.blocks.put(_place(repo.record, kind, name), [body])
    return Stretch(records[:amount], str(Spot(name, amount, len(records))))


def later(repo: OpenRepository, kind: str, spot: Spot, amount: int, length: int) -> Stretch:
    """At most `amount` records of `length` bytes, from a place in a snapshot of this `kind` on.

    Errors: `Gone` if there is no such snapshot any more; `Corrupt` if it lacks records.  Cost: a
    read.
    """
    number = min(amount, spot.total - spot.at)
    try:
        raw = repo.blocks.read(
            _place(repo.record, kind, spot.name), spot.at * length, number * length
        )
    except NotFound as error:
        raise Gone(
            "the result of the first page has expired; begin again without after: "
            f"repository={repo.id} after={spot}"
        ) from error
    except RangeUnsatisfiable:
        raw = b""
    records = [raw[at : at + length] for at in range(0, len(raw), length)]
    if len(raw) != number * length or records != sorted(set(records)):
        raise Corrupt(f"snapshot of a judgement is damaged: repository={repo.id} after={spot}")
    behind = spot._replace(at=spot.at + number)
    return Stretch(records, str(behind) if behind.at < spot.total else "")


def parse_spot(text: str) -> Spot:
    """The place that a page returned.  `Invalid` for any other text."""
    match = _SPOT.fullmatch(text)
    if match is not None:
        spot = Spot(match[1], int(match[2]), int(match[3]))
        if spot.at < spot.total:
            return spot
    raise Invalid(f"after must be the value that the previous page returned: after={text!r:.80}")


def _place(repo: Repository, kind: str, name: str) -> str:
    return address.join(repo.namespace, f"{_FOLDER}/{kind}-{name}")
