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

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed import reader
from graveler.engine.heads import cached, commit_of, fresh
from graveler.engine.ports import Ports, keyspace, operation_deadline
from graveler.engine.sealing import history_until
from graveler.errors import (
    Contended,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.ids import BranchId, StagingToken
from graveler.kv.store import WRITTEN
from graveler.records import ABSENT, TOMBSTONE, Absent, Repository, Staged, StagedValue, Versioned
from graveler.refs import branches
from graveler.staging import area
from graveler.wire import decode_entry

Present = bytes | Literal[Absent.ABSENT]
# What to stage over what is there (the flag: this very call put it there); may raise to refuse.
Decide = Callable[[Present, bool], StagedValue]
_PAUSE_SECONDS = 0.002  # a commit that decides the fate of a row takes some of these
_PAUSE_SECONDS_MAX = 0.1


def write(ports: Ports, repo: Repository, branch: BranchId, key: bytes, value: StagedValue) -> None:
    """Stage `value` (or a deletion) at `key`.

    After it returns, every read and every commit that begins sees it.  Errors: `NotFound` (no such
    branch; nothing happened), `OutcomeUnknown` (it may or may not show).
    Cost: 2 KV requests with a cached record, else 3.
    """
    seen = cached(ports, repo, branch)
    wid, order = ports.ids.stamp(), ports.clock.now_ns() // 1_000
    begun = ports.clock.steady_seconds()
    for attempt in range(limits.write_attempt_count_max):
        order, written = put_newer(ports, seen.branch.staging, key, value, (wid, order))
        before = seen.branch.staging
        seen = _second_read(ports, repo, branch, ABSENT if attempt else before)
        if written and seen.branch.staging == before:
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


def _second_read(
    ports: Ports, repo: Repository, branch: BranchId, only: StagingToken | Absent
) -> Versioned:
    """The record after a row was sent.  `only`: the one token that a row was sent to, if one.

    A branch that was deleted with that token open dropped the row before any commit saw it: not
    found, and nothing happened.  With another one open, a commit may have taken the row.
    """
    try:
        found = branches.find(ports.kv, repo, branch)
    except Unavailable as error:
        raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}") from error
    if found is not ABSENT and found.branch.live:
        ports.cache.put_branch(repo, branch, found)
        return found
    ports.cache.forget_branch(repo, branch)
    if found is ABSENT or found.branch.staging == only:
        raise NotFound(f"branch '{branch}' not found")
    raise OutcomeUnknown(f"branch was deleted during the write; outcome unknown: branch={branch}")


# ---- conditional writes --------------------------------------------------------------------------


class Sent(NamedTuple):
    """A row that one round sent; `landed`: surely."""

    token: StagingToken
    order: int
    value: StagedValue
    landed: bool


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
    """Stage `decide(what is there)`, with nothing of others in between (If-None-Match, or read,
    modify, write).

    What this very call wrote before (its row, a commit of it, an entry with `own_address`) is told
    to `decide` by its flag.  `decide` refuses by `PreconditionFailed` or `NotFound`; a refusal is
    passed on only if the branch did not move meanwhile and no row of this call can have counted.
    Errors besides: `Contended` (nothing written), `OutcomeUnknown`.  Cost: 4 KV requests.
    """
    wid, sent = ports.ids.stamp(), list[Sent]()
    deadline = operation_deadline(ports)
    first = seen = fresh(ports, repo, branch)
    for attempt in range(limits.conditional_round_count_max):
        deadline.check("conditional write")
        look = _look(ports, repo, seen, key, (wid, sent, own_address))
        try:
            value = decide(look.present, look.mine)
        except (PreconditionFailed, NotFound):
            again = fresh(ports, repo, branch)
            if again.branch != seen.branch:
                seen = again
                continue
            fate = _fate(ports, repo, key, (first, seen), (wid, sent))
            if fate == "took effect":
                return
            if fate == "none":
                raise
            ports.clock.sleep(min(_PAUSE_SECONDS * 2**attempt, _PAUSE_SECONDS_MAX))
            seen = fresh(ports, repo, branch)
            continue
        row = _put_over(ports, seen, key, value, (wid, look))
        sent += [row] if row is not None else []
        only = sent[0].token if len(sent) == 1 else ABSENT
        before = seen.branch.staging
        seen = _second_read(ports, repo, branch, only if sent else before)
        if row is not None and row.landed and seen.branch.staging == before:
            return
    if sent:
        raise OutcomeUnknown(f"conditional write not confirmed; outcome unknown: branch={branch}")
    raise Contended(f"conditional write kept losing against others: branch={branch}")


def _look(
    ports: Ports,
    repo: Repository,
    seen: Versioned,
    key: bytes,
    ours: tuple[bytes, Sequence[Sent], str],
) -> Look:
    wid, sent, own_address = ours
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
    if value is ABSENT:
        return Look(open_row, value, False)
    mine = any(value == each.value for each in sent) or (
        own_address != "" and decode_entry(value).address == own_address
    )
    return Look(open_row, value, mine)


def _put_over(
    ports: Ports, seen: Versioned, key: bytes, value: StagedValue, how: tuple[bytes, Look]
) -> Sent | None:
    """Swap the open token's row, as it was looked at, for ours; None: surely not.  `how` = (wid,
    look)."""
    wid, look = how
    token = seen.branch.staging
    least = 0 if look.open_row is ABSENT else look.open_row.order + 1
    order = max(ports.clock.now_ns() // 1_000, least)
    stamp = ports.ids.stamp()
    try:
        done = area.stage_if(
            ports.kv, token, key, value, wid=wid, version=stamp, seen=look.open_row, order=order
        )
    except OutcomeUnknown:
        return Sent(token, order, value, False)
    return Sent(token, order, value, True) if done else None


def _fate(
    ports: Ports,
    repo: Repository,
    key: bytes,
    records: tuple[Versioned, Versioned],
    ours: tuple[bytes, Sequence[Sent]],
) -> Literal["took effect", "none", "open"]:
    """What became of the rows that this call sent, now that somebody else's value is there.

    A row in a token that the branch still names may be in the scan of a commit that is not
    installed yet: open.  Else it counted if a commit since the first record holds it.
    """
    (first, now), (wid, sent) = records, ours
    for each in sent:
        if each.token not in now.branch.tokens_newest_first:
            continue
        row = area.lookup(ports.kv, (each.token,), key)
        overtaken = row is not ABSENT and row.wid != wid and row.order < each.order
        if each.landed or not overtaken:  # orders only grow: a smaller one was never put over ours
            return "open"
    if sent:
        space = keyspace(ports, repo)
        for entry in history_until(ports, repo, now.branch.commit, first.branch.commit):
            held = reader.get(space, entry.commit.metarange, key)
            if any(held == each.value for each in sent):
                return "took effect"
    return "none"


def absent_only(path: str, value: bytes) -> Decide:
    """Stage `value` where nothing is; else `PreconditionFailed`."""

    def decide(present: Present, mine: bool) -> StagedValue:
        if present is not ABSENT and not mine:
            raise PreconditionFailed(f"path already exists: path={path}")
        return value

    return decide
