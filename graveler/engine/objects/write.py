"""Objects on a branch: upload one or many, stage, and delete.

The bytes are stored under a fresh address, then one row is staged.  A crash in between leaves an
object that nothing references, for garbage collection, and never a row without bytes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, NewObject
from graveler.block.bodies import Spool
from graveler.engine import protection
from graveler.engine.commits.heads import cached, fresh
from graveler.engine.objects.rows import (
    Condition,
    conditional,
    put_many_newer,
    put_rows_newer,
    second_read,
    write_row,
    write_row_if,
)
from graveler.engine.ports import (
    OpenRepository,
    Ports,
    UnconfirmedWrite,
    check_metadata,
    check_writable,
)
from graveler.errors import Code, GravelerError, Invalid, OutcomeUnknown, Refused
from graveler.ids import (
    BranchId,
    StagingToken,
    parse_branch_id,
    parse_path,
)
from graveler.measured_body import MeasuredBody
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Entry,
    Repository,
    StagedValue,
    Versioned,
)
from graveler.staging import area
from graveler.wire import encode_entry

_CONTENT_TYPE = re.compile(r"[\t -~\x80-\xff]*")
_STORAGE_CLASS = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
DEFAULT_CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Upload:
    """The bytes of an object and its description.

    `body`: a `Spool` is put as it is; any other body is hashed while it is put.
    `content_type`: empty means `application/octet-stream`.  `mode`: the condition of the write.
    `storage_class`: empty means the default of the store.
    """

    body: Iterable[bytes]
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    mode: Condition = OVERWRITE
    storage_class: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """What a writer says about an object; an empty `content_type` means
    `application/octet-stream`."""

    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


class PathError(NamedTuple):
    """A path that a call for many paths could not process, and why."""

    path: str
    error: GravelerError


def check_branch(repo: OpenRepository, branch: str) -> None:
    """Raises `NotFound` for a branch that does not exist and `Refused` for a protected one, so that
    a caller can refuse before it reads a body.

    The branch may be as it was `limits.branch_cache_seconds_max` ago.
    """
    check_head(repo, parse_branch_id(branch))


def check_head(repo: OpenRepository, branch: BranchId) -> None:
    """As `check_branch`."""
    cached(repo, branch)
    protection.check_staging(repo, branch)


def upload(
    repo: OpenRepository, branch: str, path: str, upload: Upload, *, force: bool = False
) -> Entry:
    """Store the body and stage the path.

    The time limit of a write begins after the body is stored, so a slow body does not matter.
    Errors: `NotFound`, `PreconditionFailed`, `Refused`, `Invalid`, `StorageFull`, `Contended`,
    `OutcomeUnknown`; except after `OutcomeUnknown`, an error changes no path.
    Cost: 1 put, 2 KV requests (3 with a condition).
    """
    name, key = check_upload(repo, branch, path, upload, force=force)
    entry = stored(repo, upload)
    put(repo, name, key, entry, upload.mode)
    return entry


def check_upload(
    repo: OpenRepository, branch: str, path: str, upload: Upload, *, force: bool = False
) -> tuple[BranchId, bytes]:
    """The checks of `upload` that need no body, so that a caller can refuse before it stores one.
    Returns the branch and the key."""
    key = parse_path(path)
    check_writable(repo.record, force)
    check_described(upload.metadata, upload.content_type)
    check_storage_class(upload.storage_class)
    name = parse_branch_id(branch)
    check_head(repo, name)
    return name, key


def check_storage_class(storage_class: str) -> None:
    """Raises `Invalid` for a text that cannot name a storage class; empty is the default class."""
    if storage_class and _STORAGE_CLASS.fullmatch(storage_class) is None:
        raise Invalid(f"storage class invalid: class={storage_class[:80]!r}")


def stored(repo: OpenRepository, upload: Upload) -> Entry:
    """Store the body under a fresh address; return an entry for it.  `StorageFull`.  1 put."""
    relative, body = measured(repo, upload)
    # The store can resend a body that is in memory; it would have to buffer a stream first.
    sent = tuple(body) if isinstance(upload.body, Sequence) else body
    full = address.join(repo.namespace, relative)
    head = repo.blocks.put(full, sent, CREATE, upload.storage_class)
    entry = described(repo, upload, relative, body)
    return entry._replace(modified_ns=max(entry.modified_ns, head.modified_ns))


def measured(repo: OpenRepository, upload: Upload) -> tuple[str, MeasuredBody | Spool]:
    """A fresh address for the body, relative to the repository, and the body."""
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    body = upload.body if isinstance(upload.body, Spool) else MeasuredBody(upload.body)
    return relative, body


def described(
    repo: OpenRepository, upload: Upload, relative: str, body: MeasuredBody | Spool
) -> Entry:
    """The entry of an upload whose body was read to its end."""
    return Entry(
        address=relative,
        size=body.size,
        checksum=body.checksum,
        modified_ns=repo.clock.now_ns(),
        metadata=dict(upload.metadata),
        content_type=upload.content_type or DEFAULT_CONTENT_TYPE,
    )


def stage(
    repo: OpenRepository,
    branch: str,
    path: str,
    entry: Entry,
    mode: Condition = OVERWRITE,
    *,
    force: bool = False,
) -> Entry:
    """Stage an entry whose bytes are stored.  Errors and cost: as `upload`, without the put.

    With a condition (`mode`), the entry's address must be new, or handed out for this path.  A row
    that an earlier conditional call staged with the same address counts as an earlier attempt of
    this call.
    """
    name, key = checked(repo.record, branch, path, entry, force)
    put(repo, name, key, entry, mode)
    return entry


def put(
    repo: OpenRepository, branch: BranchId, key: bytes, entry: Entry, mode: Condition = OVERWRITE
) -> None:
    """`stage`, after its checks."""
    value = encode_entry(entry)
    if mode is OVERWRITE:
        write_row(repo, branch, key, value)
    else:
        write_row_if(repo, branch, key, conditional(key.decode(), value, mode), entry)


def checked(
    repo: Repository, branch: str, path: str, entry: Entry, force: bool
) -> tuple[BranchId, bytes]:
    """The branch and the key of an entry that may be staged.  Raises `Invalid`, `Refused`."""
    key = parse_path(path)
    name = parse_branch_id(branch)
    check_writable(repo, force)
    check_described(entry.metadata, entry.content_type)
    return name, key


def check_described(metadata: Mapping[str, str], content_type: str) -> None:
    """Raises `Invalid` for user metadata or a content type that an entry may not have."""
    check_metadata(metadata, "user metadata", limits.object_metadata_length_bytes_max)
    if len(content_type) > limits.content_type_length_bytes_max:
        raise Invalid(
            f"content type is too long: at most {limits.content_type_length_bytes_max} characters"
        )
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise Invalid("content type must have characters of ISO 8859-1 alone, and no control ones")


def delete(
    repo: OpenRepository,
    branch: str,
    path: str,
    mode: Condition = OVERWRITE,
    *,
    force: bool = False,
) -> None:
    """Stage a deletion, even if the path does not exist, if that satisfies `mode`.

    Errors: `NotFound` (branch), `Invalid`, `Refused`, `OutcomeUnknown`; with a condition, also
    `PreconditionFailed`, `NotFound` (path) and `Contended`.
    Cost: 2 KV requests, 3 with a condition.
    """
    key = parse_path(path)
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    if mode is OVERWRITE:
        write_row(repo, name, key, TOMBSTONE)
    else:
        write_row_if(repo, name, key, conditional(path, TOMBSTONE, mode))


def delete_many(
    repo: OpenRepository, branch: str, paths: Sequence[str], *, force: bool = False
) -> list[PathError]:
    """Stage the deletion of up to 1,000 paths; return the paths that failed, with their errors.

    The call reads the branch record, writes all rows in shares with a fan-out, and reads the record
    again after the last answer.  It writes rows again if the branch's open token changed.  Not
    atomic.
    On a protected branch every path fails with `Refused`.
    Errors of the call: `NotFound`, `Refused`, `Invalid`, `OutcomeUnknown` (any of the deletions may
    be staged).  Cost: 2 KV requests, and 1 for each path.
    """
    if len(paths) > limits.bulk_delete_count_max:
        raise Invalid(f"paths: at most {limits.bulk_delete_count_max} at once: {len(paths)=}")
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    failed: list[PathError] = []
    todo: dict[bytes, str] = {}
    for path in paths:
        try:
            todo[parse_path(path)] = path
        except Invalid as error:
            failed.append(PathError(path, error))
    if todo and protection.is_protected(repo, name):
        refused = Refused(
            f"cannot write to protected branch: branch={name}", Code.PROTECTED_WRITE, branch=name
        )
        return failed + [PathError(path, refused) for path in todo.values()]
    with UnconfirmedWrite("deletion of paths") as unconfirmed:
        _delete_all(repo, name, todo, failed, unconfirmed)
    return failed


def _delete_all(
    repo: OpenRepository,
    branch: BranchId,
    todo: dict[bytes, str],
    failed: list[PathError],
    unconfirmed: UnconfirmedWrite,
) -> None:
    """Stage the deletion of the keys of `todo`, and remove each from it once it is certain.  Their
    paths are its values."""
    seen = fresh(repo, branch)
    wid = repo.ids.stamp()
    orders = dict.fromkeys(todo, repo.clock.now_ns() // 1_000)
    for _ in range(limits.write_attempt_count_max):
        if not todo:
            return
        token = seen.branch.staging

        def put(keys: Sequence[bytes], token: StagingToken = token) -> list[tuple[int, bool]]:
            return put_many_newer(repo, token, keys, TOMBSTONE, wid, orders)

        unconfirmed.mark_unconfirmed()  # if one write fails, others may have landed
        results = repo.fanout.map(put, _shares(list(todo)))
        written = []
        for key, (order, done) in zip(list(todo), chain(*results), strict=True):
            orders[key] = order
            if done:
                written.append(key)
        seen = fresh(repo, branch)
        if seen.branch.staging == token:
            for key in written:
                del todo[key]
    lost = OutcomeUnknown(f"delete kept losing to commits; outcome unknown: branch={branch}")
    failed.extend(PathError(path, lost) for path in todo.values())


def _shares(keys: list[bytes]) -> list[list[bytes]]:
    """The keys in consecutive lists of equal length, at most `limits.bulk_delete_share_count_max`
    of them."""
    length = max(1, -(-len(keys) // limits.bulk_delete_share_count_max))
    return [keys[at : at + length] for at in range(0, len(keys), length)]


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
class _ManyWrite:
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
    writes: list[_ManyWrite] = []
    for number, new in enumerate(uploads):
        try:
            writes.append(_checked_many(number, new))
        except GravelerError as error:
            results[number] = error
    if writes:
        writes = _stored_many(writes, results)
        _stage_many(uploads[0].repo, writes, results)
    return [results[number] for number in range(len(uploads))]


def _checked_many(number: int, new: NewUpload) -> _ManyWrite:
    repo, upload = new.repo, new.upload
    assert upload.mode is OVERWRITE, "a conditional write is not one of many"
    key = parse_path(new.path)
    check_writable(repo.record, new.force)
    check_described(upload.metadata, upload.content_type)
    check_storage_class(upload.storage_class)
    branch = parse_branch_id(new.branch)
    check_head(repo, branch)
    relative, body = measured(repo, upload)
    chunks = tuple(body)
    entry = described(repo, upload, relative, body)
    new_object = NewObject(address.join(repo.namespace, relative), chunks, upload.storage_class)
    return _ManyWrite(number, repo, branch, key, entry, encode_entry(entry), new_object)


def _stored_many(
    writes: list[_ManyWrite], results: dict[int, Entry | GravelerError]
) -> list[_ManyWrite]:
    """Store the bodies.  Returns the writes whose body is stored; the others get their error."""
    objects = [each.new for each in writes]
    stored = []
    for each, head in zip(writes, writes[0].repo.blocks.create_many(objects), strict=True):
        if isinstance(head, GravelerError):
            results[each.number] = head
        else:
            stored.append(each)
    return stored


def _stage_many(
    ports: Ports, writes: list[_ManyWrite], results: dict[int, Entry | GravelerError]
) -> None:
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
        _attempt_many(ports, sent, results)
        sent = [each for each in sent if each.number not in results]
    for each in todo:
        outcome = results[last[each.place].number]
        results[each.number] = outcome if isinstance(outcome, GravelerError) else each.entry


def _attempt_many(
    ports: Ports, sent: list[_ManyWrite], results: dict[int, Entry | GravelerError]
) -> None:
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
    each: _ManyWrite, is_written: bool, reads: dict[tuple[object, ...], Versioned | GravelerError]
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
