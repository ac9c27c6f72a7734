"""The records that Graveler stores, and the named values for absence.

    repository ──► branches ──► commit ──► metarange ──► ranges ──► entries ──► objects
                      │            └─► parents
                      └─► staging token, sealed tokens ──► staged entries (uncommitted)

Two writers compete only for a branch record, which changes by compare-and-swap on that record
alone.  Commits, metaranges and ranges never change, so two commits share every range with equal
content.  Records are immutable: derive a new one with `dataclasses.replace` or `_replace`.

`rest` of a record that can change holds the fields that a later release wrote, as stored bytes.  A
swap by this release therefore keeps them.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import (
    NO_BRANCH,
    NO_COMMIT,
    NO_METARANGE,
    BranchId,
    CommitId,
    JobId,
    MetarangeId,
    PullId,
    RangeId,
    RepositoryId,
    RepositoryUid,
    StagingToken,
)


def without(record: Any, *secrets: str) -> str:
    """The text of a NamedTuple that does not show some of its fields."""
    pairs = ((name, value) for name, value in record._asdict().items() if name not in secrets)
    return f"{type(record).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


class Tombstone(Enum):
    """The type of `TOMBSTONE`."""

    TOMBSTONE = "tombstone"


ABSENT: Final = Absent.ABSENT  # nothing is stored
TOMBSTONE: Final = Tombstone.TOMBSTONE  # a deletion is staged

Record = tuple[bytes, bytes]  # key (path bytes), framed value
StagedValue = bytes | Literal[Tombstone.TOMBSTONE]
Change = tuple[bytes, StagedValue]  # key, and its new framed value or a tombstone


class AddressType(IntEnum):
    """How to interpret an entry's address.  The numbers are those of the entry format."""

    BY_PREFIX = 0  # legacy: full if it has a scheme, else relative
    RELATIVE = 1  # relative to the repository's storage namespace
    FULL = 2  # a complete physical address


class Entry(NamedTuple):
    """What a path points to.  The identity excludes `modified_ns` and `address`."""

    address: str
    size: int
    checksum: str
    modified_ns: int
    metadata: Mapping[str, str] = {}
    address_type: AddressType = AddressType.RELATIVE
    content_type: str = ""


class Staged(NamedTuple):
    """One uncommitted change (a staged row).  `order` grows with every write of the path; `wid` is
    the id of the request that wrote it."""

    value: StagedValue
    order: int
    wid: bytes
    version: bytes = b""


@dataclass(frozen=True, slots=True)
class BreakParameters:
    """Where ranges end (docs/reference/format.md).  Sizes count the bytes of keys plus framed
    values.  All writers of a repository use the same parameters until someone changes them."""

    min_size: int = 0
    max_size: int = limits.range_size_bytes_default
    raggedness: int = limits.range_raggedness_default
    salt: bytes = b""

    def as_json(self) -> dict[str, Any]:
        """The JSON form, for the API, its clients and the orders of jobs; the salt is in Base64."""
        return {**asdict(self), "salt": b64encode(self.salt).decode()}

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> "BreakParameters":
        """The parameters in the form of `as_json`.  Raises `Invalid` for anything else."""
        try:
            sizes = (fields["min_size"], fields["max_size"], fields["raggedness"])
            return cls(*sizes, b64decode(fields["salt"], validate=True))
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(
                "break parameters invalid: they must have two sizes, raggedness, and a salt in "
                "Base64"
            ) from error


