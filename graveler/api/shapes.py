"""The records that clients read: their types, and how they follow from records of the engine.

A field that is `UNSET` is left out of the answer.  Pure.  Used by the modules with endpoints.
"""

from datetime import UTC, datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from graveler.api.answers import Page, Shape
from graveler.api.field_types import Integer, Pairs
from graveler.engine.commits.diff import DiffLine
from graveler.engine.names import BranchView
from graveler.engine.objects.read import physical_address
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, AddressType, CommitEntry, Entry
from graveler.records import Repository as RepositoryRecord

PathType = Literal["common_prefix", "object"]


def seconds(nanoseconds: int) -> int:
    """Nanoseconds as whole seconds, rounded down."""
    return nanoseconds // SECOND_NS


def moment(nanoseconds: int) -> str:
    """A time in RFC 3339 format."""
    time = datetime.fromtimestamp(nanoseconds / SECOND_NS, UTC)
    return time.isoformat().replace("+00:00", "Z")


# ---- repositories and refs -----------------------------------------------------------------------


class Repository(Shape, frozen=True):
    """A repository."""

    id: str
    creation_date: Integer
    default_branch: str
    storage_namespace: str
    storage_id: str = ""
    read_only: bool | UnsetType = UNSET


class RepositoryList(Page, frozen=True):
    """A page of repositories."""

    results: list[Repository]


class Ref(Shape, frozen=True):
    """A branch or a tag, and its commit."""

    id: str
    commit_id: str


class RefList(Page, frozen=True):
    """A page of branches or tags."""

    results: list[Ref]


def repository(repo: RepositoryRecord, *, bare: bool = False) -> Repository:
    """`bare`: the answer to the creation of a bare repository leaves `read_only` out."""
    return Repository(
        repo.id,
        seconds(repo.created_ns),
        repo.default_branch,
        repo.namespace,
        read_only=UNSET if bare else repo.read_only,
    )


def branch(view: BranchView) -> Ref:
    return Ref(view.id, view.branch.commit)


# ---- commits -------------------------------------------------------------------------------------


class Commit(Shape, frozen=True):
    """A commit."""

    id: str
    parents: tuple[str, ...]
    committer: str
    message: str
    creation_date: Integer
    meta_range_id: str
    metadata: Pairs
    generation: Integer
    version: Integer


class CommitList(Page, frozen=True):
    """A page of commits."""

    results: list[Commit]


def commit(entry: CommitEntry) -> Commit:
    record = entry.commit
    return Commit(
        entry.id,
        record.parents,
        record.committer,
        record.message,
        seconds(record.created_ns),
        record.metarange,
        dict(record.metadata),
        record.generation,
        record.version,
    )


# ---- objects -------------------------------------------------------------------------------------


class ObjectStats(Shape, frozen=True):
    """An object, or a common prefix of several objects: then all other fields are empty."""

    path: str
    path_type: PathType
    physical_address: str
    checksum: str
    mtime: Integer
    size_bytes: Integer | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    metadata: Pairs | UnsetType = UNSET
    physical_address_expiry: Integer | UnsetType = UNSET


class ObjectStatsList(Page, frozen=True):
    """A page of objects and common prefixes."""

    results: list[ObjectStats]


def stats(
    repo: RepositoryRecord, path: str, entry: Entry, metadata: Pairs | UnsetType = UNSET
) -> ObjectStats:
    """An object, by default without its user metadata."""
    return ObjectStats(
        path,
        "object",
        _shown_address(repo, entry),
        entry.checksum,
        entry.modified_ns // SECOND_NS,
        entry.size,
        entry.content_type,
        metadata,
    )


def full_stats(
    repo: RepositoryRecord,
    path: str,
    entry: Entry,
    *,
    content_type: str | None = None,
    address: str | None = None,
) -> ObjectStats:
    """An object with its user metadata.  `content_type`, `address`: instead of those of `entry`."""
    return ObjectStats(
        path,
        "object",
        _shown_address(repo, entry) if address is None else address,
        entry.checksum,
        seconds(entry.modified_ns),
        entry.size,
        entry.content_type if content_type is None else content_type,
        dict(entry.metadata),
    )


def _shown_address(repo: RepositoryRecord, entry: Entry) -> str:
    """The address of the bytes, for display only.

    It is not validated here: it was validated when it was stored.
    """
    if entry.address_type == AddressType.RELATIVE:
        return f"{repo.namespace}/{entry.address}"
    return physical_address(repo, entry)


def common_prefix(path: str) -> ObjectStats:
    return ObjectStats(path, "common_prefix", "", "", 0)


# ---- differences ---------------------------------------------------------------------------------


class DiffObjectStat(Shape, frozen=True):
    """The object of a difference on the right side."""

    checksum: str
    mtime: Integer
    content_type: str
    metadata: Pairs


class Diff(Shape, frozen=True):
    """A path that differs."""

    type: Literal["added", "removed", "changed", "conflict", "prefix_changed"]
    path: str
    path_type: PathType
    size_bytes: Integer | UnsetType = UNSET
    right: DiffObjectStat | UnsetType = UNSET


class DiffList(Page, frozen=True):
    """A page of differences."""

    results: list[Diff]


def difference(line: DiffLine, *, right_stats: bool = False, size: int | None = None) -> Diff:
    """`size`: instead of that of the object."""
    entry = line.left if line.right is ABSENT else line.right
    if entry is ABSENT:
        return Diff(line.kind, line.path, "common_prefix")
    right = DiffObjectStat(
        entry.checksum, seconds(entry.modified_ns), entry.content_type, dict(entry.metadata)
    )
    return Diff(
        line.kind,
        line.path,
        "object",
        entry.size if size is None else size,
        right if right_stats else UNSET,
    )


# ---- tasks and files -----------------------------------------------------------------------------


class TaskCreation(Shape, frozen=True):
    """The id of a task that was begun."""

    id: str


class StorageURI(Shape, frozen=True):
    """The address of a file in the storage."""

    location: str
