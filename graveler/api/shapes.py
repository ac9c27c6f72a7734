"""Types of input and of answers that several operations share.  Pure."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api.answers import Integer, Page, Pairs, Shape
from graveler.api.operation import Query, RequestHeaders
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, AddressType, CommitEntry, Entry
from graveler.core.records import Repository as RepositoryRecord
from graveler.engine.commits.diff import DiffLine
from graveler.engine.names import BranchView
from graveler.engine.objects.read import physical_address

Prefix = Annotated[str, Meta(description="only names that begin with this")]
After = Annotated[str, Meta(description="only names greater than this")]
Amount = Annotated[
    int,
    Meta(
        ge=-1, le=limits.page_count_max, description="how many to return; 0 and -1 mean the default"
    ),
]
Delimiter = Annotated[str, Meta(description="names that share a stem up to this become one line")]
Path = Annotated[str, Meta(description="relative to the ref")]
Presign = Annotated[bool, Meta(description="answer with a signed URL")]
Force = Annotated[bool, Meta(description="even if the repository is read-only")]


def page_count(amount: int) -> int:
    """The greatest number of lines on a page, if a client asks for `amount`.  Pure."""
    return amount if amount > 0 else limits.page_count_default


class Paging(Query, frozen=True):
    """Which page of a listing."""

    prefix: Prefix = ""
    after: After = ""
    amount: Amount = limits.page_count_default

    @property
    def count(self) -> int:
        """The greatest number of lines on the page."""
        return page_count(self.amount)


class ForceQuery(Query, frozen=True):
    """For deletions."""

    force: Force = False


class PathQuery(Query, frozen=True):
    """Which object."""

    path: Path


class WriteConditions(RequestHeaders, frozen=True):
    """When to write an object.  graveler/http/conditions.py reads the headers."""

    if_none_match: str | UnsetType = field(default=UNSET, name="If-None-Match")
    if_match: str | UnsetType = field(default=UNSET, name="If-Match")
    if_unmodified_since: str | UnsetType = field(default=UNSET, name="If-Unmodified-Since")


def moment_ns(name: str, text: str) -> int:
    """The time in the query parameter `name`, as RFC 3339 writes it, in nanoseconds since 1970; 0
    for an empty text.  Raises `Invalid`."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp() * SECOND_NS))
    except (ValueError, OverflowError) as error:
        rule = "it must be a time as RFC 3339 writes it"
        raise Invalid(f'parameter "{name}" in query has an error: {rule}') from error


# ---- records as clients read them ----------------------------------------------------------------

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
