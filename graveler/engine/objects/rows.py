"""Staging rows: the writer's side of the protocol (docs/explanation/protocol.md).

    1 record (cached)  →  2 row, if newer  →  3 record (fresh)  →  4 same staging token? done
                          ▲                                        │ no
                          └────────────────────────────────────────┘
A conditional row lands only while the branch record and the row are those that were read.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    check_writable,
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
from graveler.ids import BranchId, CommitId, StagingToken, parse_branch_id, parse_path
from graveler.kv.store import WRITTEN
from graveler.records import ABSENT, TOMBSTONE, Absent, Entry, Staged, StagedValue, Versioned
from graveler.refs.names import branches
from graveler.staging import area
from graveler.wire import decode_entry, encode_entry

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


def write_row(repo: OpenRepository, branch: BranchId, key: bytes, value: StagedValue) -> None:
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


def write_row_if(
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
            state = path_state(repo, seen, key, attempts)
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


def path_state(
    repo: OpenRepository, seen: Versioned, key: bytes, attempts: WriteState
) -> PathState:
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
    path_state: PathState,
    guard: area.Guard,
    attempts: WriteState,
) -> bool:
    """Compare-and-swap the row that was read in the open token; False if that failed.

    `guard`: the branch record must not have changed.  An unknown outcome is added to the attempts.
    """
    least = 0 if path_state.open_row is ABSENT else path_state.open_row.order + 1
    order = max(ports.clock.now_ns() // 1_000, least)
    try:
        return area.stage_if(
            ports.kv,
            path_state.seen.branch.staging,
            key,
            value,
            wid=attempts.wid,
            version=ports.ids.stamp(),
            seen=path_state.open_row,
            order=order,
            other=guard,
        )
    except OutcomeUnknown:
        attempts.sent.append(UnconfirmedRow(path_state.seen, order, value))
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


@dataclass(frozen=True, slots=True)
class Intent:
    """A write that must take effect once.

    - `wid`: the id that its row carries.
    - `token`, `head`: the branch's open token and commit when the write was intended.
    - `order`: the smallest order of its row in that token.
    """

    wid: bytes
    order: int
    token: StagingToken
    head: CommitId


@dataclass(frozen=True, slots=True)
class _IntendedWrite:
    repo: OpenRepository
    branch: BranchId
    key: bytes
    value: bytes
    intent: Intent


def intend(repo: OpenRepository, branch: str, path: str) -> Intent:
    """A new intent.  The caller must store it before it calls `write`.

    Errors: `NotFound`, `Invalid`.  Cost: 2 KV requests.
    """
    key, name = parse_path(path), parse_branch_id(branch)
    seen = fresh(repo, name).branch
    row = area.lookup(repo.kv, (seen.staging,), key)
    before = 0 if row is ABSENT else row.order
    order = max(repo.clock.now_ns() // 1_000, before + 1)
    return Intent(repo.ids.stamp(), order, seen.staging, seen.commit)


def is_written(repo: OpenRepository, branch: str, path: str, entry: Entry, intent: Intent) -> bool:
    """Whether the write was made, or another write of the path was made after the intent.

    Errors: `NotFound`, `HistoryTooLong`.  Cost: 2 KV requests; if the branch's open token has
    changed, also the commits made since.
    """
    work = _work(repo, branch, path, entry, intent)
    seen = fresh(repo, work.branch)
    return _is_written(work, seen, _rows(work, seen))


def write_once(
    repo: OpenRepository,
    branch: str,
    path: str,
    entry: Entry,
    intent: Intent,
    check: Callable[[], None],
    *,
    force: bool = False,
) -> None:
    """Stage `entry`, unless that was done or the path was written after the intent.

    `check` is called before each attempt; it raises to stop.  Errors: those of `check` and of
    `is_written`; `Refused`, `OutcomeUnknown`.  Cost: that of `is_written`, and 1 KV request.
    """
    check_writable(repo.record, force)
    protection.check_staging(repo, parse_branch_id(branch))
    work = _work(repo, branch, path, entry, intent)
    for _ in range(limits.conditional_round_count_max):
        seen = fresh(repo, work.branch)
        rows = _rows(work, seen)
        if _is_written(work, seen, rows):
            return
        later = _later_sealed(work, seen, rows)
        value = work.value if later is ABSENT else later.value
        check()
        if _put_intended(work, seen, rows.get(seen.branch.staging, ABSENT), value):
            return
    raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}")


def _work(
    repo: OpenRepository, branch: str, path: str, entry: Entry, intent: Intent
) -> _IntendedWrite:
    name, key = parse_branch_id(branch), parse_path(path)
    return _IntendedWrite(repo, name, key, encode_entry(entry), intent)


def _rows(work: _IntendedWrite, seen: Versioned) -> dict[StagingToken, Staged]:
    """The row of the path in each token of the branch and in the token of the intent.

    The rows of the intent's token remain for a grace period after a commit has taken them in.
    """
    tokens = {*seen.branch.tokens_newest_first, work.intent.token}
    places = {token: area.place_of(token, work.key) for token in tokens}
    stored = work.repo.kv.get_many([*places.values()])
    return {token: area.decode(stored[place]) for token, place in places.items() if place in stored}


def _is_written(work: _IntendedWrite, seen: Versioned, rows: dict[StagingToken, Staged]) -> bool:
    intent, record = work.intent, seen.branch
    if any(row.wid == intent.wid for row in rows.values()):
        return True  # the row was written while the token was open, so it took effect
    row, has_moved = rows.get(record.staging, ABSENT), record.staging != intent.token
    if row is not ABSENT and (has_moved or row.order > intent.order):
        # A row took effect for certain if its token is still open after the row was read.
        return fresh(work.repo, work.branch).branch.staging == record.staging
    if not has_moved:
        return False
    later_row = rows.get(intent.token, ABSENT)
    later = (
        later_row.value
        if later_row is not ABSENT and later_row.order > intent.order
        else work.value
    )
    return _is_committed(work, record.commit, (work.value, later))


def _later_sealed(
    work: _IntendedWrite, seen: Versioned, rows: dict[StagingToken, Staged]
) -> Staged | Literal[Absent.ABSENT]:
    """The row that readers see, if it was written after the intent into a token that is sealed now.

    A commit may or may not fold in a row that arrived while its token was sealed.  So such a row
    proves nothing; its value goes into the open token instead of the intended one.
    """
    intent, record = work.intent, seen.branch
    for token in record.tokens_newest_first:
        row = rows.get(token, ABSENT)
        if token == intent.token:
            return row if row is not ABSENT and row.order > intent.order else ABSENT
        if token != record.staging and row is not ABSENT:
            return row
    return ABSENT


def _is_committed(work: _IntendedWrite, head: CommitId, values: tuple[StagedValue, ...]) -> bool:
    """Whether one of the values is in a commit from the intent's head to `head`."""
    space = keyspace(work.repo)
    for entry in history_until(work.repo, head, work.intent.head):
        held = reader.get(space, entry.commit.metarange, work.key)
        if (TOMBSTONE if held is ABSENT else held) in values:
            return True
    return False


def _put_intended(
    work: _IntendedWrite, seen: Versioned, row: Staged | Absent, value: StagedValue
) -> bool:
    """One attempt.  False: the row or the branch has changed, or no answer came.

    At most one of several attempts lands.
    """
    repo = work.repo
    try:
        return area.stage_if(
            repo.kv,
            seen.branch.staging,
            work.key,
            value,
            wid=work.intent.wid,
            version=repo.ids.stamp(),
            seen=row if isinstance(row, Staged) else ABSENT,
            order=work.intent.order,
            other=area.Guard(branches.place(work.repo.record, work.branch), seen.version),
        )
    except OutcomeUnknown:
        return False


def encoded(intent: Intent) -> dict[str, str]:
    """The intent as pairs of text, for a KV record.  Pure."""
    return {
        "wid": intent.wid.hex(),
        "order": str(intent.order),
        "token": intent.token,
        "head": intent.head,
    }


def decoded(fields: dict[str, str]) -> Intent:
    """The intent that `encoded` wrote.  Pure."""
    token, head = StagingToken(fields["token"]), CommitId(fields["head"])
    return Intent(bytes.fromhex(fields["wid"]), int(fields["order"]), token, head)
