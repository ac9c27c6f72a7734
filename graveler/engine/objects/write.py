"""Objects on a branch: upload one or many, stage, and delete.

The bytes are stored under a fresh address, then one row is staged.  A crash in between leaves an
object that nothing references, for garbage collection, and never a row without bytes.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from graveler.block import address
from graveler.block.adapter import CREATE, OVERWRITE, NewObject
from graveler.block.bodies import MeasuredBody, Spool
from graveler.core import limits
from graveler.core.errors import GravelerError, Invalid, Refused, StorageFull
from graveler.core.ids import BranchId, parse_branch_id, parse_path
from graveler.core.records import TOMBSTONE, Entry
from graveler.core.wire import encode_entry
from graveler.engine import protection
from graveler.engine.commits.heads import cached, fresh
from graveler.engine.objects.rows import (
    Condition,
    KeptLosing,
    RowWrite,
    check_target,
    conditional,
    stage_row,
    stage_row_if,
    stage_rows,
)
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, check_metadata, check_writable

_CONTENT_TYPE = re.compile(r"[\t -~\x80-\xff]*")
_STORAGE_CLASS = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
DEFAULT_CONTENT_TYPE = "application/octet-stream"


class Upload(NamedTuple):
    """The bytes of an object and its description.

    `body`: a `Spool` is put as it is; any other body is hashed while it is put.
    `content_type`: empty means `application/octet-stream`.  `mode`: the condition of the write.
    `storage_class`: empty means the default of the store.
    """

    body: Iterable[bytes]
    content_type: str = ""
    metadata: Mapping[str, str] = {}
    mode: Condition = OVERWRITE
    storage_class: str = ""


class Description(NamedTuple):
    """What a writer says about an object; an empty `content_type` means
    `application/octet-stream`."""

    content_type: str = ""
    metadata: Mapping[str, str] = {}


class NewUpload(NamedTuple):
    """One of many uploads, as the arguments of `upload`.  The body is in memory (a sequence of
    chunks), and `mode` is `OVERWRITE`."""

    repo: OpenRepository
    branch: str
    path: str
    upload: Upload
    force: bool = False


class PathError(NamedTuple):
    """A path that a call for many paths could not process, and why."""

    path: str
    error: GravelerError


# ---- checks --------------------------------------------------------------------------------------


def check_branch(repo: OpenRepository, branch: str) -> None:
    """Raises `NotFound` for a branch that does not exist and `Refused` for a protected one, so that
    a caller can refuse before it reads a body.  The branch may be as it was
    `limits.branch_cache_seconds_max` ago."""
    name = parse_branch_id(branch)
    cached(repo, name)
    protection.check_staging(repo, name)


def check_upload(
    repo: OpenRepository, branch: str, path: str, upload: Upload, *, force: bool = False
) -> tuple[BranchId, bytes]:
    """The checks of `upload` that need no body.  Returns the branch and the key."""
    name, key = check_target(repo, branch, path, force=force)
    check_described(upload.metadata, upload.content_type)
    check_storage_class(upload.storage_class)
    check_branch(repo, name)
    return name, key


def check_storage_class(storage_class: str) -> None:
    """Raises `Invalid` for a text that cannot name a storage class; empty is the default class."""
    if storage_class and _STORAGE_CLASS.fullmatch(storage_class) is None:
        raise Invalid(f"storage class invalid: class={storage_class[:80]!r}")


def check_described(metadata: Mapping[str, str], content_type: str) -> None:
    """Raises `Invalid` for user metadata or a content type that an entry may not have."""
    check_metadata(metadata, "user metadata", limits.object_metadata_length_bytes_max)
    if len(content_type) > limits.content_type_length_bytes_max:
        raise Invalid(
            f"content type is too long: at most {limits.content_type_length_bytes_max} characters"
        )
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise Invalid("content type must have characters of ISO 8859-1 alone, and no control ones")


# ---- uploads -------------------------------------------------------------------------------------


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


def upload_many(uploads: Sequence[NewUpload]) -> list[Entry | GravelerError]:
    """Store the bodies and stage the paths.  All repositories are reached through the same stores.

    Returns for each upload, at its index, the entry or the error of `upload`.  Not atomic together.
    Of several uploads of one path, which are concurrent, only the last is staged, and the others
    get its outcome.  The embedded store shares two syncs among all uploads, one of the bodies and
    one of the rows.  Cost for each upload: at most 1 put and 2 KV requests, with a cached branch
    record; uploads to one branch share its second read.
    """
    results: dict[int, Entry | GravelerError] = {}
    prepared: dict[int, tuple[RowWrite, Entry, NewObject]] = {}
    for number, new in enumerate(uploads):
        try:
            prepared[number] = _prepared(new)
        except GravelerError as error:
            results[number] = error
    if prepared:
        heads = uploads[0].repo.blocks.create_many([each[2] for each in prepared.values()])
        for number, head in zip(list(prepared), heads, strict=True):
            if isinstance(head, GravelerError):
                results[number] = head
                del prepared[number]
    errors = stage_rows([row for row, _, _ in prepared.values()])
    for (number, (_, entry, _)), failure in zip(prepared.items(), errors, strict=True):
        results[number] = entry if failure is None else failure
    return [results[number] for number in range(len(uploads))]


def _prepared(new: NewUpload) -> tuple[RowWrite, Entry, NewObject]:
    repo, upload = new.repo, new.upload
    assert upload.mode is OVERWRITE, "a conditional write is not one of many"
    branch, key = check_upload(repo, new.branch, new.path, upload, force=new.force)
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    chunks = tuple(upload.body)
    content = b"".join(chunks)
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    entry = _described(repo, upload, relative, len(content), checksum)
    full = address.join(repo.record.namespace, relative)
    new_object = NewObject(full, chunks, upload.storage_class)
    return RowWrite(repo, branch, key, encode_entry(entry)), entry, new_object


def stored(repo: OpenRepository, upload: Upload) -> Entry:
    """Store the body under a fresh address; return an entry for it.  `StorageFull`.  1 put."""
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    body = upload.body if isinstance(upload.body, Spool) else MeasuredBody(upload.body)
    # The store can resend a body that is in memory; it would have to buffer a stream first.
    sent = tuple(body) if isinstance(upload.body, Sequence) else body
    full = address.join(repo.record.namespace, relative)
    head = repo.blocks.put(full, sent, CREATE, upload.storage_class)
    entry = _described(repo, upload, relative, body.size, body.checksum)
    return entry._replace(modified_ns=max(entry.modified_ns, head.modified_ns))


def _described(
    repo: OpenRepository, upload: Upload, relative: str, size: int, checksum: str
) -> Entry:
    """The entry of an upload whose body was read to its end."""
    return Entry(
        address=relative,
        size=size,
        checksum=checksum,
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
    name, key = check_target(repo, branch, path, force=force)
    check_described(entry.metadata, entry.content_type)
    put(repo, name, key, entry, mode)
    return entry


def put(
    repo: OpenRepository, branch: BranchId, key: bytes, entry: Entry, mode: Condition = OVERWRITE
) -> None:
    """`stage`, after its checks."""
    value = encode_entry(entry)
    if mode is OVERWRITE:
        stage_row(repo, branch, key, value)
    else:
        stage_row_if(repo, branch, key, conditional(key.decode(), value, mode), entry)


# ---- deletions -----------------------------------------------------------------------------------


def delete(
    repo: OpenRepository,
    branch: str,
    path: str,
    mode: Condition = OVERWRITE,
    *,
    force: bool = False,
) -> None:
    """Stage a deletion, without reading first, even if the path does not exist, if that satisfies
    `mode`.

    Errors: `NotFound` (branch), `Invalid`, `Refused`, `OutcomeUnknown`; with a condition, also
    `PreconditionFailed`, `NotFound` (path) and `Contended`.
    Cost: 2 KV requests, 3 with a condition.
    """
    name, key = check_target(repo, branch, path, force=force)
    if mode is OVERWRITE:
        stage_row(repo, name, key, TOMBSTONE)
    else:
        stage_row_if(repo, name, key, conditional(path, TOMBSTONE, mode))


def delete_many(
    repo: OpenRepository, branch: str, paths: Sequence[str], *, force: bool = False
) -> list[PathError]:
    """Stage the deletion of up to 1,000 paths; return the paths that failed, with their errors.

    The rows are written in shares with a fan-out.  Not atomic.  On a protected branch every path
    fails with `Refused`.
    Errors of the call: `NotFound`, `Refused`, `Invalid`, `StorageFull` if no path has room,
    `OutcomeUnknown` (any of the deletions may be staged).
    Cost: 2 KV requests, and 1 for each path.
    """
    if len(paths) > limits.bulk_delete_count_max:
        raise Invalid(f"paths: at most {limits.bulk_delete_count_max} at once: {len(paths)=}")
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    failed: list[PathError] = []
    keys: dict[bytes, str] = {}
    for path in paths:
        try:
            keys[parse_path(path)] = path
        except Invalid as error:
            failed.append(PathError(path, error))
    if not (keys and protection.is_protected(repo, name)):
        fresh(repo, name)
    with UnconfirmedWrite("deletion of paths") as unconfirmed:
        unconfirmed.mark_unconfirmed()  # if one row fails, others may have landed
        rows = [RowWrite(repo, name, key, TOMBSTONE) for key in keys]
        errors = stage_rows(rows, limits.bulk_delete_share_count_max)
        full = [error for error in errors if isinstance(error, StorageFull)]
        if full and len(full) == len(errors):
            unconfirmed.note(is_unconfirmed=False)
            raise full[0]
        for path, failure in zip(keys.values(), errors, strict=True):
            if isinstance(failure, KeptLosing | Refused | StorageFull):
                failed.append(PathError(path, failure))
            elif failure is not None:
                raise failure
    return failed
