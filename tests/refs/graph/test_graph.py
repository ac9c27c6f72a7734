"""Positions and ancestors of commits."""

import random

import pytest

from graveler.core.errors import NotFound
from graveler.core.records import Commit
from graveler.refs import graph
from tests.refs.graphs import Table, ancestors, id_of, random_parents, table

LINE = 100_000


@pytest.fixture(scope="module")
def line() -> Table:
    made = Table()
    made.add_line(LINE)
    return made


def first_parent_line(parents: list[tuple[int, ...]], number: int) -> list[int]:
    """The commit and its first parents, newest first."""
    found = [number]
    while parents[found[-1]]:
        found.append(parents[found[-1]][0])
    return found


def test_positions_are_those_of_the_definition_on_random_graphs() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = table(parents)
        for number, mine in enumerate(parents):
            commit = made.commit(number)
            behind = first_parent_line(parents, number)
            run = next(at for at, each in enumerate(behind) if len(parents[each]) != 1)
            said = f"{seed=} {number=}"
            assert commit.depth == len(behind) - 1, said
            assert commit.linear == run, said
            above = [made.commit(parent).generation for parent in mine]
            assert commit.generation == 1 + max(above, default=0), said
            if commit.depth:
                assert 0 <= commit.jump_depth < commit.depth, said
                assert made.numbers[commit.jump] == behind[commit.depth - commit.jump_depth], said


def test_positioned_ignores_what_the_caller_claims() -> None:
    made = table([(), (0,)])
    honest = made.commit(1)
    liar = Commit(
        "c",
        "m",
        0,
        parents=(id_of(0),),
        generation=9,
        depth=9,
        jump=id_of(7),
        jump_depth=3,
        linear=9,
    )
    assert graph.positioned(made.lookup, liar) == honest
    rootless = Commit("c", "m", 0, generation=5, depth=5, jump=id_of(1), jump_depth=2, linear=4)
    assert graph.positioned(made.lookup, rootless) == made.commit(0)


def test_positioned_reads_each_parent_and_one_more(line: Table) -> None:
    drawn = Commit("c", "m", 0, parents=(id_of(LINE - 1), id_of(5)))
    line.calls = 0
    graph.positioned(line.lookup, drawn)
    assert line.calls <= 3


def test_positioned_needs_its_parents() -> None:
    with pytest.raises(NotFound):
        graph.positioned(Table().lookup, Commit("c", "m", 0, parents=(id_of(0),)))


def test_ancestor_follows_first_parents_on_random_graphs() -> None:
    for seed in range(150):
        parents = random_parents(random.Random(seed))
        made = table(parents)
        for number in range(len(parents)):
            behind = first_parent_line(parents, number)
            for steps, expected in enumerate(behind):
                found = graph.ancestor(made.lookup, id_of(number), steps)
                assert made.numbers[found] == expected, f"{seed=} {number=} {steps=}"
            with pytest.raises(NotFound):
                graph.ancestor(made.lookup, id_of(number), len(behind))


def test_ancestor_costs_the_logarithm_of_the_line(line: Table) -> None:
    chance = random.Random(20)
    worst = 0
    for steps in [1, 2, LINE - 1, LINE // 2, *(chance.randrange(LINE) for _ in range(500))]:
        start = chance.randrange(steps, LINE)
        line.calls = 0
        assert line.numbers[graph.ancestor(line.lookup, id_of(start), steps)] == start - steps
        worst = max(worst, line.calls)
    print(f"ancestor on a line of {LINE}: at most {worst} commit records read")
    assert worst <= 40


def test_ancestor_zero_is_the_commit_itself_and_reads_nothing(line: Table) -> None:
    line.calls = 0
    assert graph.ancestor(line.lookup, id_of(7), 0) == id_of(7)
    assert line.calls == 0


def test_nth_parent() -> None:
    made = table([(), (), (), (0, 1, 2)])
    assert graph.nth_parent(made.lookup, id_of(3), 0) == id_of(3)
    assert graph.nth_parent(made.lookup, id_of(3), 1) == id_of(0)
    assert graph.nth_parent(made.lookup, id_of(3), 3) == id_of(2)
    for id, number in ((id_of(3), 4), (id_of(0), 1)):
        with pytest.raises(NotFound):
            graph.nth_parent(made.lookup, id, number)


def test_brute_force_knows_ancestors() -> None:
    assert ancestors([(), (0,), (0,), (1, 2)]) == [0b1, 0b11, 0b101, 0b1111]
