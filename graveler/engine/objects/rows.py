"""Staging rows: the writer's side of the protocol (docs/explanation/protocol.md).

    1 record (cached)  →  2 row, if newer  →  3 record (fresh)  →  4 same staging token? done
                          ▲                                        │ no
                          └────────────────────────────────────────┘
A conditional row lands only while the branch record and the row are those that were read.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from graveler.block.adapter import OVERWRITE, Mode, PutMode, Update
from graveler.committed import reader
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Contended,
    GravelerError,
    HistoryTooLong,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.ids import BranchId, CommitId, StagingToken, parse_branch_id, parse_path
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Branch,
    Entry,
    Staged,
    StagedValue,
    Versioned,
)
from graveler.core.wire import decode_entry, encode_entry
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
from graveler.kv.store import WRITTEN
from graveler.refs import branches
from graveler.staging import area

_MARK_LENGTH = 16  # the length of a stamp
Present = bytes | Literal[Absent.ABSENT]
# Takes the present value, and whether this call itself wrote it; returns the value to stage, or
# raises to refuse.
Decide = Callable[[Present, bool], StagedValue]
_Sent = tuple[int, bool]  # the next order to use, and whether the row is known to be written


class RowWrite(NamedTuple):
    """A value (an entry or a tombstone) to stage at a path of a branch."""

    repo: OpenRepository
    branch: BranchId
    key: bytes
    value: StagedValue


class KeptLosing(OutcomeUnknown):
    """Each row that was sent met a seal of its token; some commit may contain one of them."""


def check_target(
    repo: OpenRepository, branch: str, path: str, *, force: bool = False
) -> tuple[BranchId, bytes]:
    """The branch and the key of a path to write.  Raises `Invalid`, `Refused`.  No request."""
    key, name = parse_path(path), parse_branch_id(branch)
    check_writable(repo.record, force)
    return name, key


def stage_row(repo: OpenRepository, branch: BranchId, key: bytes, value: StagedValue) -> None:
    """Stage one value; errors as of `stage_rows`.  Cost: 2 KV requests with a cached record, else
    3."""
    (error,) = stage_rows([RowWrite(repo, branch, key, value)])
    if error is not None:
        raise error


def stage_rows(writes: Sequence[RowWrite], parts: int = 1) -> list[GravelerError | None]:
    """Stage values at paths of any branches and repositories of one store; the error of each.

    Every read and every commit that begins after the return sees a value without an error.  Of
    several values for one path only the last is staged, and all get its outcome.  The rows are sent
    in `parts`, with a fan-out; the embedded store shares one sync among those of a part.
    Errors: `NotFound` (no such branch) and `Refused` (a protected branch): nothing happened;
    `OutcomeUnknown`: the value may or may not become visible; `KeptLosing` is one.
    """
    if not writes:
        return []
    errors: dict[int, GravelerError | None] = {}
    places = [(write.repo.record.uid, write.branch, write.key) for write in writes]
    last = dict(zip(places, range(len(writes)), strict=True))
    pending = _begun(writes, last.values(), errors)
    while pending:
        _send(pending, errors, parts)
        pending = [each for each in pending if each.number not in errors]
    return [errors[last[place]] for place in places]


@dataclass(slots=True)
class _PendingRow:
    """A row on its way: the token and the order of its next attempt, and how many were sent."""

    number: int
    write: RowWrite
    wid: bytes
    order: int
    token: StagingToken
    begun_seconds: float
    unconfirmed: UnconfirmedWrite
    attempts: int = 0


def _begun(
    writes: Sequence[RowWrite], numbers: Iterable[int], errors: dict[int, GravelerError | None]
) -> list[_PendingRow]:
    """The rows with these numbers, which are at different places, so that they may share an id and
    an order.  What cannot begin has its error in `errors`."""
    ports = writes[0].repo
    wid, order = ports.ids.stamp(), ports.clock.now_ns() // 1_000
    begun = ports.clock.steady_seconds()
    tokens: dict[tuple[str, BranchId], StagingToken | GravelerError] = {}
    pending: list[_PendingRow] = []
    for number in numbers:
        write = writes[number]
        place = write.repo.record.uid, write.branch
        if place not in tokens:
            try:
                protection.check_staging(write.repo, write.branch)
                tokens[place] = cached(write.repo, write.branch).branch.staging
            except GravelerError as error:
                tokens[place] = error
        token = tokens[place]
        if isinstance(token, GravelerError):
            errors[number] = token
        else:
            unconfirmed = UnconfirmedWrite("write")
            pending.append(_PendingRow(number, write, wid, order, token, begun, unconfirmed))
    return pending


def _send(
    pending: Sequence[_PendingRow], errors: dict[int, GravelerError | None], parts: int
) -> None:
    """Send each row once, and read the branch records; what ends gets its outcome in `errors`."""
    rows = [
        area.NewRow(each.token, each.write.key, each.write.value, each.wid, each.order)
        for each in pending
    ]
    ports = pending[0].write.repo
    outcomes = _put_rows(ports, rows) if parts == 1 else _put_parts(ports, rows, parts)
    reads: dict[tuple[object, ...], Versioned | GravelerError] = {}
    for each, outcome in zip(pending, outcomes, strict=True):
        each.attempts += 1
        try:
            with each.unconfirmed:
                if isinstance(outcome, GravelerError):
                    raise outcome
                each.order, is_written = outcome
                if _is_done(each, is_written, reads):
                    errors[each.number] = None
        except GravelerError as error:
            errors[each.number] = error


def _is_done(
    row: _PendingRow, is_written: bool, reads: dict[tuple[object, ...], Versioned | GravelerError]
) -> bool:
    """Steps 3 and 4.  If the row is not done, its next attempt goes to the token open now."""
    before, branch = row.token, row.write.branch
    only: StagingToken | Absent = before if row.attempts == 1 else ABSENT
    key = row.write.repo.record.uid, branch, only
    if key not in reads:
        try:
            reads[key] = _second_read(row.write.repo, branch, only)
        except GravelerError as error:
            reads[key] = error
    seen = reads[key]
    if isinstance(seen, GravelerError):
        raise seen
    row.token = seen.branch.staging
    if is_written and row.token == before:
        return True
    row.unconfirmed.mark_unconfirmed()
    seconds = row.write.repo.clock.steady_seconds() - row.begun_seconds
    is_late = seconds > limits.write_attempt_seconds_max
    if is_late or row.attempts >= limits.write_attempt_count_max:
        raise KeptLosing(f"write kept losing to commits; outcome unknown: branch={branch}")
    return False


def _put_parts(
    ports: Ports, rows: Sequence[area.NewRow], parts: int
) -> list[_Sent | GravelerError]:
    size = -(-len(rows) // parts)
    shares = [rows[at : at + size] for at in range(0, len(rows), size)]
    return list(chain(*ports.fanout.map(lambda share: _put_rows(ports, share), shares)))


def _put_rows(ports: Ports, rows: Sequence[area.NewRow]) -> list[_Sent | GravelerError]:
    """Step 2.  If the call fails, as for a stored row that is damaged, each row is sent alone: what
    was written before has its own id."""
    try:
        return _put_newer(ports, rows)
    except GravelerError as error:
        if len(rows) == 1:
            return [error]
        return [_put_rows(ports, [row])[0] for row in rows]


def _put_newer(ports: Ports, rows: Sequence[area.NewRow]) -> list[_Sent | GravelerError]:
    """Put the rows.  Where a newer one is stored, send again with a greater order."""
    results: dict[int, _Sent | GravelerError] = {}
    rest = dict(enumerate(rows))
    for _ in range(limits.conditional_round_count_max):
        if not rest:
            break
        outcomes = area.stage(ports.kv, list(rest.values()), ports.ids)
        for (number, row), outcome in zip(list(rest.items()), outcomes, strict=True):
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
    for number, row in rest.items():
        results[number] = row.order, False
    return [results[number] for number in range(len(rows))]


def _second_read(repo: OpenRepository, branch: BranchId, only: StagingToken | Absent) -> Versioned:
    """Step 3.  `only`: the token that rows were sent to, if it was a single one.

    If the branch was deleted while that token was open, no commit has seen the row: `NotFound`.  If
    another token was open, a commit may contain it: `OutcomeUnknown`.
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


