"""Retention: which commits are kept, by the rule of the repository.

    main     ●──●──●──●──●   head        a commit is kept while a commit that follows it is younger
             old   └ 30 days ┘           than the rule's days: every state of those days is readable
A commit counts as made no earlier than its ancestors.  Heads, tags and published snapshots are
always kept; a commit that no ref reaches for some days.  Records of commits are never deleted.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Conflict, Invalid
from graveler.core.ids import BranchId, CommitId, StagingToken
from graveler.core.records import Absent, Commit
from graveler.engine.ports import OpenRepository
from graveler.refs import branches, garbage, snapshots, tags
from graveler.refs.garbage import FOREVER, Retention

_DAY_NS = 24 * 3600 * limits.SECOND_NS
_DAYS_MAX = limits.retention_days_max


class Heads(NamedTuple):
    """The commits that refs name.  A branch may be listed with several commits, because it moved
    between two looks.
    """

    branches: tuple[tuple[BranchId, CommitId], ...]
    tags: tuple[CommitId, ...]  # and those of published snapshots

    @property
    def commits(self) -> set[CommitId]:
        """All commits of branches and tags."""
        return {commit for _, commit in self.branches} | set(self.tags)

    def joined(self, others: "Heads") -> "Heads":
        """The union with others."""
        return Heads(self.branches + others.branches, self.tags + others.tags)


class KeptCommits(NamedTuple):
    """Commits whose content is kept, and commits that refs reach."""

    commits: set[CommitId]
    led_to: set[CommitId]


class Refs(NamedTuple):
    """The commits that refs name, and the staging tokens that branches name."""

    heads: Heads
    tokens: frozenset[StagingToken]


def list_refs(repo: OpenRepository) -> Refs:
    """All live branches, all tags and all published snapshots as they are now.  1 KV request for
    each 1,000."""
    named = list(branches.every(repo.kv, repo.record))
    tagged = tuple(each.tag.commit for each in tags.every(repo.kv, repo.record))
    published = tuple(id for each in snapshots.every(repo.kv, repo.record) for id in each.commits)
    heads = Heads(tuple((each.id, each.branch.commit) for each in named), tagged + published)
    tokens = (token for each in named for token in each.branch.tokens_newest_first)
    return Refs(heads, frozenset(tokens))


def check_restored(repo: OpenRepository, refs: Refs) -> None:
    """Raises `Conflict` for a repository without its default branch."""
    if repo.record.default_branch not in dict(refs.heads.branches):
        raise Conflict(
            "not collected: the repository has no default branch; restore its refs first: "
            f"repository={repo.id}"
        )


def get_rule(repo: OpenRepository) -> Retention:
    """The rule of the repository.  1 KV request."""
    return garbage.get_retention(repo.kv, repo.record)


def find_rule(repo: OpenRepository) -> Retention | Literal[Absent.ABSENT]:
    """The rule; ABSENT if none was set.  1 KV request."""
    return garbage.find_retention(repo.kv, repo.record)


def end_rule(repo: OpenRepository) -> None:
    """Remove the rule.  From the next run of garbage collection on, every commit that a branch or
    tag reaches is kept.  Does nothing if there is no rule.  2 KV requests.
    """
    garbage.end_retention(repo.kv, repo.record, repo.ids)


def set_rule(repo: OpenRepository, rule: Retention) -> None:
    """Replace the rule; it applies from the next run of garbage collection on.  Errors: `Invalid`.
    2 KV requests.
    """
    for days in (rule.default_days, *rule.branches.values()):
        if not FOREVER <= days <= _DAYS_MAX:
            raise Invalid(f"retention must be 1 to {_DAYS_MAX} days, or 0 for unlimited: {days=}")
    if not 1 <= rule.unreachable_days <= _DAYS_MAX:
        raise Invalid(f"unreachable_days must be 1 to {_DAYS_MAX}: {rule.unreachable_days=}")
    garbage.put_retention(repo.kv, repo.record, rule, repo.ids)


def kept(
    rule: Retention,
    history: Mapping[CommitId, Commit],
    heads: Heads,
    unreached: Mapping[CommitId, int],
    now_ns: int,
) -> KeptCommits:
    """The commits of `history` whose content is kept, and those that refs reach.

    `unreached`: the time since which a commit is known to be unreachable; a commit that is missing
    there counts as unreachable since now.

    Pure; visits each commit once for each distinct number of days, and twice more.
    """
    led_to = with_ancestors(history, heads.commits)
    left_ns = now_ns - rule.unreachable_days * _DAY_NS
    lately = {id for id in history.keys() - led_to if unreached.get(id, now_ns) > left_ns}
    starts: dict[int, set[CommitId]] = {rule.default_days: lately.union(heads.tags)}
    for branch, commit in heads.branches:
        starts.setdefault(rule.days(branch), set()).add(commit)
    made_ns = {} if starts.keys() == {FOREVER} else _made_ns(history, now_ns)
    alive: set[CommitId] = set()
    for days, commits in starts.items():
        if days == FOREVER:
            alive |= with_ancestors(history, commits)
        else:
            alive |= _walk(history, commits, made_ns, now_ns - days * _DAY_NS)
    return KeptCommits(alive, led_to)


def _made_ns(history: Mapping[CommitId, Commit], now_ns: int) -> dict[CommitId, int]:
    """When each commit was made at the earliest: the latest date of it and of its ancestors, up to
    `now_ns`; 0 if they have none."""
    latest_ns: dict[CommitId, int] = {}
    todo = list(history)
    while todo:
        commit = history[todo[-1]]
        parents = [parent for parent in commit.parents if parent in history]
        missing = [parent for parent in parents if parent not in latest_ns]
        if missing:
            todo.extend(missing)
            continue
        own = commit.created_ns if commit.created_ns <= now_ns else 0
        latest_ns[todo.pop()] = max([own, *(latest_ns[parent] for parent in parents)])
    return latest_ns


def with_ancestors(history: Mapping[CommitId, Commit], starts: Iterable[CommitId]) -> set[CommitId]:
    """`starts` and all their ancestors, as far as `history` has them.  Pure."""
    return _walk(history, starts, {}, 0)


def _walk(
    history: Mapping[CommitId, Commit],
    starts: Iterable[CommitId],
    made_ns: Mapping[CommitId, int],
    horizon_ns: int,
) -> set[CommitId]:
    """`starts`, and the parents of every visited commit that was made after `horizon_ns` (0: of
    every visited commit).  `made_ns`: of all commits, unless `horizon_ns` is 0."""
    reached: set[CommitId] = set()
    todo = [id for id in starts if id in history]
    while todo:
        id = todo.pop()
        if id in reached:
            continue
        reached.add(id)
        commit = history[id]
        if not horizon_ns or max(commit.created_ns, made_ns[id]) > horizon_ns:
            todo.extend(parent for parent in commit.parents if parent in history)
    return reached
