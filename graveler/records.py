"""The nouns: what is stored, and the words for what is not there.

    repository ──► branches ──► commit ──► metarange ──► ranges ──► entries ──► objects
                      │            └─► parents
                      └─► staging token, sealed tokens ──► staged entries (uncommitted)

A branch is the only thing that two writers can fight over: it changes by compare-and-swap on its
record alone.  Commits,
metaranges and ranges never change, so two commits share every range that says the same.  Records
are immutable; derive a
new one with `dataclasses.replace` or `_replace`.  `rest` of a record that changes: fields that a
later release wrote, as they are stored, so that a swap by this release keeps them.  Pure; everybody
may import this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.ids import (
    NO_COMMIT,
    NO_METARANGE,
    BranchId,
    CommitId,
    JobId,
    MetarangeId,
    RangeId,
    RepositoryId,
    RepositoryUid,
    StagingToken,
)


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


class Tombstone(Enum):
    """The type of `TOMBSTONE`."""

    TOMBSTONE = "tombstone"


ABSENT: Final = Absent.ABSENT  # nothing is stored there
TOMBSTONE: Final = Tombstone.TOMBSTONE  # a deletion is staged there

Record = tuple[bytes, bytes]  # key (path bytes), framed value
StagedValue = bytes | Literal[Tombstone.TOMBSTONE]
Change = tuple[bytes, StagedValue]  # key, its new framed value or its deletion


class AddressType(IntEnum):
    """How an entry's address is to be read; numbers are those of the entry format."""

    BY_PREFIX = 0  # legacy: full if it has a scheme, else relative
    RELATIVE = 1  # below the repository's storage namespace
    FULL = 2  # an address of its own


class Entry(NamedTuple):
    """What a path points to.  `modified_ns` and `address` are no part of its identity."""

    address: str
    size: int
    checksum: str
    modified_ns: int
    metadata: Mapping[str, str] = {}
    address_type: AddressType = AddressType.RELATIVE
    content_type: str = ""


class Staged(NamedTuple):
    """One uncommitted change.  `order` grows with every write of the path; `wid` is the request
    that wrote it."""

    value: StagedValue
    order: int
    wid: bytes
    version: bytes = b""


@dataclass(frozen=True, slots=True)
class BreakParameters:
    """Where ranges end (docs/format.md); sizes in bytes of key plus framed value.  One choice for
    all that is written in a repository, until another one is made."""

    min_size: int = 0
    max_size: int = limits.range_size_bytes_default
    raggedness: int = limits.range_raggedness_default
    salt: bytes = b""


class RepositoryState(IntEnum):
    """A deleted repository's record stays, so that a late duplicate of its creation cannot bring
    it back."""

    LIVE = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository.  `uid` is fresh at each creation: a re-created one sees nothing of the
    old.  `collected`: some of its commits may be condemned, so look before using one."""

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
    rest: bytes = b""


class BranchState(IntEnum):
    """A deleted branch's record stays for a day at least, for the same reason."""

    LIVE = 1
    DELETED = 2


class Branch(NamedTuple):
    """The record that commits, merges and resets swap.

    `rev` grows with every change, across deletion and re-creation as long as the record is there
    (refs/names/purge.py).  `sealed` is oldest first;
    every token in it still
    holds changes that no commit of this branch has folded in.  `recent_rows`: how many rows its
    commits folded in lately, which decides how many shards its next token has, and nothing else.
    """

    rev: int
    state: BranchState
    staging: StagingToken
    sealed: tuple[StagingToken, ...]
    commit: CommitId
    hidden: bool = False
    changed_ns: int = 0
    recent_rows: int = 0
    rest: bytes = b""

    @property
    def tokens_newest_first(self) -> tuple[StagingToken, ...]:
        """The order in which a reader asks: the first that knows the path decides."""
        return (self.staging, *reversed(self.sealed))

    @property
    def live(self) -> bool:
        return self.state is BranchState.LIVE


class Versioned(NamedTuple):
    """A branch record and the version of its stored form, which a compare-and-swap must name."""

    branch: Branch
    version: bytes


class Commit(NamedTuple):
    """An immutable snapshot: a metarange and the commits that it came from.

    `generation` is 1 + the greatest of the parents'.  `depth` counts first-parent steps to a root.
     `jump` names a
    first-parent ancestor at `jump_depth` (skew-binary, so that any ancestor is O(log depth) jumps
    away).  `linear` is
    the number of commits behind this one, along first parents, up to which each has exactly one
    parent.
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


class CommitEntry(NamedTuple):
    """A commit with its id."""

    id: CommitId
    commit: Commit


class Tag(NamedTuple):
    """A name that never moves.  A deleted one's record stays for a day at least; as long as it is
    there, `rev` grows with every change.  `changed_ns`: when it was deleted; 0: not known."""

    commit: CommitId
    rev: int = 1
    deleted: bool = False
    changed_ns: int = 0
    rest: bytes = b""


class Fold(NamedTuple):
    """What a commit on a branch folded in: the tokens, oldest first, and when."""

    tokens: tuple[StagingToken, ...]
    created_ns: int = 0


class Cleanup(NamedTuple):
    """An intent: the rows of a token may be deleted once no branch record names it and its grace
    is over."""

    branch: BranchId
    not_before_ns: int
    marked_ns: int = 0
    passes: int = 0
    rest: bytes = b""


class UploadAddress(NamedTuple):
    """A physical address that was handed out for one path of one branch."""

    branch: BranchId
    path: str
    expires_ns: int


class JobState(IntEnum):
    """A job that has ended never changes its state again.  A landing one runs, and can no longer
    be cancelled."""

    RUNNING = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4
    LANDING = 5


class Job(NamedTuple):
    """Work that may outlive its request.  `owner` is the process that runs it; times in
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
    branch: str = ""
    rest: bytes = b""

    @property
    def ended(self) -> bool:
        return self.state not in (JobState.RUNNING, JobState.LANDING)


@dataclass(frozen=True, slots=True)
class RangeRef:
    """A range as its metarange knows it; keys inclusive; `size` is logical (keys and framed
    values), in bytes."""

    id: RangeId
    min_key: bytes
    max_key: bytes
    size: int
    count: int
    identity: bytes = b""


class Difference(NamedTuple):
    """One path on which two sides differ; for a conflict `left` is the destination's value,
    `right` the source's."""

    kind: Literal["added", "removed", "changed", "conflict"]
    key: bytes
    left: bytes | Absent
    right: bytes | Absent


Strategy = Literal["", "dest-wins", "source-wins"]