class OnlyIf(NamedTuple):
    """The condition of a write: `holds`, of the entry that the path has at that moment.

    `finds`: a path without an entry is `NotFound`, and not `PreconditionFailed`.
    """

    holds: Callable[[Entry | Literal[Absent.ABSENT]], bool]
    finds: bool = False


Condition = Mode | OnlyIf


class UnconfirmedRow(NamedTuple):
    """A conditional row whose answer was lost, and the branch record that guarded the write."""

    over: Versioned
    order: int
    value: StagedValue


class WriteState(NamedTuple):
    """A conditional write: the id of its rows, the caller's entry, the rows without an answer."""

    wid: bytes
    own: Entry | Literal[Absent.ABSENT]
    sent: list[UnconfirmedRow]


class PathState(NamedTuple):
    """A path under one branch record: the row in the open token, the visible value, and whether
    this call wrote it."""

    open_row: Staged | Literal[Absent.ABSENT]
    present: Present
    mine: bool


def stage_row_if(
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
            if _put_if(RowWrite(repo, branch, key, value), seen, state, attempts):
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
    """The path under the record `seen`.  1 KV request; without a row, also a read of the commit."""
    record = seen.branch
    open_row = area.lookup(repo.kv, (record.staging,), key)
    deciding = open_row
    if open_row is ABSENT and record.sealed:
        deciding = area.lookup(repo.kv, record.tokens_newest_first[1:], key)
    if deciding is not ABSENT:
        present: Present = ABSENT if deciding.value is TOMBSTONE else deciding.value
        return PathState(open_row, present, deciding.wid == attempts.wid)
    head = commit_of(repo, record.commit)
    value = reader.get(keyspace(repo), head.metarange, key)
    if value is ABSENT:
        return PathState(open_row, value, False)
    was_sent = any(value == row.value for row in attempts.sent)
    return PathState(open_row, value, was_sent or _is_same(value, attempts.own))


def _mark(own_address: str) -> bytes:
    """The `wid` that all conditional calls with one address share: a retry knows its row by it."""
    return hashlib.blake2b(own_address.encode(), digest_size=_MARK_LENGTH).digest()


def _is_same(value: bytes, own: Entry | Literal[Absent.ABSENT]) -> bool:
    """Whether a committed value is the entry of this call; with other metadata it was changed."""
    if own is ABSENT:
        return False
    return decode_entry(value)._replace(modified_ns=0) == own._replace(modified_ns=0)


def put_over(
    write: RowWrite,
    seen: Versioned,
    row: Staged | Literal[Absent.ABSENT],
    *,
    wid: bytes,
    order: int = 0,
) -> bool:
    """Put a row over `row` in the open token of the branch record `seen`; False if either has
    changed.  Its order is `order`, or greater than that of `row`.  `OutcomeUnknown`.  1 KV request.
    """
    repo = write.repo
    return area.stage_if(
        repo.kv,
        seen.branch.staging,
        write.key,
        write.value,
        wid=wid,
        version=repo.ids.stamp(),
        seen=row,
        order=order or repo.clock.now_ns() // 1_000,
        other=area.Guard(branches.place(repo.record, write.branch), seen.version),
    )


def _put_if(write: RowWrite, seen: Versioned, state: PathState, attempts: WriteState) -> bool:
    """`put_over`; an unknown outcome is added to the attempts."""
    row = state.open_row
    order = max(write.repo.clock.now_ns() // 1_000, 0 if row is ABSENT else row.order + 1)
    try:
        return put_over(write, seen, row, wid=attempts.wid, order=order)
    except OutcomeUnknown:
        attempts.sent.append(UnconfirmedRow(seen, order, write.value))
        return False


def _counted(repo: OpenRepository, key: bytes, now: Versioned, attempts: WriteState) -> bool:
    """Whether a row whose answer was lost took effect before another client's value replaced it."""
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


# ---- intended writes: several processes may attempt one, and it takes effect once --------------


class Intent(NamedTuple):
    """A write that must take effect once.

    - `wid`: the id that its row carries.
    - `token`, `head`: the branch's open token and commit when the write was intended.
    - `order`: the smallest order of its row in that token.
    """

    wid: bytes
    order: int
    token: StagingToken
    head: CommitId


def intend(repo: OpenRepository, branch: str, path: str) -> Intent:
    """A new intent.  The caller must store it before it calls `write_once`.

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
    write = RowWrite(repo, parse_branch_id(branch), parse_path(path), encode_entry(entry))
    seen = fresh(repo, write.branch)
    return _is_written(write, intent, seen, _rows(write, intent, seen))


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

    Each attempt replaces exactly the row that it has read, while the branch record is the one that
    it has read, so an attempt that arrives late changes nothing.  `check` is called before each
    attempt; it raises to stop.  Errors: those of `check` and of `is_written`; `Refused`,
    `OutcomeUnknown`.  Cost: that of `is_written`, and 1 KV request.
    """
    name, key = check_target(repo, branch, path, force=force)
    protection.check_staging(repo, name)
    write = RowWrite(repo, name, key, encode_entry(entry))
    for _ in range(limits.conditional_round_count_max):
        seen = fresh(repo, name)
        rows = _rows(write, intent, seen)
        if _is_written(write, intent, seen, rows):
            return
        later = _later_sealed(intent, seen.branch, rows)
        value = write.value if later is ABSENT else later.value
        check()
        row = rows.get(seen.branch.staging, ABSENT)
        with suppress(OutcomeUnknown):  # the next round finds the row by its id
            new = write._replace(value=value)
            if put_over(new, seen, row, wid=intent.wid, order=intent.order):
                return
    raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}")


def _rows(write: RowWrite, intent: Intent, seen: Versioned) -> dict[StagingToken, Staged]:
    """The row of the path in each token of the branch and in that of the intent, whose rows remain
    for a grace period after a commit has taken them in."""
    tokens = {*seen.branch.tokens_newest_first, intent.token}
    places = {token: area.place_of(token, write.key) for token in tokens}
    stored = write.repo.kv.get_many([*places.values()])
    return {token: area.decode(stored[place]) for token, place in places.items() if place in stored}


def _is_written(
    write: RowWrite, intent: Intent, seen: Versioned, rows: Mapping[StagingToken, Staged]
) -> bool:
    record = seen.branch
    if any(row.wid == intent.wid for row in rows.values()):
        return True  # the row was written while the token was open, so it took effect
    row, has_moved = rows.get(record.staging, ABSENT), record.staging != intent.token
    if row is not ABSENT and (has_moved or row.order > intent.order):
        # A row took effect for certain if its token is still open after the row was read.
        return fresh(write.repo, write.branch).branch.staging == record.staging
    if not has_moved:
        return False
    later = rows.get(intent.token, ABSENT)
    is_later = later is not ABSENT and later.order > intent.order
    values = write.value, later.value if later is not ABSENT and is_later else write.value
    space = keyspace(write.repo)
    for entry in history_until(write.repo, record.commit, intent.head):
        held = reader.get(space, entry.commit.metarange, write.key)
        if (TOMBSTONE if held is ABSENT else held) in values:
            return True
    return False


def _later_sealed(
    intent: Intent, record: Branch, rows: Mapping[StagingToken, Staged]
) -> Staged | Literal[Absent.ABSENT]:
    """The row that readers see, if it was written after the intent into a token that is sealed now.

    A commit may or may not fold in such a row, so it proves nothing; its value goes into the open
    token instead of the intended one.
    """
    for token in record.tokens_newest_first:
        row = rows.get(token, ABSENT)
        if token == intent.token:
            return row if row is not ABSENT and row.order > intent.order else ABSENT
        if token != record.staging and row is not ABSENT:
            return row
    return ABSENT


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
