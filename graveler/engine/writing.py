"""Staging one change on a branch: the writer's side of the protocol (docs/protocol.md).

    1 record (cached)  →  2 row, if newer  →  3 record (fresh)  →  4 same staging token? done :
    again

A committer seals a token by putting another in its place and scans it afterwards.  A row that
lands in a token after its
scan would be lost; step 3, sent after step 2 was answered, tells.  A deletion is a blind
tombstone: looking first would
lose deletes.  Every failed answer means *unknown*; a later attempt writes with a greater order, so
a late duplicate of an
earlier one cannot win.  Used by objects.py and uploads.py.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed import reader
from graveler.engine.heads import cached, commit_of, fresh
from graveler.engine.ports import Ports, keyspace, operation_deadline
from graveler.errors import Contended, OutcomeUnknown, PreconditionFailed, Unavailable
from graveler.ids import BranchId, StagingToken
from graveler.kv.store import WRITTEN
from graveler.records import ABSENT, TOMBSTONE, Absent, Repository, Staged, StagedValue, Versioned
from graveler.staging import area
from graveler.wire import decode_entry

Present = bytes | Literal[Absent.ABSENT]
# What to stage over what is there (the flag: this very call put it there); may raise to refuse.
Decide = Callable[[Present, bool], StagedValue]


def write(ports: Ports, repo: Repository, branch: BranchId, key: bytes, value: StagedValue) -> None:
    """Stage `value` (or a deletion) at `key`.

    After it returns, every read and every commit that begins sees it.  Errors: `NotFound` (no such
    branch; nothing
    happened), `OutcomeUnknown` (it may or may not show).  Cost: 2 KV requests with a cached
    record, else 3.
    """
    seen = cached(ports, repo, branch)
    wid, order = ports.ids.stamp(), ports.clock.now_ns() // 1_000
    begun = ports.clock.steady_seconds()
    for _ in range(limits.write_attempt_count_max):
        order, written = put_newer(ports, seen.branch.staging, key, value, (wid, order))
        seen, before = _second_read(ports, repo, branch), seen
        if written and seen.branch.staging == before.branch.staging:
            return
        if ports.clock.steady_seconds() - begun > limits.write_attempt_seconds_max:
            break
    raise OutcomeUnknown(f"write kept losing against commits; outcome unknown: branch={branch}")


def put_newer(
    ports: Ports, token: StagingToken, key: bytes, value: StagedValue, mark: tuple[bytes, int]
) -> tuple[int, bool]:
    """Put the row unless a newer one is there; then with a greater order.  `mark` = (wid, order).

    Returns the next order to use and whether the row is known to be there.
    """
    wid, order = mark
    for _ in range(limits.conditional_round_count_max):
        try:
            found = area.stage(
                ports.kv, token, key, value, wid=wid, order=order, version=ports.ids.stamp()
            )
        except OutcomeUnknown:
            return order + 1, False
        if found is WRITTEN or found.wid == wid:
            return order + 1, True
        order = max(order, found.order) + 1
    return order, False


def _second_read(ports: Ports, repo: Repository, branch: BranchId) -> Versioned:
    try:
        return fresh(ports, repo, branch)
    except Unavailable as error:
        raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}") from error


class Look(NamedTuple):
    """What one branch record shows at a path: the row of its open token, and what counts."""

    open_row: Staged | Literal[Absent.ABSENT]
    present: Present
    mine: bool


def write_if(
    ports: Ports,
    repo: Repository,
    branch: BranchId,
    key: bytes,
    decide: Decide,
    own_address: str = "",
) -> None:
    """Stage `decide(what is there)`, with nothing of others in between (If-None-Match,
    read-modify-write).

    What this very call wrote before (its row, or a commit of it: its entry has `own_address`)
    is told to `decide` by its flag.  `decide` refuses by `PreconditionFailed` or `NotFound`; the
    refusal stands only if the branch did not move meanwhile.  Errors besides: `Contended` (nothing
    written), `OutcomeUnknown`.  Cost: 4 KV requests.
    """
    wid, unknown = ports.ids.stamp(), False
    deadline = operation_deadline(ports)
    seen = fresh(ports, repo, branch)
    for _ in range(limits.conditional_round_count_max):
        deadline.check("conditional write")
        look = _look(ports, repo, seen, key, wid, own_address)
        try:
            value = decide(look.present, look.mine)
        except Exception:
            again = fresh(ports, repo, branch)
            if again.branch == seen.branch:
                raise
            seen = again
            continue
        written, unsure = _put_over(ports, seen, key, value, (wid, look))
        unknown = unknown or unsure
        seen, before = _second_read(ports, repo, branch), seen
        if written and seen.branch.staging == before.branch.staging:
            return
    if unknown:
        raise OutcomeUnknown(f"conditional write not confirmed; outcome unknown: branch={branch}")
    raise Contended(f"conditional write kept losing against others: branch={branch}")


def _look(
    ports: Ports, repo: Repository, seen: Versioned, key: bytes, wid: bytes, own_address: str
) -> Look:
    record = seen.branch
    open_row = area.lookup(ports.kv, (record.staging,), key)
    deciding = open_row
    if open_row is ABSENT and record.sealed:
        deciding = area.lookup(ports.kv, record.tokens_newest_first[1:], key)
    if deciding is not ABSENT:
        present: Present = ABSENT if deciding.value is TOMBSTONE else deciding.value
        return Look(open_row, present, deciding.wid == wid)
    head = commit_of(ports, repo, record.commit)
    value = reader.get(keyspace(ports, repo), head.metarange, key)
    mine = value is not ABSENT and decode_entry(value).address == own_address
    return Look(open_row, value, mine)


def _put_over(
    ports: Ports, seen: Versioned, key: bytes, value: StagedValue, how: tuple[bytes, Look]
) -> tuple[bool, bool]:
    """(known to be written, may be written).  `how` = (wid, look)."""
    wid, look = how
    try:
        done = area.stage_if(
            ports.kv,
            seen.branch.staging,
            key,
            value,
            wid=wid,
            version=ports.ids.stamp(),
            seen=look.open_row,
            order=max(
                ports.clock.now_ns() // 1_000,
                0 if look.open_row is ABSENT else look.open_row.order + 1,
            ),
        )
    except OutcomeUnknown:
        return False, True
    return done, not done


def absent_only(path: str, value: bytes) -> Decide:
    """Stage `value` where nothing is; else `PreconditionFailed`."""

    def decide(present: Present, mine: bool) -> StagedValue:
        if present is not ABSENT and not mine:
            raise PreconditionFailed(f"path already exists: path={path}")
        return value

    return decide
