"""Intended writes: a staged write that several processes may attempt and that takes effect once.

    intend ──► the caller stores the intent ──► write ──► written
                                                 │ the process dies, or stalls
                                                 ▼ another process reads the intent, and writes

An intent names the branch's open token and head, and an order greater than that of the row at the
path.  A row that later has a greater order, or is in a later token, was therefore written after the
intent, and no attempt overwrites it.  If that row is in a sealed token, the attempt stages the
row's value in the open token instead of the intended value.

Each attempt replaces exactly the row that it has read, and only while the branch record is the one
that it has read.  It calls `check` between the reads and the write.  So an attempt that arrives
late changes nothing.  Used by jobs that stage their result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from graveler import limits
from graveler.committed import reader
from graveler.engine import protection
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.search import history_until
from graveler.engine.ports import OpenRepository, check_writable, keyspace
from graveler.errors import OutcomeUnknown
from graveler.ids import BranchId, CommitId, StagingToken, parse_branch_id, parse_path
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Entry,
    Staged,
    StagedValue,
    Versioned,
)
from graveler.refs.names import branches
from graveler.staging import area
from graveler.wire import encode_entry


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
class _Write:
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


def write(
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
        if _put(work, seen, rows.get(seen.branch.staging, ABSENT), value):
            return
    raise OutcomeUnknown(f"write not confirmed; outcome unknown: branch={branch}")


def _work(repo: OpenRepository, branch: str, path: str, entry: Entry, intent: Intent) -> _Write:
    name, key = parse_branch_id(branch), parse_path(path)
    return _Write(repo, name, key, encode_entry(entry), intent)


def _rows(work: _Write, seen: Versioned) -> dict[StagingToken, Staged]:
    """The row of the path in each token of the branch and in the token of the intent.

    The rows of the intent's token remain for a grace period after a commit has taken them in.
    """
    tokens = {*seen.branch.tokens_newest_first, work.intent.token}
    places = {token: area.place_of(token, work.key) for token in tokens}
    stored = work.repo.kv.get_many([*places.values()])
    return {token: area.decode(stored[place]) for token, place in places.items() if place in stored}


def _is_written(work: _Write, seen: Versioned, rows: dict[StagingToken, Staged]) -> bool:
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
    work: _Write, seen: Versioned, rows: dict[StagingToken, Staged]
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


def _is_committed(work: _Write, head: CommitId, values: tuple[StagedValue, ...]) -> bool:
    """Whether one of the values is in a commit from the intent's head to `head`."""
    space = keyspace(work.repo)
    for entry in history_until(work.repo, head, work.intent.head):
        held = reader.get(space, entry.commit.metarange, work.key)
        if (TOMBSTONE if held is ABSENT else held) in values:
            return True
    return False


def _put(work: _Write, seen: Versioned, row: Staged | Absent, value: StagedValue) -> bool:
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
