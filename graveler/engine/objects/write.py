"""Objects on a branch: upload, delete, copy, change of user metadata.

    upload   store the bytes under a fresh address, then stage one row
    delete   stage one tombstone, without reading first
    copy     copy the bytes to a fresh address, then stage one row

`Mode`, the condition of a write, is that of the block port: `OVERWRITE` writes in any case,
`CREATE` only while the path is absent, `Update(etag)` only while the entry of the path has that
checksum.  The branch decides at the moment of the write: uncommitted rows first, then the commit.

A crash between the bytes and the row leaves an object that nothing references; garbage collection
removes it.  A crash never leaves a row without bytes.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, Mode
from graveler.engine import protection
from graveler.engine.commits.messages import check_metadata
from graveler.engine.commits.records import cached, fresh
from graveler.engine.objects import reachable
from graveler.engine.objects.read import stat
from graveler.engine.objects.stage import (
    Present,
    check_mode,
    conditional,
    not_found,
    put_newer,
    write,
    write_if,
)
from graveler.engine.ports import (
    OpenRepository,
    UnconfirmedWrite,
    check_writable,
)
from graveler.errors import Code, Gone, GravelerError, Invalid, NotFound, OutcomeUnknown, Refused
from graveler.ids import (
    BranchId,
    StagingToken,
    parse_branch_id,
    parse_path,
)
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    AddressType,
    Entry,
    Repository,
    StagedValue,
)
from graveler.streams import MeasuredBody
from graveler.wire import decode_entry, encode_entry

_STORAGE_CLASS = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
DEFAULT_CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Upload:
    """The bytes of an object and its description.

    `content_type`: empty means `application/octet-stream`.  `mode`: the condition of the write.
    `storage_class`: empty means the default of the store.
    """

    body: Iterable[bytes]
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = OVERWRITE
    storage_class: str = ""


class Source(NamedTuple):
    """The source of a copy."""

    ref: str
    path: str


class CopySource(NamedTuple):
    """The entry that is copied, its path, and the repository that has it.

    The caller has checked that the user may read it.
    """

    repo: OpenRepository
    path: str
    entry: Entry


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
    key = parse_path(path)
    check_writable(repo.record, force)
    check_described(upload.metadata, upload.content_type)
    check_storage_class(upload.storage_class)
    name = parse_branch_id(branch)
    check_head(repo, name)
    entry = stored(repo, upload)
    put(repo, name, key, entry, upload.mode)
    return entry


def check_storage_class(storage_class: str) -> None:
    """Raises `Invalid` for a text that cannot name a storage class; empty is the default class."""
    if storage_class and _STORAGE_CLASS.fullmatch(storage_class) is None:
        raise Invalid(f"storage class invalid: class={storage_class[:80]!r}")


def stored(repo: OpenRepository, upload: Upload) -> Entry:
    """Store the body under a fresh address; return an entry for it.  `StorageFull`.  1 put."""
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    body = MeasuredBody(upload.body)
    # The store can resend a body that is in memory; it would have to buffer a stream first.
    sent = tuple(body) if isinstance(upload.body, Sequence) else body
    full = address.join(repo.namespace, relative)
    repo.blocks.put(full, sent, CREATE, upload.storage_class)
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
    mode: Mode = OVERWRITE,
    *,
    force: bool = False,
) -> Entry:
    """Stage an entry whose bytes are stored.  Errors and cost: as `upload`, without the put.

    With a condition (`mode`), the entry's address must be new, or handed out for this path.  A row
    that an earlier conditional call staged with the same address counts as an earlier attempt of
    this call.
    """
    name, key = _checked(repo.record, branch, path, entry, force)
    put(repo, name, key, entry, mode)
    return entry


def put(
    repo: OpenRepository, branch: BranchId, key: bytes, entry: Entry, mode: Mode = OVERWRITE
) -> None:
    """`stage`, after its checks."""
    value = encode_entry(entry)
    if mode is OVERWRITE:
        write(repo, branch, key, value)
    else:
        write_if(repo, branch, key, conditional(key.decode(), value, mode), entry.address)


def _checked(
    repo: Repository, branch: str, path: str, entry: Entry, force: bool
) -> tuple[BranchId, bytes]:
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


def delete(repo: OpenRepository, branch: str, path: str, *, force: bool = False) -> None:
    """Stage a deletion, even if the path does not exist.

    Errors: `NotFound` (branch), `Invalid`, `Refused`, `OutcomeUnknown`.  Cost: 2 KV requests.
    """
    key = parse_path(path)
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    write(repo, name, key, TOMBSTONE)


def delete_many(
    repo: OpenRepository, branch: str, paths: Sequence[str], *, force: bool = False
) -> list[PathError]:
    """Stage the deletion of up to 1,000 paths; return the paths that failed, with their errors.

    The call reads the branch record, writes all rows with a fan-out, and reads the record again
    after the last answer.  It writes rows again if the branch's open token changed.  Not atomic.
    On a protected branch every path fails with `Refused`.
    Errors of the call: `NotFound`, `Refused`, `Invalid`, `OutcomeUnknown` (any of the deletions may
    be staged).  Cost: 2 KV requests, and 1 for each path.
    """
    if len(paths) > limits.bulk_delete_count_max:
        raise Invalid(f"paths: at most {limits.bulk_delete_count_max} at once: {len(paths)=}")
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    failed: list[PathError] = []
    todo: dict[str, bytes] = {}
    for path in paths:
        try:
            todo[path] = parse_path(path)
        except Invalid as error:
            failed.append(PathError(path, error))
    if todo and protection.is_protected(repo, name):
        refused = Refused(
            f"cannot write to protected branch: branch={name}", Code.PROTECTED_WRITE, branch=name
        )
        return failed + [PathError(path, refused) for path in todo]
    with UnconfirmedWrite("deletion of paths") as unconfirmed:
        _delete_all(repo, name, todo, failed, unconfirmed)
    return failed


def _delete_all(
    repo: OpenRepository,
    branch: BranchId,
    todo: dict[str, bytes],
    failed: list[PathError],
    unconfirmed: UnconfirmedWrite,
) -> None:
    seen = fresh(repo, branch)
    wid = repo.ids.stamp()
    orders = dict.fromkeys(todo, repo.clock.now_ns() // 1_000)
    for _ in range(limits.write_attempt_count_max):
        if not todo:
            return
        token = seen.branch.staging

        def put(path: str, token: StagingToken = token) -> tuple[int, bool]:
            return put_newer(repo, token, todo[path], TOMBSTONE, wid, orders[path])

        unconfirmed.mark_unconfirmed()  # if one write fails, others may have landed
        results = repo.fanout.map(put, todo)
        written = []
        for path, (order, done) in zip(todo, results, strict=True):
            orders[path] = order
            if done:
                written.append(path)
        seen = fresh(repo, branch)
        if seen.branch.staging == token:
            for path in written:
                del todo[path]
    lost = OutcomeUnknown(f"delete kept losing to commits; outcome unknown: branch={branch}")
    failed.extend(PathError(path, lost) for path in todo)


def copy(
    repo: OpenRepository,
    branch: str,
    path: str,
    source: Source,
    entry: Entry | Literal[Absent.ABSENT] = ABSENT,
    *,
    force: bool = False,
) -> Entry:
    """Copy the object of `source`, and stage the copy at `path` with its metadata and type.

    The bytes are copied, so that each entry has its own object.  `entry`: the source's entry, if
    `to_be_copied` has returned it already.
    Errors: `NotFound`, `Gone` (the bytes are missing), `Refused` for a source that the repository
    may not read, and those of `upload`.
    """
    if entry is ABSENT:
        entry = to_be_copied(repo, branch, path, source, force=force)
    return copy_entry(repo, branch, path, CopySource(repo, source.path, entry), force=force)


def copy_entry(
    repo: OpenRepository,
    branch: str,
    path: str,
    source: CopySource,
    description: Description | Literal[Absent.ABSENT] = ABSENT,
    mode: Mode = OVERWRITE,
    *,
    force: bool = False,
) -> Entry:
    """Copy the bytes of an entry, of this repository or another one, and stage the copy at `path`.

    `description`: replaces the metadata and the content type; ABSENT keeps those of the source.
    The checksum is that of the source.
    Errors: `Gone` (the bytes are missing), `Refused` for bytes that the source's repository may not
    read, and those of `upload`.  Cost: 1 copy, that of `reachable.address_of`, and 2 KV requests (3
    with a condition).
    """
    entry = source.entry
    if description is not ABSENT:
        entry = _described(entry, description)
    name, key = _checked(repo.record, branch, path, entry, force)
    check_head(repo, name)
    copied = bytes_copied(repo, source._replace(entry=entry))
    put(repo, name, key, copied, mode)
    return copied


def describe(
    repo: OpenRepository,
    branch: str,
    path: str,
    description: Description,
    mode: Mode = OVERWRITE,
    *,
    force: bool = False,
) -> Entry:
    """Replace metadata and content type of a path, as a copy onto itself would, without its bytes.

    A concurrent write of other bytes is never undone (conditional write).  Returns the new entry.
    Errors: `NotFound`, `Refused`, `Invalid`, `PreconditionFailed`, `Contended`, `OutcomeUnknown`.
    Cost: 3 KV requests.
    """
    check_described(description.metadata, description.content_type)
    now_ns = repo.clock.now_ns()

    def change(entry: Entry) -> Entry:
        return _described(entry, description)._replace(modified_ns=now_ns)

    return _change(repo, branch, path, change, mode, force=force)


def _described(entry: Entry, description: Description) -> Entry:
    return entry._replace(
        metadata=dict(description.metadata),
        content_type=description.content_type or DEFAULT_CONTENT_TYPE,
    )


def to_be_copied(
    repo: OpenRepository, branch: str, path: str, source: Source, *, force: bool = False
) -> Entry:
    """The entry that a copy would take, after the checks of a copy.

    Errors: those of `stat`; `Refused`; `NotFound` for the branch.
    """
    parse_path(path)
    check_writable(repo.record, force)
    check_branch(repo, branch)
    return stat(repo, source.ref, source.path)


def bytes_copied(repo: OpenRepository, source: CopySource) -> Entry:
    """Copy the bytes of an entry to a fresh address of `repo`; return the entry to stage.

    Errors: `Gone`, `Refused`.  Cost: 1 copy, and that of `reachable.address_of`.
    """
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    bytes_at = reachable.address_of(source.repo, source.entry)
    try:
        repo.blocks.copy(bytes_at, address.join(repo.namespace, relative))
    except NotFound as error:
        raise Gone(f"no data: path={source.path}") from error
    return source.entry._replace(
        address=relative,
        address_type=AddressType.RELATIVE,
        modified_ns=repo.clock.now_ns(),
    )


def set_user_metadata(
    repo: OpenRepository,
    branch: str,
    path: str,
    metadata: Mapping[str, str],
    *,
    force: bool = False,
) -> None:
    """Replace the user metadata of a path, without undoing a concurrent write (conditional write).

    Errors: `NotFound`, `Refused`, `Invalid`, `Contended`, `OutcomeUnknown`.
    """
    check_described(metadata, "")

    def change(entry: Entry) -> Entry:
        return entry._replace(metadata=dict(metadata))

    _change(repo, branch, path, change, OVERWRITE, force=force)


def _change(
    repo: OpenRepository,
    branch: str,
    path: str,
    change: Callable[[Entry], Entry],
    mode: Mode,
    *,
    force: bool,
) -> Entry:
    """Stage `change` of the present entry, which must satisfy `mode`; return the new entry."""
    key = parse_path(path)
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    changed: list[Entry] = []

    def decide(present: Present, is_own: bool) -> StagedValue:
        if not is_own:
            check_mode(path, present, mode)
        if present is ABSENT:
            raise not_found(path)
        changed.append(change(decode_entry(present)))
        return encode_entry(changed[-1])

    write_if(repo, name, key, decide)
    return changed[-1]
