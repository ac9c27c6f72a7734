"""A cache of recently read records: repositories and branches for seconds, commits and merge bases
without limit.

A repository record may be `limits.repository_cache_seconds_max` old.  A branch record may be
`limits.branch_cache_seconds_max` old, and serves only the *first* read of a writer: every decision
reads the store.  A map has a young and an old half and takes no lock: when the young half is full,
the old half is dropped.
"""

from collections.abc import Hashable
from typing import Generic, Literal, NamedTuple, TypeVar

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.ids import BranchId, CommitId, RepositoryId, RepositoryUid
from graveler.core.records import ABSENT, Absent, Commit, Repository, Versioned

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

COMMITS_COUNT_DEFAULT = 50_000
_COMMIT_OVERHEAD_BYTES = 1_024  # ids, times and objects of a commit without message and metadata
_SHORT_LIVED_COUNT = 10_000
_BASES_COUNT = 10_000


class _Halves(Generic[K, V]):
    """A bounded map that drops entries that were not read recently."""

    def __init__(self, count_max: int, bytes_max: int = 1 << 62) -> None:
        self._count = max(1, count_max // 2)
        self._bytes = max(1, bytes_max // 2)
        self._spent = 0
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}

    def get(self, key: K) -> V | Literal[Absent.ABSENT]:
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.get(key)
            if entry is None:
                return ABSENT
            self.put(key, *entry)
        return entry[0]

    def put(self, key: K, value: V, size: int = 0) -> None:
        young = self._young
        young[key] = value, size
        self._spent += size
        if len(young) >= self._count or self._spent >= self._bytes:
            self._old, self._young, self._spent = young, {}, 0

    def forget(self, key: K) -> None:
        # Old half first: a concurrent reader must not move the entry back to the young half.
        self._old.pop(key, None)
        self._young.pop(key, None)


class Moment(NamedTuple):
    """When a read began: the steady seconds, and the last time that a repository was forgotten (an
    object of its own)."""

    seconds: float
    forgotten: object


class RefCache:
    """The cache of one process.  Safe for any number of threads."""

    def __init__(
        self,
        clock: Clock,
        commits_count_max: int = COMMITS_COUNT_DEFAULT,
        commits_bytes_max: int = COMMITS_COUNT_DEFAULT * 2 * _COMMIT_OVERHEAD_BYTES,
    ) -> None:
        self._clock = clock
        self._repositories: _Halves[RepositoryId, tuple[float, Repository]] = _Halves(
            _SHORT_LIVED_COUNT
        )
        self._branches: _Halves[tuple[RepositoryUid, BranchId], tuple[float, Versioned]] = _Halves(
            _SHORT_LIVED_COUNT
        )
        self._commits: _Halves[tuple[RepositoryUid, CommitId], Commit] = _Halves(
            commits_count_max, commits_bytes_max
        )
        self._bases: _Halves[tuple[RepositoryUid, CommitId, CommitId], CommitId] = _Halves(
            _BASES_COUNT
        )
        self._namespaces: tuple[float, frozenset[str]] = (float("-inf"), frozenset())
        self._forgotten = object()

    def now(self) -> Moment:
        """For `put_repository`, before the record is read."""
        return Moment(self._clock.steady_seconds(), self._forgotten)

    def repository(self, id: RepositoryId) -> Repository | Literal[Absent.ABSENT]:
        """The record, if its read began less than `repository_cache_seconds_max` ago."""
        entry = self._repositories.get(id)
        if entry is ABSENT:
            return ABSENT
        age = self._clock.steady_seconds() - entry[0]
        return entry[1] if age < limits.repository_cache_seconds_max else ABSENT

    def put_repository(self, repository: Repository, read_at: Moment) -> None:
        """Cache a record whose read began at `read_at`, unless a record was dropped since: a slow
        read may have seen this one before it changed."""
        if read_at.forgotten is self._forgotten:
            self._repositories.put(repository.id, (read_at.seconds, repository))
        if read_at.forgotten is not self._forgotten:  # dropped in between
            self._repositories.forget(repository.id)

    def forget_repository(self, id: RepositoryId) -> None:
        """Drop the record, because it changed."""
        self._forgotten = object()
        self._repositories.forget(id)

    def namespaces(self) -> frozenset[str] | Literal[Absent.ABSENT]:
        """The storage namespaces of all repositories, if they were put less than
        `repository_cache_seconds_max` ago."""
        put_at, names = self._namespaces
        age = self._clock.steady_seconds() - put_at
        return names if age < limits.repository_cache_seconds_max else ABSENT

    def put_namespaces(self, namespaces: frozenset[str]) -> None:
        """Cache the result of a scan that just ended."""
        self._namespaces = self._clock.steady_seconds(), namespaces

    def branch(
        self, repository: Repository, branch: BranchId
    ) -> Versioned | Literal[Absent.ABSENT]:
        """The record, if it was put less than `branch_cache_seconds_max` ago."""
        entry = self._branches.get((repository.uid, branch))
        if entry is ABSENT:
            return ABSENT
        age = self._clock.steady_seconds() - entry[0]
        return entry[1] if age < limits.branch_cache_seconds_max else ABSENT

    def put_branch(self, repository: Repository, branch: BranchId, record: Versioned) -> None:
        """Cache a record that was just read from the store."""
        self._branches.put((repository.uid, branch), (self._clock.steady_seconds(), record))

    def forget_branch(self, repository: Repository, branch: BranchId) -> None:
        """Drop the record, because it changed."""
        self._branches.forget((repository.uid, branch))

    def commit(self, repository: Repository, id: CommitId) -> Commit | Literal[Absent.ABSENT]:
        """The commit of this repository, if it is cached."""
        return self._commits.get((repository.uid, id))

    def put_commit(self, repository: Repository, id: CommitId, commit: Commit) -> None:
        """Cache a commit that is stored."""
        pairs = sum(len(key) + len(value) for key, value in commit.metadata.items())
        size = _COMMIT_OVERHEAD_BYTES + len(commit.message) + pairs
        self._commits.put((repository.uid, id), commit, size)

    def base(
        self, repository: Repository, source: CommitId, destination: CommitId
    ) -> CommitId | Literal[Absent.ABSENT]:
        """The merge base of two commits, if it is cached: `NO_COMMIT` if they have none."""
        return self._bases.get((repository.uid, source, destination))

    def put_base(
        self, repository: Repository, source: CommitId, destination: CommitId, base: CommitId
    ) -> None:
        """Cache the merge base of two commits; commits never change, so it stays right."""
        self._bases.put((repository.uid, source, destination), base)
