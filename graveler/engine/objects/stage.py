"""Staging one change on a branch: the writer's side of the protocol (docs/explanation/protocol.md).

    1 record (cached)  →  2 row, if newer  →  3 record (fresh)  →  4 same staging token? done
                          ▲                                        │ no
                          └────────────────────────────────────────┘

- A committer seals a token by putting another token in its place, and then scans the old one.  A
  row that lands after the scan would be lost.  Step 3 detects this, because it starts after
  step 2 was answered.
- A deletion is a tombstone that is written without reading first.  Reading first would lose
  deletions.
- A failed answer means *unknown*.  A later attempt writes with a greater `order`, so a late
  duplicate of an earlier attempt cannot overwrite it.

Used by write.py, and through it by every verb that stages an entry.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from graveler import limits
from graveler.block.adapter import OVERWRITE, Mode, PutMode, Update
from graveler.committed import reader
from graveler.engine import protection
from graveler.engine.commits.heads import cached, commit_of, fresh
from graveler.engine.commits.search import history_until
from graveler.engine.ports import (
    OpenRepository,
    Ports,
    UnconfirmedWrite,
    keyspace,
    operation_deadline,
)
from graveler.errors import (
    Code,
    Contended,
    HistoryTooLong,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.ids import BranchId, StagingToken
from graveler.kv.store import WRITTEN
from graveler.records import ABSENT, TOMBSTONE, Absent, Entry, Staged, StagedValue, Versioned
from graveler.refs.names import branches
from graveler.staging import area
from graveler.wire import decode_entry

_MARK_LENGTH = 16  # the length of a stamp
Present = bytes | Literal[Absent.ABSENT]
# Takes the present value, and whether this call itself wrote it; returns the value to stage, or
# raises to refuse.
Decide = Callable[[Present, bool], StagedValue]


class OnlyIf(NamedTuple):
    """The condition of a write: `holds`, of the entry that the path has at that moment.

    `finds`: a path without an entry is `NotFound`, and not `PreconditionFailed`.
    """

    holds: Callable[[Entry | Literal[Absent.ABSENT]], bool]
    finds: bool = False


Condition = Mode | OnlyIf


def write(repo: OpenRepository, branch: BranchId, key: bytes, value: StagedValue) -> None:
    """Stage `value` (an entry or a tombstone) at `key`.

    Every read and every commit that begins after the return sees the value.
    Errors: `NotFound` (no such branch; nothing happened), `Refused` (a protected branch; nothing
    happened), `OutcomeUnknown` (the value may or may not become visible).
    Cost: 2 KV requests with a cached record, else 3.
    """
    protection.check_staging(repo, branch)
    with UnconfirmedWrite("write") as unconfirmed:
        _write(repo, branch, key, value, unconfirmed)


def _write(
    repo: OpenRepository,
    branch: BranchId,
    key: bytes,
    value: StagedValue,
    unconfirmed: UnconfirmedWrite,
) -> None:
    seen = cached(repo, branch)
    wid, order = repo.ids.stamp(), repo.clock.now_ns() // 1_000
    begun = repo.clock.steady_seconds()
    for attempt in range(limits.write_attempt_count_max):
        order, written = put_newer(repo, seen.branch.staging, key, value, wid, order)
        before = seen.branch.staging
        seen = second_read(repo, branch, ABSENT if attempt else before)
        if written and seen.branch.staging == before:
            return
        unconfirmed.mark_unconfirmed()
        if repo.clock.steady_seconds() - begun > limits.write_attempt_seconds_max:
            break
    raise OutcomeUnknown(f"write kept losing to commits; outcome unknown: branch={branch}")


def put_newer(
    ports: Ports, token: StagingToken, key: bytes, value: StagedValue, wid: bytes, order: int
) -> tuple[int, bool]:
    """Put the row into `token`.  If a newer row is there, retry with a greater order.

    `wid`: the id of this write.  `order`: the order to begin with, in microseconds.
    Returns the next order to use, and whether the row is known to be written.
    """
    for _ in range(limits.conditional_round_count_max):
        try:
            outcome = area.stage(
                ports.kv, token, key, value, wid=wid, order=order, version=ports.ids.stamp()
            )
        except OutcomeUnknown:
            return order + 1, False
        if outcome is WRITTEN or outcome.wid == wid:
            return order + 1, True
        order = max(order, outcome.order) + 1
    return order, False


def put_many_newer(
    ports: Ports,
    token: StagingToken,
    keys: Sequence[bytes],
    value: StagedValue,
    wid: bytes,
    orders: Mapping[bytes, int],
) -> list[tuple[int, bool]]:
    """As `put_newer`, for rows with the same value at different keys, each with its own order of
    `orders`.  Returns what `put_newer` returns, in the order of `keys`."""
    rows = [area.NewRow(token, key, value, wid, orders[key]) for key in keys]
    results: dict[bytes, tuple[int, bool]] = {}
    for key, result in zip(keys, put_rows_newer(ports, rows), strict=True):
        if isinstance(result, Unavailable):
            raise result
        results[key] = result
    return [results[key] for key in keys]


def put_rows_newer(
    ports: Ports, rows: Sequence[area.NewRow]
) -> list[tuple[int, bool] | Unavailable]:
    """As `put_newer`, for rows at different places.  Returns for each row what `put_newer` returns,
    or the `Unavailable` that it would raise."""
    results: dict[int, tuple[int, bool] | Unavailable] = {}
    rest = dict(enumerate(rows))
    for _ in range(limits.conditional_round_count_max):
        if not rest:
            break
        sent = list(rest.items())
        outcomes = area.stage_many(ports.kv, [row for _, row in sent], ports.ids)
        for (number, row), outcome in zip(sent, outcomes, strict=True):
            if isinstance(outcome, OutcomeUnknown):
                results[number] = row.order + 1, False
            elif isinstance(outcome, Unavailable):
                results[number] = outcome
            elif outcome is WRITTEN or outcome.wid == row.wid:
                results[number] = row.order + 1, True
            else:
                rest[number] = row._replace(order=max(row.order, outcome.order) + 1)
                continue
            del rest[number]
    kept_losing = {number: (row.order, False) for number, row in rest.items()}
    results |= kept_losing
    return [results[number] for number in range(len(rows))]


def second_read(repo: OpenRepository, branch: BranchId, only: StagingToken | Absent) -> Versioned:
    """The branch record, read after a row was sent (step 3).

    `only`: the token that rows were sent to, if it was a single one.  If the branch was deleted
    while that token was open, no commit has seen the row: `NotFound`, and nothing happened.  If
    another token was open, a commit may contain the row: `OutcomeUnknown`.
    """
    try:
        record = branches.find(repo.kv, repo.record, branch)
    except Unavailable as error:
        raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}") from error
    if record is not ABSENT and record.branch.live:
        repo.cache.put_branch(repo.record, branch, record)
        return record
    repo.cache.forget_branch(repo.record, branch)
    if record is ABSENT or record.branch.staging == only:
        raise NotFound(f"branch '{branch}' not found", Code.BRANCH_NOT_FOUND, branch=branch)
    raise OutcomeUnknown(f"branch was deleted during the write; outcome unknown: branch={branch}")


# ---- conditional writes --------------------------------------------------------------------------


class UnconfirmedRow(NamedTuple):
    """A conditional row whose answer was lost.

    `over`: the branch record that guarded the write.  `order` and `value`: those of the row.
    """

    over: Versioned
    order: int
    value: StagedValue


class WriteState(NamedTuple):
    """A conditional write and its attempts so far.

    `wid`: the id of its rows.  `own`: as in `write_if`.  `sent`: the rows whose answer was lost.
    """

    wid: bytes
    own: Entry | Literal[Absent.ABSENT]
    sent: list[UnconfirmedRow]


class PathState(NamedTuple):
    """The state of a path under one branch record.

    `seen`: the record.  `open_row`: the row in the open token.  `present`: the visible value.
    `mine`: this call wrote the visible value.
    """

    seen: Versioned
    open_row: Staged | Literal[Absent.ABSENT]
    present: Present
    mine: bool


def write_if(
    repo: OpenRepository,
    branch: BranchId,
    key: bytes,
    decide: Decide,
    own: Entry | Literal[Absent.ABSENT] = ABSENT,
) -> None:
    """Stage `decide(present value)` with no other write in between (conditional write).

    The store writes the row only while the branch record is the one that was read, so the row never
    lands in a sealed token.  The flag of `decide` is true for a value that this call wrote (its
    answer was lost), and for that of an earlier conditional call with the entry `own`: a staged row
    of the same address, or a committed entry that differs in its time only.
    `decide` refuses with `PreconditionFailed` or `NotFound`; that error is raised only if the
    branch did not change meanwhile and no write of this call took effect.
    Other errors: `Refused` (a protected branch), `Contended` (nothing written), `OutcomeUnknown`.
    Cost: 3 KV requests.
    """
    protection.check_staging(repo, branch)
    wid = _mark(own.address) if own is not ABSENT else repo.ids.stamp()
    attempts = WriteState(wid, own, [])
    deadline = operation_deadline(repo)
    seen = fresh(repo, branch)
    with UnconfirmedWrite("conditional write") as unconfirmed:
        for _ in range(limits.conditional_round_count_max):
            deadline.check("conditional write")
            state = look(repo, seen, key, attempts)
            try:
                value = decide(state.present, state.mine)
            except (PreconditionFailed, NotFound):
                again = fresh(repo, branch)
                if again.branch != seen.branch:
                    seen = again
                    continue
                if attempts.sent and _counted(repo, key, seen, attempts):
                    return
                raise
            guard = area.Guard(branches.place(repo.record, branch), seen.version)
            if _put_over(repo, key, value, state, guard, attempts):
                return
            if attempts.sent:
                unconfirmed.mark_unconfirmed()
            seen = fresh(repo, branch)
    if attempts.sent:
        raise OutcomeUnknown(f"conditional write not confirmed; outcome unknown: branch={branch}")
    raise Contended(f"conditional write kept losing to other writers; try again: branch={branch}")


def look(repo: OpenRepository, seen: Versioned, key: bytes, attempts: WriteState) -> PathState:
    """The state of a path under the record `seen`, as a call with these attempts sees it.

    Cost: 1 KV request; without a row, also the read of the path in the commit.
    """
    record = seen.branch
    open_row = area.lookup(repo.kv, (record.staging,), key)
    deciding = open_row
    if open_row is ABSENT and record.sealed:
        deciding = area.lookup(repo.kv, record.tokens_newest_first[1:], key)
    if deciding is not ABSENT:
        present: Present = ABSENT if deciding.value is TOMBSTONE else deciding.value
        return PathState(seen, open_row, present, deciding.wid == attempts.wid)
    head = commit_of(repo, record.commit)
    value = reader.get(keyspace(repo), head.metarange, key)
    if value is ABSENT:
        return PathState(seen, open_row, value, False)
    was_sent = any(value == row.value for row in attempts.sent)
    is_own = was_sent or _is_same(value, attempts.own)
    return PathState(seen, open_row, value, is_own)


def _mark(own_address: str) -> bytes:
    """The `wid` that all conditional calls with one address share.

    A retry recognizes the row of the first conditional call by this id.  A row that an
    unconditional call staged with the same address has another id.
    """
    return hashlib.blake2b(own_address.encode(), digest_size=_MARK_LENGTH).digest()


def _is_same(value: bytes, own: Entry | Literal[Absent.ABSENT]) -> bool:
    """Whether a committed value is the entry of this call or of its earlier attempts.  One with the
    same address and other metadata was changed since."""
    if own is ABSENT:
        return False
    return decode_entry(value)._replace(modified_ns=0) == own._replace(modified_ns=0)


def _put_over(
    ports: Ports,
    key: bytes,
    value: StagedValue,
    look: PathState,
    guard: area.Guard,
    attempts: WriteState,
) -> bool:
    """Compare-and-swap the row that was read in the open token; False if that failed.

    `guard`: the branch record must not have changed.  An unknown outcome is added to the attempts.
    """
    least = 0 if look.open_row is ABSENT else look.open_row.order + 1
    order = max(ports.clock.now_ns() // 1_000, least)
    try:
        return area.stage_if(
            ports.kv,
            look.seen.branch.staging,
            key,
            value,
            wid=attempts.wid,
            version=ports.ids.stamp(),
            seen=look.open_row,
            order=order,
            other=guard,
        )
    except OutcomeUnknown:
        attempts.sent.append(UnconfirmedRow(look.seen, order, value))
        return False


def _counted(repo: OpenRepository, key: bytes, now: Versioned, attempts: WriteState) -> bool:
    """Whether a row whose answer was lost took effect before another client's value replaced it.

    Raises `OutcomeUnknown` if that cannot be determined, or if the row may still land.
    """
    surely_not = True
    for sent in attempts.sent:
        token = sent.over.branch.staging
        row = area.lookup(repo.kv, (token,), key)
        if row is not ABSENT and row.wid == attempts.wid:
            return True
        # Orders only grow, so a row of smaller order was never written over ours.
        beaten = row is not ABSENT and row.order < sent.order
        late = sent.over.version == now.version and not beaten
        named = token in now.branch.tokens_newest_first
        surely_not = surely_not and not late and (beaten or (named and row is ABSENT))
    space = keyspace(repo)
    with suppress(HistoryTooLong):
        oldest = attempts.sent[0].over.branch.commit
        for entry in history_until(repo, now.branch.commit, oldest):
            held = reader.get(space, entry.commit.metarange, key)
            if any(held == sent.value for sent in attempts.sent):
                return True
    if surely_not:
        return False
    raise OutcomeUnknown("conditional write not confirmed; outcome unknown")


def conditional(path: str, value: StagedValue, mode: Condition) -> Decide:
    """A `Decide` that stages `value` if the present entry satisfies `mode` (see `check_mode`)."""

    def decide(present: Present, is_own: bool) -> StagedValue:
        if not is_own:
            check_mode(path, present, mode)
        return value

    return decide


def check_mode(path: str, present: Present, mode: Condition) -> None:
    """Raise an error unless `present`, the value of a path, satisfies `mode`.  Pure.

    `CREATE`: the path must be absent, else `PreconditionFailed`.  `Update`: the path must have an
    entry, else `NotFound`, and the entry's checksum must be the etag, else `PreconditionFailed`.
    `OnlyIf`: it must hold, else `PreconditionFailed`.
    """
    if mode is OVERWRITE:
        return
    if isinstance(mode, PutMode):  # CREATE
        if present is not ABSENT:
            raise PreconditionFailed(
                f"path already exists: path={path}", Code.PATH_EXISTS, path=path
            )
        return
    if present is ABSENT and (isinstance(mode, Update) or mode.finds):
        raise not_found(path)
    entry = ABSENT if present is ABSENT else decode_entry(present)
    if isinstance(mode, OnlyIf):
        holds = mode.holds(entry)
    else:
        holds = entry is not ABSENT and entry.checksum == mode.etag
    if not holds:
        raise PreconditionFailed(f"path does not satisfy the condition of the request: path={path}")


def not_found(path: str) -> NotFound:
    """The error for a path that has no entry."""
    return NotFound(f"path not found: path={path}", Code.PATH_NOT_FOUND, path=path)
