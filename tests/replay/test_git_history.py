"""The engine makes thousands of commits of a real history again and agrees with all of it."""

import heapq
from collections.abc import Iterator

import pytest

from graveler import assembly
from graveler.engine import names
from graveler.engine.commits import diff, log
from tests import draws
from tests.replay import recorded
from tests.replay.engine_replay import PAGE, Replayed, replay

pytestmark = pytest.mark.slow

COUNT = recorded.COUNT
ROWS = recorded.history(COUNT)
PAIRS = [row for row in ROWS if len(row.parents) == 2]
SAMPLE = [*range(0, COUNT, 97), COUNT - 1]


@pytest.fixture(scope="module")
def done() -> Replayed:
    return replay(assembly.open_memory(), COUNT)


def test_every_tree_has_the_recorded_digest(done: Replayed) -> None:
    assert [recorded.digest(tree) for tree in done.trees] == [row.digest for row in ROWS]


def test_every_difference_against_the_first_parent_is_what_was_changed(done: Replayed) -> None:
    for row, got in zip(ROWS, done.diffs, strict=True):
        wanted = sorted(
            ((path, new) for path, new, _ in recorded.changed(row)), key=lambda c: c[0].encode()
        )
        assert list(got) == wanted, f"difference: {row.n=}"


def test_every_merge_base_is_the_recorded_one_or_the_first_in_order_of_several(
    done: Replayed,
) -> None:
    assert len(PAIRS) == (926 if draws.ALL else 420)
    generation = {
        n: log.get_commit(done.opened, done.ids[n]).commit.generation
        for row in PAIRS
        for n in row.bases
    }
    for row in PAIRS:
        best = sorted((-generation[n], done.ids[n]) for n in row.bases)
        source, dest = (done.ids[parent] for parent in reversed(row.parents))
        base = best[0][1] if best else done.first
        assert done.merges[row.n].bases == (source, dest, base), f"merge base: {row.n=}"


def test_every_merge_gives_the_three_way_result_and_all_of_its_conflicts(done: Replayed) -> None:
    number = {commit_id: n for n, commit_id in enumerate(done.ids)}
    trees = recorded.trees(COUNT)
    for row in PAIRS:
        merged = done.merges[row.n]
        base = number.get(merged.bases[2])
        result, conflicts = recorded.three_way(
            {} if base is None else trees[base], trees[row.parents[1]], trees[row.parents[0]]
        )
        assert list(merged.conflicts) == conflicts, f"conflicts: {row.n=}"
        assert merged.tree == result, f"merge: {row.n=}"
        if row.merge is not None:
            assert len(merged.conflicts) == row.merge[0], f"conflicts: {row.n=}"
            assert row.merge[0] or recorded.digest(merged.tree) == row.merge[1], f"merge: {row.n=}"


def test_a_merge_is_refused_exactly_where_sides_conflict_and_the_refusal_names_paths(
    done: Replayed,
) -> None:
    assert sum(bool(merged.refused) for merged in done.merges.values()) >= (
        351 if draws.ALL else 150
    )
    for n, merged in done.merges.items():
        assert bool(merged.refused) == bool(merged.conflicts), f"merge: {n=}"
        assert merged.refused == merged.conflicts[: len(merged.refused)], f"merge: {n=}"


def test_first_parents_and_other_parents_are_found_by_modifiers(done: Replayed) -> None:
    for n in SAMPLE:
        line = [done.ids[n]]
        while done.parents[line[-1]]:
            line.append(done.parents[line[-1]][0])
        for distance in {1, 2, 3, 10, 100, len(line) - 1}:
            if distance < len(line):
                ref = f"{line[0]}~{distance}"
                assert log.get_commit(done.opened, ref).id == line[distance], ref
        for number, parent in enumerate(done.parents[line[0]], start=1):
            ref = f"{line[0]}^{number}"
            assert log.get_commit(done.opened, ref).id == parent, ref


def test_plain_lines_have_the_recorded_ancestors(done: Replayed) -> None:
    asked = 0
    for row in ROWS[::11]:
        distance, n = 0, row.n
        while len(ROWS[n].parents) == 1:
            distance, n = distance + 1, ROWS[n].parents[0]
        if distance:
            asked += 1
            found = log.get_commit(done.opened, f"{done.ids[row.n]}~{distance}").id
            assert found == done.ids[n], f"~{distance}: {row.n=}"
    assert asked > COUNT / 20


def test_logs_hold_every_ancestor_newest_first(done: Replayed) -> None:
    for n in (*SAMPLE[:: len(SAMPLE) // 6], COUNT - 1):
        assert list(_log(done, done.ids[n])) == list(_expected_log(done, done.ids[n])), f"log: {n=}"


def test_logs_along_first_parents(done: Replayed) -> None:
    for n in SAMPLE[::5]:
        line = [done.ids[n]]
        while done.parents[line[-1]]:
            line.append(done.parents[line[-1]][0])
        assert list(_log(done, done.ids[n], first_parent=True)) == line, f"log: {n=}"


def test_nothing_is_left_uncommitted(done: Replayed) -> None:
    query = names.PageQuery(amount=PAGE)
    branches, more = names.list_branches(done.opened, query)
    assert not more and "main" in [view.id for view in branches]
    for view in branches:
        page = diff.diff_branch(done.opened, view.id, diff.DiffQuery())
        assert page.lines == (), view.id


def _log(done: Replayed, ref: str, first_parent: bool = False) -> Iterator[str]:
    after = ""
    while True:
        request = log.LogRequest(after, PAGE, first_parent=first_parent)
        entries, more = log.log(done.opened, ref, request)
        for entry in entries:
            yield entry.id
            after = entry.id
        if not more:
            return


def _expected_log(done: Replayed, start: str) -> Iterator[str]:
    ready, seen = [(-done.created_ns[start], start)], {start}
    while ready:
        commit_id = heapq.heappop(ready)[1]
        yield commit_id
        for parent in done.parents[commit_id]:
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(ready, (-done.created_ns[parent], parent))
