"""Pull requests: proposals to merge one branch into another, by time, the newest first.

    absent ──create──► open ◄──update──► closed        every change is a compare-and-swap
                        └───merge───► merged ──update──► open (the next opening)

Records are never removed.  An index has a row for both branches of every request that is open or
was once; rows are written before a request opens.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import Code, NotFound
from graveler.core.ids import BranchId, PullId
from graveler.core.records import ABSENT, Absent, PullRequest, PullState, Repository
from graveler.kv.replace import Found, replace_row, replace_seen
from graveler.kv.store import Store, Write
from graveler.refs import rows
from graveler.refs.keys import OPEN_PULLS, PULLS, open_pull_key, pull_key, space

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_TIME_LENGTH = 13  # 65 bits
_RANDOM_LENGTH = 7
_END_OF_TIME_NS = 2**63 - 1
Changed = PullRequest | Literal[Absent.ABSENT]


class PullQuery(NamedTuple):
    """One page: at most `amount` requests in one of `states`, whose ids begin with `prefix` and
    come after `after`.  `rows_max`: how many requests it may look at."""

    states: Collection[PullState]
    prefix: str = ""
    after: str = ""
    amount: int = limits.page_count_default
    rows_max: int = limits.pull_page_rows_max


class PullPage(NamedTuple):
    """The requests of a page, and the id after which the next one begins; empty: there is none."""

    pulls: tuple[PullRequest, ...]
    following: str


def new_id(now_ns: int, ids: Ids) -> PullId:
    """A fresh id, smaller than all ids of earlier nanoseconds."""
    left = _END_OF_TIME_NS - now_ns
    time = "".join(_DIGITS[left >> 5 * place & 31] for place in reversed(range(_TIME_LENGTH)))
    return PullId(time + ids.unique(_RANDOM_LENGTH))


def get(kv: Store, repository: Repository, pull: PullId) -> PullRequest:
    """The pull request.  Raises `NotFound`.  One request."""
    row = kv.get(space(repository), pull_key(pull))
    if row is ABSENT:
        raise _not_found(pull)
    return wire.decode_pull(row.value)


def _not_found(pull: PullId) -> NotFound:
    return NotFound(f"pull request not found: {pull=}", Code.PULL_NOT_FOUND, pull=pull)


def create(kv: Store, repository: Repository, pull: PullRequest, ids: Ids) -> None:
    """Store a request with a fresh id.  `OutcomeUnknown`.  One request."""

    def change(row: Found, _: bool) -> bytes | Literal[Absent.ABSENT]:
        return wire.encode_pull(pull) if row is ABSENT else ABSENT

    replace_seen(kv, (space(repository), pull_key(pull.id)), ids, change, ABSENT)


def change(
    kv: Store,
    repository: Repository,
    pull: PullId,
    ids: Ids,
    change_of: Callable[[PullRequest, bool], Changed],
) -> None:
    """Replace the record by the result of `change_of`; ABSENT leaves it as it is.

    `change_of` gets the record, and whether an earlier write of this call may have been applied and
    replaced since; it may raise to refuse.
    Errors: those of `change_of`, `NotFound`, `Contended`, `OutcomeUnknown`.  Two requests.
    """

    def changed(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if row is ABSENT:
            raise _not_found(pull)
        record = change_of(wire.decode_pull(row.value), lost)
        return ABSENT if record is ABSENT else wire.encode_pull(record)

    replace_row(kv, (space(repository), pull_key(pull)), ids, changed)


def list_page(kv: Store, repository: Repository, query: PullQuery) -> PullPage:
    """A page, the newest request first.

    After `query.rows_max` requests, also of other states, the page ends, even if it is empty.
    """
    stretch = rows.Stretch(space(repository), PULLS, query.prefix, query.after)
    lines: list[PullRequest] = []
    for number, (name, row) in enumerate(rows.rows(kv, stretch, query.amount + 1), start=1):
        record = wire.decode_pull(row.value)
        if record.state in query.states:
            if len(lines) == query.amount:
                return PullPage(tuple(lines), lines[-1].id)
            lines.append(record)
        if number == query.rows_max:
            return PullPage(tuple(lines), name)
    return PullPage(tuple(lines), "")


# ---- the index by branch -------------------------------------------------------------------------


def note_open(kv: Store, repository: Repository, pull: PullRequest, stamp: bytes) -> None:
    """Put the request into the index of both branches, before it opens.  One request."""
    partition, value = space(repository), wire.encode_pairs({})
    rows.put_all(
        kv,
        [
            Write(partition, open_pull_key(branch, pull.id), value, stamp)
            for branch in (pull.source, pull.destination)
        ],
    )


def maybe_open(kv: Store, repository: Repository, branch: BranchId) -> Iterator[PullId]:
    """The requests from or into a branch that are open or were once.  One request for each
    1,000."""
    stem = f"{branch}/"
    stretch = rows.Stretch(space(repository), OPEN_PULLS, stem)
    return (PullId(name.removeprefix(stem)) for name, _ in rows.rows(kv, stretch))
