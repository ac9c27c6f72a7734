"""Retention: which commits are kept, by the rule of the repository.

    main     ●──●──●──●──●   head        a commit is kept while one that follows it is younger than
             old   └ 30 days ┘           the rule's days: so every state of those days can be read

A head and a tag are always kept.  So is what no ref leads to, for some days from the moment at
which a run of garbage collection first found it so.  The *record* of a commit is never deleted, and
what a ref leads to keeps its metarange and ranges: history, differences and merge bases stay, and
only objects go.  For collection, the commands and the service.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.ports import Ports
from graveler.errors import Invalid
from graveler.ids import BranchId, CommitId, StagingToken
from graveler.records import Absent, Commit, Repository
from graveler.refs.gc import retention
from graveler.refs.gc.retention import FOREVER, Retention
from graveler.refs.names import branches, tags
from graveler.refs.names.branches import NamedBranch

_DAY_NS = 24 * 3600 * limits.SECOND_NS
_DAYS_MAX = limits.retention_days_max


class Heads(NamedTuple):
    """What refs name; a branch may be listed with several commits, as it moved meanwhile."""

    branches: tuple[tuple[BranchId, CommitId], ...]
    tags: tuple[CommitId, ...]

    @property
    def commits(self) -> set[CommitId]:
        """All of them."""
        return {commit for _, commit in self.branches} | set(self.tags)

    def joined(self, others: "Heads") -> "Heads":
        """These and others."""
        return Heads(self.branches + others.branches, self.tags + others.tags)


class Kept(NamedTuple):
    """Commits whose content is kept, and commits that refs lead to."""

    commits: set[CommitId]
    led_to: set[CommitId]


class Refs(NamedTuple):
    """What refs name, and the staging tokens that branches name besides."""

    heads: Heads
    tokens: frozenset[StagingToken]


def list_refs(ports: Ports, repo: Repository) -> Refs:
    """All live branches and all tags as they are now.  One KV request for each 1,000."""
    named: list[NamedBranch] = []
    after, more = "", True
    while more:
        page, more = branches.list_page(
            ports.kv, repo, "", after, limits.page_count_max, show_hidden=True
        )
        named += page
        after = page[-1].id if page else after
    tagged: list[CommitId] = []
    after, more = "", True
    while more:
        tag_page, more = tags.list_page(ports.kv, repo, "", after, limits.page_count_max)
        tagged += [each.tag.commit for each in tag_page]
        after = tag_page[-1].id if tag_page else after
    heads = Heads(tuple((each.id, each.branch.commit) for each in named), tuple(tagged))
    tokens = (token for each in named for token in each.branch.tokens_newest_first)
    return Refs(heads, frozenset(tokens))


def get_rule(ports: Ports, repo: Repository) -> Retention:
    """The rule of the repository.  1 KV request."""
    return retention.get(ports.kv, repo)


def find_rule(ports: Ports, repo: Repository) -> Retention | Literal[Absent.ABSENT]:
    """The rule, if somebody has set one.  1 KV request."""
    return retention.find(ports.kv, repo)


def end_rule(ports: Ports, repo: Repository) -> None:
    """Take the rule away: from the next run of garbage collection on, whatever a branch or tag
    leads to is kept.  Nothing happens if there is none.  2 KV requests."""
    retention.end(ports.kv, repo, ports.ids)


def set_rule(ports: Ports, repo: Repository, rule: Retention) -> None:
    """Replace the rule; it counts from the next run of garbage collection on.  `Invalid`.
    2 KV requests."""
    for days in (rule.default_days, *rule.branches.values()):
        if not FOREVER <= days <= _DAYS_MAX:
            raise Invalid(f"retention must be 1 to {_DAYS_MAX} days, or 0 for ever: {days=}")
    if not 1 <= rule.unreachable_days <= _DAYS_MAX:
        raise Invalid(f"unreachable_days must be 1 to {_DAYS_MAX}: {rule.unreachable_days=}")
    retention.put(ports.kv, repo, rule, ports.ids)


def kept(
    rule: Retention,
    history: Mapping[CommitId, Commit],
    heads: Heads,
    unreached: Mapping[CommitId, int],
    now_ns: int,
) -> Kept:
    """The commits of `history` whose content is kept, and those that refs lead to.  `unreached`:
    since when it is known of a commit that no ref leads to it; unknown: since now.

    Pure; visits each commit once for each distinct number of days, and once more."""
    starts: dict[int, set[CommitId]] = {rule.default_days: set(heads.tags)}
    for branch, commit in heads.branches:
        starts.setdefault(rule.days(branch), set()).add(commit)
    alive: set[CommitId] = set()
    for days, commits in starts.items():
        alive |= _walk(history, commits, 0 if days == FOREVER else now_ns - days * _DAY_NS)
    led_to = with_ancestors(history, heads.commits)
    horizon_ns = now_ns - rule.unreachable_days * _DAY_NS
    lost = history.keys() - led_to
    alive.update(id for id in lost if unreached.get(id, now_ns) > horizon_ns)
    return Kept(alive, led_to)


def with_ancestors(history: Mapping[CommitId, Commit], starts: Iterable[CommitId]) -> set[CommitId]:
    """`starts` and everything that they come from, as far as `history` has it.  Pure."""
    return _walk(history, starts, 0)


def _walk(
    history: Mapping[CommitId, Commit], starts: Iterable[CommitId], horizon_ns: int
) -> set[CommitId]:
    """`starts`, and the parents of all found that was made after `horizon_ns` (0: always)."""
    found: set[CommitId] = set()
    todo = [id for id in starts if id in history]
    while todo:
        id = todo.pop()
        if id in found:
            continue
        found.add(id)
        commit = history[id]
        if not horizon_ns or commit.created_ns > horizon_ns:
            todo.extend(parent for parent in commit.parents if parent in history)
    return found
