"""Copies of objects, and changes of what is said about an object.

A copy is bytes at a fresh address, then one row, as an upload.  A change of a description moves no
bytes.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import OVERWRITE
from graveler.core.errors import Gone, NotFound
from graveler.core.records import ABSENT, Absent, AddressType, Entry, StagedValue
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine.objects import read
from graveler.engine.objects.read import check_size, stat
from graveler.engine.objects.rows import (
    Condition,
    Present,
    check_mode,
    check_target,
    not_found,
    stage_row_if,
)
from graveler.engine.objects.write import (
    DEFAULT_CONTENT_TYPE,
    Description,
    check_branch,
    check_described,
    put,
)
from graveler.engine.ports import OpenRepository


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


def copy(
    repo: OpenRepository,
    branch: str,
    path: str,
    source: Source,
    entry: Entry | Literal[Absent.ABSENT] = ABSENT,
    mode: Condition = OVERWRITE,
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
    of_entry = CopySource(repo, source.path, entry)
    return copy_entry(repo, branch, path, of_entry, ABSENT, mode, force=force)


def copy_entry(
    repo: OpenRepository,
    branch: str,
    path: str,
    source: CopySource,
    description: Description | Literal[Absent.ABSENT] = ABSENT,
    mode: Condition = OVERWRITE,
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
    name, key = check_target(repo, branch, path, force=force)
    check_described(entry.metadata, entry.content_type)
    check_branch(repo, name)
    copied = bytes_copied(repo, source._replace(entry=entry))
    put(repo, name, key, copied, mode)
    return copied


def describe(
    repo: OpenRepository,
    branch: str,
    path: str,
    description: Description,
    mode: Condition = OVERWRITE,
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
    return _change(
        repo,
        branch,
        path,
        lambda entry: _described(entry, description)._replace(modified_ns=now_ns),
        mode,
        force=force,
    )


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
    name, _ = check_target(repo, branch, path, force=force)
    check_branch(repo, name)
    return stat(repo, source.ref, source.path)


def bytes_copied(repo: OpenRepository, source: CopySource) -> Entry:
    """Copy the bytes of an entry to a fresh address of `repo`; return the entry to stage.

    The checksum of an object outside is the etag that a storage gave it.  It may be no MD5, and
    then says nothing of the copy: that has the etag of its own.
    Errors: `Gone`, those of `check_size`, `Refused`.
    Cost: 1 copy, and that of `reachable.address_of`.
    """
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    bytes_at = read.address_of(source.repo, source.entry)
    try:
        copied = repo.blocks.copy(bytes_at, address.join(repo.namespace, relative))
    except NotFound as error:
        raise Gone(f"no data: path={source.path}") from error
    check_size(source.repo, source.entry, bytes_at, copied.size)
    is_own = source.entry.address_type == AddressType.RELATIVE
    return source.entry._replace(
        address=relative,
        checksum=source.entry.checksum if is_own else copied.etag,
        address_type=AddressType.RELATIVE,
        modified_ns=max(repo.clock.now_ns(), copied.modified_ns),
    )


def set_user_metadata(
    repo: OpenRepository,
    branch: str,
    path: str,
    metadata: Mapping[str, str],
    mode: Condition = OVERWRITE,
    *,
    force: bool = False,
) -> None:
    """Replace the user metadata of a path, without undoing a concurrent write (conditional write).

    Errors: `NotFound`, `Refused`, `Invalid`, `PreconditionFailed`, `Contended`, `OutcomeUnknown`.
    """
    check_described(metadata, "")
    _change(
        repo, branch, path, lambda entry: entry._replace(metadata=dict(metadata)), mode, force=force
    )


def _change(
    repo: OpenRepository,
    branch: str,
    path: str,
    change: Callable[[Entry], Entry],
    mode: Condition,
    *,
    force: bool,
) -> Entry:
    """Stage `change` of the present entry, which must satisfy `mode`; return the new entry."""
    name, key = check_target(repo, branch, path, force=force)
    changed: list[Entry] = []

    def decide(present: Present, is_own: bool) -> StagedValue:
        if not is_own:
            check_mode(path, present, mode)
        if present is ABSENT:
            raise not_found(path)
        changed.append(change(decode_entry(present)))
        return encode_entry(changed[-1])

    stage_row_if(repo, name, key, decide)
    return changed[-1]
