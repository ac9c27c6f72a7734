"""Replays a recorded history over HTTP, through the unmodified `lakefs` package, and says what must
hold of the answers.

An object's content is its recorded identity, so its checksum names it.  Commits with more than two
parents are made from the changes to their first parent alone, and merge bases are expected
accordingly; all else is as in the replay by the engine.

What one commit changes is written by two threads at once.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import lakefs
import lakefs_sdk
from lakefs.client import Client as LakeFS
from lakefs.exceptions import ConflictException

from tests.replay import recorded
from tests.replay.recorded import Place, Recorded, Story, Tree

PAGE = 1_000
_WRITERS = 2

IDENTITIES = {hashlib.md5(identity.encode()).hexdigest(): identity for identity in recorded.sizes()}


@dataclass
class Replayed:
    """What the service answered; `ids[n]` stands for commit n of the story."""

    client: LakeFS
    story: Story
    repository: Any
    first: str
    writers: ThreadPoolExecutor
    ids: list[str] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    diffs: list[list[tuple[str, str]]] = field(default_factory=list)
    bases: dict[int, str] = field(default_factory=dict)
    conflicts: dict[int, list[str]] = field(default_factory=dict)
    merged: dict[int, Tree] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Recorded, ...]:
        return self.story.rows

    @property
    def pairs(self) -> list[Recorded]:
        """The merges of two."""
        return [row for row in self.rows if len(row.parents) == 2]


def replay(client: LakeFS, namespace: str, story: Story, name: str = "history") -> Replayed:
    """The story in a new repository below `namespace`."""
    repository = lakefs.Repository(name, client=client).create(f"{namespace}/{name}")
    first = repository.branch("main").get_commit().id
    with ThreadPoolExecutor(_WRITERS) as writers:
        done = Replayed(client, story, repository, first, writers)
        done.parents[first] = ()
        for row, place in zip(story.rows, story.places, strict=True):
            _make(done, row, place)
            for name in place.closes:
                repository.branch(name).delete()
    return done


def _make(done: Replayed, row: Recorded, place: Place) -> None:
    parent = done.ids[row.parents[0]] if row.parents else done.first
    branch = done.repository.branch(place.branch)
    if place.opens:
        branch.create(parent)
    if len(row.parents) == 2:
        made = _merge(done, row, place, branch)
    else:
        made = _commit(done, row, branch, row.changes, not done.story.changed(row))
    done.ids.append(made)
    done.trees.append(_tree(done, made))
    done.diffs.append(_difference(done, parent, made))


def _commit(
    done: Replayed,
    row: Recorded,
    branch: Any,
    changes: tuple[tuple[str, str | None, int], ...],
    empty: bool = False,
) -> str:
    uploads = [
        done.writers.submit(branch.object(path).upload, identity, pre_sign=False)
        for path, identity, _ in changes
        if identity is not None
    ]
    gone = [path for path, identity, _ in changes if identity is None]
    if gone:
        branch.delete_objects(gone)
    for upload in uploads:
        upload.result()
    commit = done.client.sdk_client.commits_api.commit(
        done.repository.id,
        branch.id,
        lakefs_sdk.CommitCreation(
            message=f"commit {row.n}",
            metadata={"n": str(row.n)},
            date=row.time,
            allow_empty=empty,
        ),
    )
    assert (commit.message, commit.creation_date) == (f"commit {row.n}", row.time)
    assert commit.metadata == {"n": str(row.n)}
    done.parents[commit.id] = tuple(commit.parents)
    return str(commit.id)


def _merge(done: Replayed, row: Recorded, place: Place, branch: Any) -> str:
    source = done.repository.ref(place.source or done.ids[row.parents[1]])
    base = done.client.sdk_client.refs_api.find_merge_base
    done.bases[row.n] = base(done.repository.id, source.id, branch.id).base_commit_id
    lines = branch.diff(source, amount=PAGE)
    done.conflicts[row.n] = [line.path for line in lines if line.type == "conflict"]
    head = branch.get_commit().id
    try:
        made = source.merge_into(branch, message=f"merge {row.n}", allow_empty=True)
        assert not done.conflicts[row.n], f"merge: {row.n=}"
    except ConflictException:
        assert done.conflicts[row.n], f"merge: {row.n=}"
        made = source.merge_into(
            branch, message=f"merge {row.n}", allow_empty=True, strategy="dest-wins"
        )
    done.parents[made] = (head, done.ids[row.parents[1]])
    done.merged[row.n] = result = _tree(done, made)
    wanted = done.story.trees[row.n]
    fixes = tuple(
        (path, wanted.get(path), 0)
        for path in sorted({*result, *wanted})
        if result.get(path) != wanted.get(path)
    )
    return _commit(done, row, branch, fixes) if fixes else str(made)


def _tree(done: Replayed, ref: str) -> Tree:
    listed = done.repository.ref(ref).objects(amount=PAGE)
    return {each.path: IDENTITIES[each.checksum] for each in listed}


def _difference(done: Replayed, left: str, right: str) -> list[tuple[str, str]]:
    lines = done.repository.ref(left).diff(right, type="two_dot", amount=PAGE)
    return [(line.type, line.path) for line in lines]


def sample(done: Replayed) -> list[int]:
    """Some commits, the last among them."""
    return [*range(0, len(done.rows), 17), len(done.rows) - 1]


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
    best = recorded.best_common_ancestors(done.rows, octopus=False)
    for row in done.pairs:
        wanted = {done.ids[n] for n in best[row.n]} or {done.first}
        assert done.bases[row.n] in wanted, f"merge base: {row.n=}"


def check_every_merge_gives_the_three_way_result_and_all_of_its_conflicts(done: Replayed) -> None:
    number = {commit_id: n for n, commit_id in enumerate(done.ids)}
    trees = done.story.trees
    same_bases = recorded.best_common_ancestors(done.rows, octopus=False)
    for row in done.pairs:
        base = number.get(done.bases[row.n])
        result, conflicts = recorded.three_way(
            {} if base is None else trees[base], trees[row.parents[1]], trees[row.parents[0]]
        )
        assert done.conflicts[row.n] == conflicts, f"conflicts: {row.n=}"
        assert done.merged[row.n] == result, f"merge: {row.n=}"
        if row.merge is not None and same_bases[row.n] == tuple(sorted(row.bases)):
            assert len(conflicts) == row.merge[0], f"conflicts: {row.n=}"
            assert conflicts or recorded.digest(result) == row.merge[1], f"merge: {row.n=}"


def check_ancestors_are_found_by_modifiers(done: Replayed) -> None:
    for n in sample(done):
        line = [done.ids[n]]
        while done.parents[line[-1]]:
            line.append(done.parents[line[-1]][0])
        for distance in sorted({1, 2, 7, len(line) - 1} & set(range(len(line)))):
            assert done.repository.ref(f"{line[0]}~{distance}").get_commit().id == line[distance]
        for position, parent in enumerate(done.parents[line[0]], start=1):
            assert done.repository.ref(f"{line[0]}^{position}").get_commit().id == parent


def check_logs_hold_every_ancestor_once_and_lines_in_order(done: Replayed) -> None:
    for n in {len(done.rows) // 4, len(done.rows) - 1}:
        ancestors = {done.ids[n]}
        todo = [done.ids[n]]
        while todo:
            fresh = [p for p in done.parents[todo.pop()] if p not in ancestors]
            ancestors.update(fresh)
            todo += fresh
        got = [commit.id for commit in done.repository.ref(done.ids[n]).log(amount=PAGE)]
        assert len(got) == len(ancestors) and set(got) == ancestors, f"log: {n=}"
        line = [commit.id for commit in done.repository.ref(done.ids[n]).log(first_parent=True)]
        wanted = [done.ids[n]]
        while done.parents[wanted[-1]]:
            wanted.append(done.parents[wanted[-1]][0])
        assert line == wanted, f"log along first parents: {n=}"


CHECKS = (
    check_every_tree_has_the_recorded_digest,
    check_every_difference_against_the_first_parent_is_what_was_changed,
    check_every_merge_base_is_a_best_common_ancestor,
    check_every_merge_gives_the_three_way_result_and_all_of_its_conflicts,
    check_ancestors_are_found_by_modifiers,
    check_logs_hold_every_ancestor_once_and_lines_in_order,
)
