"""Uploads of many objects at once, of any branches and repositories of one store.

    checks of each  →  bodies, together  →  rows, together  →  each branch record, once  →  done
                                            ▲                  │ another token is open, or the row
                                            └──────────────────┘ is not known to be written

Each upload gets what `write.upload` of it alone would give: the same checks, errors and
guarantees, and its error concerns no other.  The embedded store shares two syncs among all uploads,
one of the bodies and one of the rows.  Of several uploads of one path, which are concurrent, only
the last is staged: its row would replace theirs at once, and they get its outcome.

Conditional writes depend on what is staged, one at a time, so they are not for this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.block.adapter import OVERWRITE, NewObject
from graveler.engine import protection
from graveler.engine.commits.heads import cached
from graveler.engine.objects import write
from graveler.engine.objects.stage import put_rows_newer, second_read
from graveler.engine.objects.write import Upload
from graveler.engine.ports import OpenRepository, Ports, UnconfirmedWrite, check_writable
from graveler.errors import GravelerError, OutcomeUnknown
from graveler.ids import BranchId, StagingToken, parse_branch_id, parse_path
from graveler.records import ABSENT, Absent, Entry, StagedValue, Versioned
from graveler.staging import area
from graveler.wire import encode_entry

_NO_TOKEN: Final = StagingToken("")


class NewUpload(NamedTuple):
    """One of many uploads, as the arguments of `write.upload`.

    The body is in memory (a sequence of chunks), and `mode` is `OVERWRITE`.
    """

    repo: OpenRepository
    branch: str
    path: str
    upload: Upload
    force: bool = False


@dataclass(slots=True)
class _Write:
    """An upload that passed its checks: what it stages, and how far it came.

    `token`: the token that the next row goes to.  `order`: that of the row.  `attempt`: how many
    rows were sent.  `begun`: when the first one was, in seconds of the steady clock.
    """

    number: int
    repo: OpenRepository
    branch: BranchId
    key: bytes
    entry: Entry
    value: StagedValue
    new: NewObject
    wid: bytes = b""
    order: int = 0
    token: StagingToken = _NO_TOKEN
    attempt: int = 0
    begun: float = 0.0
    unconfirmed: UnconfirmedWrite = field(default_factory=lambda: UnconfirmedWrite("write"))

    @property
    def place(self) -> tuple[str, BranchId, bytes]:
        """What two uploads of one path have in common."""
        return self.repo.record.uid, self.branch, self.key


def upload_many(uploads: Sequence[NewUpload]) -> list[Entry | GravelerError]:
    """Store the bodies and stage the paths.  All repositories are reached through the same stores.

    Returns for each upload, at its index, the entry or the error of `write.upload`.
    Not atomic together.
    Cost for each upload: at most 1 put and 2 KV requests, with a cached branch record.  Uploads to
    one branch share its second read.
    """
    results: dict[int, Entry | GravelerError] = {}
    writes: list[_Write] = []
    for number, new in enumerate(uploads):
        try:
            writes.append(_checked(number, new))
        except GravelerError as error:
            results[number] = error
    if writes:
        writes = _stored(writes, results)
        _stage(uploads[0].repo, writes, results)
    return [results[number] for number in range(len(uploads))]


def _checked(number: int, new: NewUpload) -> _Write:
    repo, upload = new.repo, new.upload
    assert upload.mode is OVERWRITE, "a conditional write is not one of many"
    key = parse_path(new.path)
    check_writable(repo.record, new.force)
    write.check_described(upload.metadata, upload.content_type)
    write.check_storage_class(upload.storage_class)
    branch = parse_branch_id(new.branch)
    write.check_head(repo, branch)
    relative, body = write.measured(repo, upload)
    chunks = tuple(body)
    entry = write.described(repo, upload, relative, body)
    new_object = NewObject(address.join(repo.namespace, relative), chunks, upload.storage_class)
    return _Write(number, repo, branch, key, entry, encode_entry(entry), new_object)


def _stored(writes: list[_Write], results: dict[int, Entry | GravelerError]) -> list[_Write]:
    """Store the bodies.  Returns the writes whose body is stored; the others get their error."""
    objects = [each.new for each in writes]
    stored = []
    for each, head in zip(writes, writes[0].repo.blocks.create_many(objects), strict=True):
        if isinstance(head, GravelerError):
            results[each.number] = head
        else:
            stored.append(each)
    return stored


def _stage(ports: Ports, writes: list[_Write], results: dict[int, Entry | GravelerError]) -> None:
    """Stage the entries: the steps of `stage.write`, for all together."""
    todo = []
    for each in writes:
        try:
            protection.check_staging(each.repo, each.branch)
            each.token = cached(each.repo, each.branch).branch.staging
        except GravelerError as error:
            results[each.number] = error
        else:
            each.wid, each.order = ports.ids.stamp(), ports.clock.now_ns() // 1_000
            todo.append(each)
    last = {each.place: each for each in todo}
    sent = list(last.values())
    while sent:
        _attempt(ports, sent, results)
        sent = [each for each in sent if each.number not in results]
    for each in todo:
        outcome = results[last[each.place].number]
        results[each.number] = outcome if isinstance(outcome, GravelerError) else each.entry


def _attempt(ports: Ports, sent: list[_Write], results: dict[int, Entry | GravelerError]) -> None:
    """Send one row of each write, and read the branch records.  Writes that end get a result."""
    for each in sent:
        if not each.attempt:
            each.begun = ports.clock.steady_seconds()
        each.attempt += 1
    rows = [area.NewRow(each.token, each.key, each.value, each.wid, each.order) for each in sent]
    reads: dict[tuple[object, ...], Versioned | GravelerError] = {}
    for each, outcome in zip(sent, _put(ports, rows), strict=True):
        try:
            with each.unconfirmed:
                if isinstance(outcome, GravelerError):
                    raise outcome
                each.order, is_written = outcome
                if _is_done(each, is_written, reads):
                    results[each.number] = each.entry
        except GravelerError as error:
            results[each.number] = error


def _put(ports: Ports, rows: list[area.NewRow]) -> list[tuple[int, bool] | GravelerError]:
    """`put_rows_newer`, with the error of each row.  If the call fails, as for a stored row that is
    damaged, each row is sent alone: what was written before has its own id."""
    try:
        return [*put_rows_newer(ports, rows)]
    except GravelerError as error:
        if len(rows) == 1:
            return [error]
        return [_put(ports, [row])[0] for row in rows]


def _is_done(
    each: _Write, is_written: bool, reads: dict[tuple[object, ...], Versioned | GravelerError]
) -> bool:
    """Whether the write is over.  If not, its next row goes to the token that is open now.

    `reads`: the records that were read after these rows were sent.
    """
    before = each.token
    only: StagingToken | Absent = ABSENT if each.attempt > 1 else before
    key = each.repo.record.uid, each.branch, only
    if key not in reads:
        try:
            reads[key] = second_read(each.repo, each.branch, only)
        except GravelerError as error:
            reads[key] = error
    seen = reads[key]
    if isinstance(seen, GravelerError):
        raise seen
    each.token = seen.branch.staging
    if is_written and each.token == before:
        return True
    each.unconfirmed.mark_unconfirmed()
    seconds = each.repo.clock.steady_seconds() - each.begun
    is_late = seconds > limits.write_attempt_seconds_max
    if is_late or each.attempt >= limits.write_attempt_count_max:
        raise OutcomeUnknown(f"write kept losing to commits; outcome unknown: branch={each.branch}")
    return False
