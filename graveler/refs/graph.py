"""The graph of commits: positions, ancestors, merge bases.

    depth       6   5   4   3   2   1   0          first-parent steps to the root
    line        o ─ o ─ o ─ o ─ o ─ o ─ o
    jump        3   4   3   0   1   0              skew-binary: any ancestor is O(log depth) away
    linear      6   5   4   3   2   1   0          steps back through one-parent commits

The generation of a commit is greater than that of every ancestor, and its `order_ns` (git's
corrected commit date) is not less.  Inside a linear run jumps may skip commits.  Elsewhere the
searches visit each commit, greatest generation first.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Code, NotFound, Unsupported
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent, Commit, CommitEntry
from graveler.refs.commits import Lookup

_LEFT, _RIGHT, _BOTH = 1, 2, 3


# ---- positions -----------------------------------------------------------------------------------


def positioned(lookup: Lookup, commit: Commit) -> Commit:
    """`commit` with generation, order, depth, jump and linear run computed from its parents.

    The values of these fields in the argument are ignored.  One call for each parent, and at most
    one more.
    """
    if not commit.parents:
        return commit._replace(
            generation=1,
            depth=0,
            jump=CommitId(""),
            jump_depth=0,
            linear=0,
            order_ns=commit.created_ns,
        )
    first_id = commit.parents[0]
    first = lookup(first_id)
    parents = [first, *map(lookup, commit.parents[1:])]
    jump, jump_depth = _jump_over(lookup, first_id, first)
    return commit._replace(
        generation=1 + max(parent.generation for parent in parents),
        depth=first.depth + 1,
        jump=jump,
        jump_depth=jump_depth,
        linear=0 if len(parents) > 1 else first.linear + 1,
        order_ns=max(commit.created_ns, *(parent.order_ns for parent in parents)),
    )


def _jump_over(lookup: Lookup, first_id: CommitId, first: Commit) -> tuple[CommitId, int]:
    """The jump of a child of `first`: two consecutive jumps of equal length become one; otherwise
    the jump is a single step."""
    if first.jump:
        behind = lookup(first.jump)
        if behind.jump and first.depth - first.jump_depth == behind.depth - behind.jump_depth:
            return behind.jump, behind.jump_depth
    return first_id, first.depth


# ---- ancestors -----------------------------------------------------------------------------------


def ancestor(lookup: Lookup, id: CommitId, steps: int) -> CommitId:
    """The commit `steps` first-parent steps before `id`.  Raises `NotFound`.  O(log depth)
    calls."""
    if steps == 0:
        return id
    commit = lookup(id)
    if steps > commit.depth:
        raise NotFound("not found", Code.ANCESTOR_NOT_FOUND, commit=id)
    return at_depth(lookup, CommitEntry(id, commit), commit.depth - steps)


def at_depth(lookup: Lookup, entry: CommitEntry, depth: int) -> CommitId:
    """The first-parent ancestor at `depth`, which is at most the entry's own.  O(log depth)
    calls."""
    id, commit = entry
    at = commit.depth
    while at > depth:
        if commit.jump_depth >= depth:
            id, at = commit.jump, commit.jump_depth
        else:
            id, at = commit.parents[0], at - 1
        if at > depth:  # the target itself need not be read: its id is known
            commit = lookup(id)
    return id


def nth_parent(lookup: Lookup, id: CommitId, number: int) -> CommitId:
    """The `number`-th parent, counted from 1; 0 is the commit itself.  Raises `NotFound`.  At most
    one call."""
    if number == 0:
        return id
    parents = lookup(id).parents
    if number > len(parents):
        raise NotFound("not found", Code.ANCESTOR_NOT_FOUND, commit=id)
    return parents[number - 1]


def on_line(lookup: Lookup, entry: CommitEntry, other: CommitEntry) -> bool:
    """Whether `other` is `entry` or a first-parent ancestor of it.  O(log depth) calls."""
    depth = other.commit.depth
    return depth <= entry.commit.depth and at_depth(lookup, entry, depth) == other.id


# ---- merge base ----------------------------------------------------------------------------------


def merge_base(
    lookup: Lookup,
    left: CommitId,
    right: CommitId,
    visit_count_max: int = limits.graph_visit_count_max,
) -> CommitId | Literal[Absent.ABSENT]:
    """The best common ancestor.  If there are several, the one of the greatest generation, then of
    the smallest id.  ABSENT: the histories have no common commit.

    A common ancestor of the greatest generation is not an ancestor of another common ancestor, so
    it is a best one as git defines it.  Cost: O(log n) calls where both sides are free of merges;
    elsewhere at most one call for each commit above the base's generation and for each parent of
    such a commit.  Raises `Unsupported` after `visit_count_max` commits.
    """
    if left == right:
        return left
    frontier = _Frontier(lookup, visit_count_max)
    frontier.add(left, _LEFT)
    frontier.add(right, _RIGHT)
    while frontier.both_sides:
        generation = frontier.next_generation
        level = frontier.pop_level()
        common = [visit.id for visit in level if visit.sides == _BOTH]
        if common:
            return min(common)
        for visit in _descend(lookup, level, generation - frontier.next_generation):
            frontier.add(visit.id, visit.sides)
    return ABSENT


class _Visit(NamedTuple):
    """A commit, and the sides from which it was reached."""

    id: CommitId
    commit: Commit
    sides: int


class _Step(NamedTuple):
    id: CommitId
    sides: int


class _Frontier:
    """The commits that the search must still visit, greatest generation first.

    Invariant: for each common ancestor that was not popped, and for each side, the frontier holds
    the ancestor or a descendant of it that was reached from this side.  Commits are popped by
    falling generation, so no descendant of a popped commit comes later, and its sides are final.
    """

    def __init__(self, lookup: Lookup, visit_count_max: int) -> None:
        self._lookup = lookup
        self._visit_count_max = visit_count_max
        self._heap: list[tuple[int, CommitId]] = []
        self._waiting: dict[CommitId, tuple[Commit, int]] = {}
        self._counts = [0, 0, 0, 0]  # how many wait, by sides
        self._visited = 0

    @property
    def both_sides(self) -> bool:
        """Whether a common ancestor is still possible."""
        _, left, right, both = self._counts
        return both > 0 or (left > 0 and right > 0)

    @property
    def next_generation(self) -> int:
        """The greatest generation in the frontier; 0 if it is empty."""
        return -self._heap[0][0] if self._heap else 0

    def add(self, id: CommitId, flags: int) -> None:
        known = self._waiting.get(id)
        if known is None:
            self._visited += 1
            if self._visited > self._visit_count_max:
                raise Unsupported(
                    f"merge base search stopped: more than {self._visit_count_max} commits"
                )
            commit, before = self._lookup(id), 0
            heapq.heappush(self._heap, (-commit.generation, id))
        else:
            commit, before = known
            self._counts[before] -= 1
        self._waiting[id] = commit, before | flags
        self._counts[before | flags] += 1

    def pop_level(self) -> list[_Visit]:
        """Remove and return all commits of the greatest generation."""
        generation = self.next_generation
        level = []
        while self._heap and self.next_generation == generation:
            _, id = heapq.heappop(self._heap)
            commit, flags = self._waiting.pop(id)
            self._counts[flags] -= 1
            level.append(_Visit(id, commit, flags))
        return level


def _descend(lookup: Lookup, level: Sequence[_Visit], room: int) -> Iterator[_Step]:
    """The commits to visit after the commits of one generation (`level`).

    `room` is the number of generations down to the next commit in the frontier; no other commit can
    appear in between.  A single commit may jump that far along its line.  Two commits may jump side
    by side while their lines do not meet.  Otherwise the parents are next.
    """
    lengths = [min(visit.commit.linear, room) for visit in level]
    if len(level) == 1 and lengths[0] > 1:
        visit = level[0]
        depth = visit.commit.depth - lengths[0]
        yield _Step(at_depth(lookup, CommitEntry(visit.id, visit.commit), depth), visit.sides)
    elif len(level) == 2 and min(lengths) > 1:
        yield from _side_by_side(lookup, level[0], level[1], min(lengths))
    else:
        for visit in level:
            for parent in visit.commit.parents:
                yield _Step(parent, visit.sides)


def _side_by_side(lookup: Lookup, one: _Visit, two: _Visit, length: int) -> Iterator[_Step]:
    """The ends of both lines after `length` steps, or the commit where they meet before.

    Both commits have the same generation, so lines that meet do so after the same number of steps,
    and therefore at the same depth.  From there on they are the same line.
    """
    first, second = CommitEntry(one.id, one.commit), CommitEntry(two.id, two.commit)
    end = first.commit.depth - length
    if first.commit.depth == second.commit.depth:
        while first.commit.depth > end and first.id != second.id:
            first, second = _pair_step(lookup, first, second, end)
        yield _Step(first.id, one.sides)
        yield _Step(second.id, two.sides)
    else:
        yield _Step(at_depth(lookup, first, end), one.sides)
        yield _Step(at_depth(lookup, second, second.commit.depth - length), two.sides)


def _pair_step(
    lookup: Lookup, first: CommitEntry, second: CommitEntry, end: int
) -> tuple[CommitEntry, CommitEntry]:
    """Both commits after a jump, if they land on different commits and not below `end`; otherwise
    both after one step."""
    one, two = first.commit, second.commit
    if one.jump != two.jump and one.jump_depth == two.jump_depth >= end:
        return CommitEntry(one.jump, lookup(one.jump)), CommitEntry(two.jump, lookup(two.jump))
    near, far = one.parents[0], two.parents[0]
    return CommitEntry(near, lookup(near)), CommitEntry(far, lookup(far))
