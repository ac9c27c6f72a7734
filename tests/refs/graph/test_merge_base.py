"""Merge bases against brute force, on lines, and on a real history."""

import json
import lzma
import random
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import Unsupported
from graveler.core.records import ABSENT
from graveler.refs import graph
from tests.refs.graphs import Table, ancestors, best_common, id_of, random_parents, table

HISTORY = Path(__file__).parents[2] / "data" / "git-history.jsonl.xz"
# In these merges the first commit reached from both sides is an ancestor of a better base.
MISLEADING = (2394, 3167, 3613, 3694, 4037, 5296)
GRAPHS = 5_000
LINE = 100_000


def base_of(made: Table, left: int, right: int) -> int | None:
    found = graph.merge_base(made.lookup, id_of(left), id_of(right))
    return None if found is ABSENT else made.numbers[found]


def chosen(made: Table, best: set[int]) -> int | None:
    """The rule for several: greatest generation, then smallest id."""
    return min(best, key=lambda n: (-made.commit(n).generation, id_of(n)), default=None)


def late(chance: random.Random, count: int) -> int:
    """A number below `count`, the greater ones likelier: what has many ancestors."""
    return max(chance.randrange(count), chance.randrange(count))


@pytest.mark.slow
def test_merge_base_is_that_of_brute_force_on_random_graphs() -> None:
    several = unrelated = 0
    for seed in range(GRAPHS):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = table(parents)
        sets = ancestors(parents)
        for _ in range(4):
            left, right = late(chance, len(parents)), late(chance, len(parents))
            best = best_common(sets, left, right)
            several += len(best) > 1
            unrelated += not best
            said = f"{seed=} {left=} {right=} {parents=}"
            assert base_of(made, left, right) == chosen(made, best), said
            assert base_of(made, right, left) == chosen(made, best), said
    print(f"seeds 0 to {GRAPHS - 1}: {several} pairs with several bases, {unrelated} unrelated")
    assert several > 400 and unrelated > 400, "the graphs must be hard enough to prove anything"


def test_merge_base_is_that_of_brute_force_on_graphs_with_long_lines() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        made = Table()
        tips = [made.add_line(chance.randint(1, 60))]
        for _ in range(chance.randint(2, 9)):
            if chance.random() < 0.3:
                one, two = chance.choice(tips), chance.choice(tips)
                tips.append(made.add(one) if one == two else made.add(one, two))
            start = chance.choice([chance.randrange(len(made.parents)), chance.choice(tips)])
            tips.append(made.add_line(chance.randint(1, 60), start))
        sets = ancestors(made.parents)
        for _ in range(20):
            left = chance.choice([*tips, chance.randrange(len(made.parents))])
            right = chance.choice([*tips, chance.randrange(len(made.parents))])
            best = best_common(sets, left, right)
            assert base_of(made, left, right) == chosen(made, best), f"{seed=} {left=} {right=}"


@pytest.mark.parametrize(
    ("parents", "left", "right", "best"),
    [
        ([()], 0, 0, {0}),
        ([(), (0,)], 1, 0, {0}),
        ([(), (0,), (0,)], 1, 2, {0}),
        ([(), ()], 0, 1, set()),
        # criss-cross: 3 and 4 each merge 1 and 2
        ([(), (0,), (0,), (1, 2), (2, 1)], 3, 4, {1, 2}),
        # a criss-cross whose one base is deeper: greater generation wins
        ([(), (0,), (0,), (2,), (1, 3), (3, 1)], 4, 5, {1, 3}),
        # 1 is reached from both sides in fewer steps than 3, which is better
        ([(), (0,), (1,), (2,), (3, 1), (1, 3)], 4, 5, {3}),
        # octopus
        ([(), (0,), (0,), (0,), (1, 2, 3), (3,)], 4, 5, {3}),
    ],
)
def test_merge_bases_of_small_graphs(
    parents: list[tuple[int, ...]], left: int, right: int, best: set[int]
) -> None:
    made = table(parents)
    assert best_common(ancestors(parents), left, right) == best
    assert base_of(made, left, right) == chosen(made, best)
    assert base_of(made, right, left) == chosen(made, best)


@pytest.fixture(scope="module")
def forked() -> Table:
    """A line of 100,000 and, from 30,000 on, another of 50,000."""
    made = Table()
    made.add_line(LINE)
    made.add_line(LINE // 2, 30_000)
    return made


@pytest.mark.parametrize(
    ("left", "right", "base"),
    [
        (LINE - 1, 0, 0),
        (LINE - 1, 1, 1),
        (LINE - 1, LINE - 2, LINE - 2),
        (LINE - 1, 54_321, 54_321),
        (LINE - 1, LINE + LINE // 2 - 1, 30_000),
        (30_001, LINE, 30_000),
        (30_001, LINE + LINE // 2 - 1, 30_000),
        (LINE - 1, LINE, 30_000),
        (79_999, LINE + 49_998, 30_000),
    ],
)
def test_merge_base_of_merge_free_lines_costs_the_logarithm(
    forked: Table, left: int, right: int, base: int
) -> None:
    forked.calls = 0
    assert base_of(forked, left, right) == base
    print(f"merge base of {left} and {right}: {forked.calls} commit records read")
    assert forked.calls <= 130


def test_merge_base_of_random_pairs_of_two_lines_costs_the_logarithm(forked: Table) -> None:
    chance = random.Random(7)
    worst = 0
    for _ in range(300):
        left, right = chance.randrange(LINE), chance.randrange(LINE, LINE + LINE // 2)
        forked.calls = 0
        assert base_of(forked, left, right) == min(left, 30_000)
        worst = max(worst, forked.calls)
    print(f"merge base of random pairs of two lines: at most {worst} commit records read")
    assert worst <= 130


def test_unrelated_lines_are_given_up_soon() -> None:
    made = Table()
    one = made.add_line(5_000)
    two = made.add_line(5_000)
    made.calls = 0
    assert base_of(made, one, two) is None
    assert made.calls <= 130


def test_equal_generations_at_different_depths_do_not_confuse_the_jumps() -> None:
    made = Table()
    root = made.add_line(10)
    long = made.add_line(40, root)
    # First parent is the root's line, so this line has the generation of `long` and a small depth.
    merged = made.add(root, long)
    left, right = made.add_line(300, merged), made.add_line(300, long)
    sets = ancestors(made.parents)
    for pair in ((left, right), (left - 5, right), (left, right - 7), (left - 1, right - 2)):
        assert base_of(made, *pair) == chosen(made, best_common(sets, *pair)) == long


def test_the_search_is_bounded() -> None:
    made = table([(), *[(n,) for n in range(3)], *[(n, 0) for n in range(3, 40)]])
    other = made.add(0)
    with pytest.raises(Unsupported):
        graph.merge_base(made.lookup, id_of(len(made.parents) - 2), id_of(other), 10)


@pytest.fixture(scope="module")
def history() -> list[dict[str, Any]]:
    with lzma.open(HISTORY, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_all_merges_of_a_real_history_have_their_recorded_bases(
    history: list[dict[str, Any]],
) -> None:
    made = table([commit["parents"] for commit in history])
    merges = [commit for commit in history if "bases" in commit]
    assert len(merges) == 926
    assert {commit["n"] for commit in merges} >= set(MISLEADING)
    made.calls = 0
    for commit in merges:
        left, right = commit["parents"]
        best = set(commit["bases"])
        assert base_of(made, left, right) == chosen(made, best), f"n={commit['n']}"
    print(f"926 merge bases: {made.calls} commit records read")