class RepositoryState(IntEnum):
    """The record of a deleted repository stays, so that a late duplicate of the creation request
    cannot restore it."""

    LIVE = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository.  `uid` is fresh at each creation, so a re-created repository sees no state of
    the old one.  `collected`: garbage collection may have condemned some of its commits; check a
    commit before using it.  `protected`: globs of branch names; only merges, reverts and
    cherry-picks change these branches (engine/protection.py)."""

    id: RepositoryId
    uid: RepositoryUid
    namespace: str
    default_branch: BranchId
    created_ns: int
    state: RepositoryState = RepositoryState.LIVE
    read_only: bool = False
    breaks: BreakParameters = field(default_factory=BreakParameters)
    staging_shards: int = 1
    collected: bool = False
    protected: tuple[str, ...] = ()
    rest: bytes = b""


class BranchState(IntEnum):
    """The record of a deleted branch stays for at least a day, so that a late duplicate of the
    creation request cannot restore it."""

    LIVE = 1
    DELETED = 2


class Branch(NamedTuple):
    """The record that commits, merges and resets change by compare-and-swap.

    `rev` grows with every change, also across deletion and re-creation, as long as the record
    exists (engine/janitor.py removes it).  `sealed` lists the sealed tokens, oldest first; each
    holds changes that no commit of this branch has folded in yet.  `recent_rows`: the number of
    rows that recent commits folded in.  It only decides the number of shards of the next staging
    token.  `origin`: the staging token that the branch began with; it tells the branch from others
    that had or will have its name.  `rewinds` grows with every hard reset: while it stays, each new
    head descends from the one before.
    """

    rev: int
    state: BranchState
    staging: StagingToken
    sealed: tuple[StagingToken, ...]
    commit: CommitId
    hidden: bool = False
    changed_ns: int = 0
    recent_rows: int = 0
    origin: str = ""
    rewinds: int = 0
    rest: bytes = b""

    @property
    def tokens_newest_first(self) -> tuple[StagingToken, ...]:
        """The order in which a reader looks up a path: the first token that has a row wins."""
        return (self.staging, *reversed(self.sealed))

    @property
    def live(self) -> bool:
        return self.state is BranchState.LIVE


class Versioned(NamedTuple):
    """A branch record and the version of its stored form, which a compare-and-swap must name."""

    branch: Branch
    version: bytes


class Commit(NamedTuple):
    """An immutable snapshot: a metarange and the parent commits.

    `generation` is 1 + the greatest generation of the parents.
    `depth` counts first-parent steps to a root.
    `jump` is a first-parent ancestor at `jump_depth` (skew-binary jump pointers: any ancestor is
    O(log depth) jumps away).
    `linear` is the number of commits before this one, along first parents, up to which each has
    exactly one parent.
    `mark` is an idempotency key that clients do not see; it is no part of the id.
    `order_ns` is the creation time, or the latest `order_ns` of the parents if that is later: the
    log is sorted by it, then by generation.
    """

    committer: str
    message: str
    created_ns: int
    metarange: MetarangeId = NO_METARANGE
    metadata: Mapping[str, str] = {}
    parents: tuple[CommitId, ...] = ()
    generation: int = 1
    depth: int = 0
    jump: CommitId = NO_COMMIT
    jump_depth: int = 0
    linear: int = 0
    version: int = 1
    mark: str = ""
    order_ns: int = 0


class CommitEntry(NamedTuple):
    """A commit with its id."""

    id: CommitId
    commit: Commit


class Tag(NamedTuple):
    """A name that never moves.  The record of a deleted tag stays for at least a day; as long as it
    exists, `rev` grows with every change.  `changed_ns`: time of the deletion; 0: not known."""

    commit: CommitId
    rev: int = 1
    deleted: bool = False
    changed_ns: int = 0
    rest: bytes = b""


class PullState(IntEnum):
    """The state of a pull request."""

    OPEN = 1
    CLOSED = 2
    MERGED = 3


class SentSwap(NamedTuple):
    """A swap that was sent: the commit that it puts on the branch; and of the record that it was to
    replace the revision, the head, the origin and the number of hard resets."""

    commit: CommitId
    rev: int
    head: CommitId
    origin: str
    rewinds: int


class PullRequest(NamedTuple):
    """A proposal to merge the branch `source` into the branch `destination`.

    `closed_ns`: when it was closed or merged; `merged`: the merge commit.
    `opening`: grows each time that a request is opened for one more merge; one opening has at most
    one merge commit.
    `sent`: the swaps of the destination that merges of this opening have noted before they sent
    them; `attempt`: the merge that noted last, and `since`: a head of the destination that its
    commit is not in.  All are empty if no merge has noted a swap.
    """

    id: PullId
    title: str
    description: str
    author: str
    source: BranchId
    destination: BranchId
    state: PullState
    created_ns: int
    closed_ns: int = 0
    merged: CommitId = NO_COMMIT
    opening: int = 1
    since: CommitId = NO_COMMIT
    attempt: str = ""
    sent: tuple[SentSwap, ...] = ()
    rest: bytes = b""


class Fold(NamedTuple):
    """The staging tokens that a commit on a branch folded in, oldest first, and the time."""

    tokens: tuple[StagingToken, ...]
    created_ns: int = 0


class Cleanup(NamedTuple):
    """A clean-up record: the rows of a token may be deleted once no branch record names the token
    and its grace period is over."""

    branch: BranchId
    not_before_ns: int
    marked_ns: int = 0
    passes: int = 0
    rest: bytes = b""


class UploadAddress(NamedTuple):
    """A physical address that was issued to a client for one path of one branch."""

    branch: BranchId
    path: str
    expires_ns: int


class MultipartUpload(NamedTuple):
    """An upload in parts that go through the service.

    `address`: where the object will be, relative to the namespace.  `store_id`: the id that the
    object store gave to the upload.  `entry`: the encoded entry to stage, once the parts to join
    are known; `parts`: a digest of those parts.  `completed_ns`: when the entry was staged.
    `origin`: that of the branch.  `whole_checksum`: the algorithm of a checksum of all bytes of the
    object, in lower case, if the client announced one.
    """

    id: str
    branch: BranchId
    path: str
    address: str
    store_id: str
    created_ns: int
    content_type: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    storage_class: str = ""
    entry: bytes = b""
    parts: bytes = b""
    completed_ns: int = 0
    origin: str = ""
    whole_checksum: str = ""
    rest: bytes = b""


class JobState(IntEnum):
    """The state of a job.  An ended job never changes its state again.  A job in state LANDING is
    still running and can no longer be cancelled."""

    RUNNING = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4
    LANDING = 5


class Job(NamedTuple):
    """Work that may outlive its request.  `owner` is the process that executes it.  Times are in
    nanoseconds."""

    id: JobId
    kind: str
    state: JobState
    owner: bytes
    created_ns: int
    updated_ns: int
    progress: int = 0
    cancel: bool = False
    error: str = ""
    commit: CommitId = NO_COMMIT
    metarange: MetarangeId = NO_METARANGE
    branch: BranchId = NO_BRANCH
    rest: bytes = b""

    @property
    def ended(self) -> bool:
        return self.state not in (JobState.RUNNING, JobState.LANDING)


@dataclass(frozen=True, slots=True)
class RangeRef:
    """A range as its metarange describes it.  `min_key` and `max_key` are inclusive.  `size` is the
    logical size in bytes (keys plus framed values)."""

    id: RangeId
    min_key: bytes
    max_key: bytes
    size: int
    count: int
    identity: bytes = b""


class Difference(NamedTuple):
    """One path on which two sides differ.  For a conflict, `left` is the value of the destination
    and `right` the value of the source."""

    kind: Literal["added", "removed", "changed", "conflict"]
    key: bytes
    left: bytes | Absent
    right: bytes | Absent


Strategy = Literal["", "dest-wins", "source-wins"]
