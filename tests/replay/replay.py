"""Replays a recorded history through a door, and says what must hold of the answers.

A merge whose result differs from the plain three-way merge (conflicts, changes by hand, several
bases) is put right by a fix-up commit, which then stands for it.  Roots are children of the
repository's empty first commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.replay import recorded
from tests.replay.recorded import Change, Place, Recorded, Story, Tree


class Made(NamedTuple):
    """A new commit."""

    id: str
    parents: tuple[str, ...]


class Merged(NamedTuple):
    """What was said of one merge.  `refused`: whether it was, without a strategy."""

    id: str
    base: str
    conflicts: Sequence[str]
    refused: bool


class Door(Protocol):
    """A repository, however it is reached."""

    first: str  # its empty first commit
    is_octopus: bool  # it takes commits with more than two parents

    def open(self, branch: str, commit: str) -> None: ...
    def close(self, branch: str) -> None: ...
    def head(self, branch: str) -> str: ...
    def commit(
        self, branch: str, row: Recorded, changes: Sequence[Change], *, fixes: bool, empty: bool
    ) -> Made: ...
    def merge(self, source: str, branch: str, row: Recorded) -> Merged: ...
    def with_parents(self, branch: str, made: str, parents: tuple[str, ...]) -> str: ...
    def tree(self, ref: str) -> Tree: ...
    def difference(self, left: str, right: str) -> list[tuple[str, str]]: ...
    def commit_of(self, ref: str) -> str: ...
    def log(self, ref: str, *, first_parent: bool = False) -> list[str]: ...
    def uncommitted(self) -> Mapping[str, int]: ...


@dataclass
class Replayed:
    """The answers; `ids[n]` is the commit that stands for commit n of the story."""

    door: Door
    story: Story
    ids: list[str] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    diffs: list[list[tuple[str, str]]] = field(default_factory=list)
    merges: dict[int, Merged] = field(default_factory=dict)
    merged: dict[int, Tree] = field(default_factory=dict)  # right after
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Recorded, ...]:
        return self.story.rows

    @property
    def pairs(self) -> list[Recorded]:
        """The merges of two."""
        return [row for row in self.rows if len(row.parents) == 2]

    @property
    def sample(self) -> list[int]:
        """Some commits, the last among them."""
        step = max(17, len(self.rows) // 41)
        return [*range(0, len(self.rows), step), len(self.rows) - 1]

    def line(self, n: int) -> list[str]:
        """The first parents of a commit, itself first."""
        found = [self.ids[n]]
        while self.parents[found[-1]]:
            found.append(self.parents[found[-1]][0])
        return found


def replay(door: Door, story: Story) -> Replayed:
    """Make the commits of the story again."""
    done = Replayed(door, story)
    done.parents[door.first] = ()
    for row, place in zip(story.rows, story.places, strict=True):
        _make(done, row, place)
        for name in place.closes:
            door.close(name)
    return done


def _make(done: Replayed, row: Recorded, place: Place) -> None:
    door, parent = done.door, done.ids[row.parents[0]] if row.parents else done.door.first
    if place.opens:
        door.open(place.branch, parent)
    if len(row.parents) == 2:
        id = _merge(done, row, place)
    else:
        is_empty = not done.story.changed(row)
        id = _commit(done, place.branch, row, row.changes, empty=is_empty)
    if len(row.parents) > 2 and door.is_octopus:
        parents = tuple(done.ids[each] for each in row.parents)
        id = door.with_parents(place.branch, id, parents)
        done.parents[id] = parents
    done.ids.append(id)
    done.trees.append(door.tree(id))
    done.diffs.append(door.difference(parent, id))


def _commit(
    done: Replayed,
    branch: str,
    row: Recorded,
    changes: Sequence[Change],
    *,
    fixes: bool = False,
    empty: bool = False,
) -> str:
    made = done.door.commit(branch, row, changes, fixes=fixes, empty=empty)
    done.parents[made.id] = made.parents
    return made.id


def _merge(done: Replayed, row: Recorded, place: Place) -> str:
    other = done.ids[row.parents[1]]
    head = done.door.head(place.branch)
    merged = done.merges[row.n] = done.door.merge(place.source or other, place.branch, row)
    done.parents[merged.id] = (head, other)
    result = done.merged[row.n] = done.door.tree(merged.id)
    fixes = recorded.between(result, done.story.trees[row.n])
    return _commit(done, place.branch, row, fixes, fixes=True) if fixes else merged.id


# ---- what must hold ------------------------------------------------------------------------------


def check_every_tree_has_the_recorded_digest(done: Replayed) -> None:
    assert [recorded.digest(tree) for tree in done.trees] == [row.digest for row in done.rows]


def check_every_difference_against_the_first_parent_is_what_was_changed(done: Replayed) -> None:
    trees = done.story.trees
    for row, got in zip(done.rows, done.diffs, strict=True):
        before = trees[row.parents[0]] if row.parents else {}
        wanted = [
            ("removed" if new is None else "changed" if path in before else "added", path)
            for path, new, _ in done.story.changed(row)
        ]
        assert got == sorted(wanted, key=lambda line: line[1].encode()), f"difference: {row.n=}"


def check_every_merge_base_is_a_best_common_ancestor(done: Replayed) -> None:
    best = recorded.best_common_ancestors(done.rows, octopus=done.door.is_octopus)
    for row in done.pairs:
        wanted = {done.ids[n] for n in best[row.n]} or {done.door.first}
        assert done.merges[row.n].base in wanted, f"merge base: {row.n=}"


def check_every_merge_gives_the_three_way_result_and_all_of_its_conflicts(done: Replayed) -> None:
    number = {commit_id: n for n, commit_id in enumerate(done.ids)}
    trees = done.story.trees
    best = recorded.best_common_ancestors(done.rows, octopus=done.door.is_octopus)
    for row in done.pairs:
        merged = done.merges[row.n]
        base = number.get(merged.base)
        result, conflicts = recorded.three_way(
            {} if base is None else trees[base], trees[row.parents[1]], trees[row.parents[0]]
        )
        assert list(merged.conflicts) == conflicts, f"conflicts: {row.n=}"
        assert merged.refused == bool(conflicts), f"merge: {row.n=}"
        assert done.merged[row.n] == result, f"merge: {row.n=}"
        if row.merge is not None and best[row.n] == tuple(sorted(row.bases)):
            assert len(conflicts) == row.merge[0], f"conflicts: {row.n=}"
            assert conflicts or recorded.digest(result) == row.merge[1], f"merge: {row.n=}"


def check_ancestors_are_found_by_modifiers(done: Replayed) -> None:
    for n in done.sample:
        line = done.line(n)
        for distance in sorted({1, 2, 3, 10, 100, len(line) - 1} & set(range(len(line)))):
            assert done.door.commit_of(f"{line[0]}~{distance}") == line[distance]
        for position, parent in enumerate(done.parents[line[0]], start=1):
            assert done.door.commit_of(f"{line[0]}^{position}") == parent


def check_logs_hold_every_ancestor_once_and_lines_in_order(done: Replayed) -> None:
    for n in {len(done.rows) // 4, len(done.rows) - 1}:
        ancestors, todo = {done.ids[n]}, [done.ids[n]]
        while todo:
            fresh = [each for each in done.parents[todo.pop()] if each not in ancestors]
            ancestors.update(fresh)
            todo += fresh
        got = done.door.log(done.ids[n])
        assert len(got) == len(ancestors) and set(got) == ancestors, f"log: {n=}"
        assert done.door.log(done.ids[n], first_parent=True) == done.line(n), f"first parents: {n=}"


def check_nothing_is_left_uncommitted(done: Replayed) -> None:
    left = done.door.uncommitted()
    assert "main" in left and not any(left.values()), left


CHECKS = (
    check_every_tree_has_the_recorded_digest,
    check_every_difference_against_the_first_parent_is_what_was_changed,
    check_every_merge_base_is_a_best_common_ancestor,
    check_every_merge_gives_the_three_way_result_and_all_of_its_conflicts,
    check_ancestors_are_found_by_modifiers,
    check_logs_hold_every_ancestor_once_and_lines_in_order,
    check_nothing_is_left_uncommitted,
)
