"""The order of the log, its ends, its pages, and that it is lazy."""

import heapq
import random
from dataclasses import replace
from itertools import islice

import pytest

from graveler.core import limits
from graveler.core.ids import CommitId
from graveler.refs.log import LogQuery, log, log_page
from tests.refs.graphs import Table, ancestors, id_of, random_parents

ALL = LogQuery()


def dated(parents: list[tuple[int, ...]], times: list[int]) -> Table:
    made = Table()
    for mine, time in zip(parents, times, strict=True):
        made.add(*mine, created_ns=time)
    return made


def shown(
    made: Table, start: int, query: LogQuery = ALL, walk_count_max: int = limits.walk_count_max
) -> list[int]:
    walk = log(made.lookup, id_of(start), query, walk_count_max)
    return [made.numbers[entry.id] for entry in walk]


def expected(made: Table, start: int) -> list[int]:
    """With everything known: of the commits without an unshown child always the newest."""
    reachable = ancestors(made.parents)[start]
    numbers = [number for number in range(start + 1) if reachable >> number & 1]
    children = dict.fromkeys(numbers, 0)
    for number in numbers:
        for parent in set(made.parents[number]):
            children[parent] += 1
    ready = [(-made.commit(start).created_ns, id_of(start))]
    order = []
    while ready:
        number = made.numbers[heapq.heappop(ready)[1]]
        order.append(number)
        for parent in set(made.parents[number]):
            children[parent] -= 1
            if not children[parent]:
                heapq.heappush(ready, (-made.commit(parent).created_ns, id_of(parent)))
    return order


@pytest.mark.parametrize("spread", [1, 5, 1_000])
def test_log_is_newest_first_and_children_come_before_parents(spread: int) -> None:
    """Creation times are at random: a parent is often younger than its child."""
    for seed in range(200):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = dated(parents, [chance.randrange(spread) for _ in parents])
        for start in range(len(parents)):
            assert shown(made, start) == expected(made, start), f"{seed=} {spread=} {start=}"


def test_log_orders_by_time_then_id_where_times_are_honest() -> None:
    made = dated([(), (0,), (0,), (1, 2)], [1, 5, 5, 9])
    tied = sorted((1, 2), key=id_of)
    assert shown(made, 3) == [3, *tied, 0]


def test_log_shows_a_commit_named_twice_as_parent_once() -> None:
    made = dated([(), (0, 0)], [1, 2])
    assert shown(made, 1) == [1, 0]


def test_log_of_first_parents_only() -> None:
    made = dated([(), (0,), (0,), (1, 2), (3,)], [1, 2, 3, 4, 5])
    assert shown(made, 4, LogQuery(first_parent=True)) == [4, 3, 1, 0]


def test_log_after_a_commit_continues_the_log() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = dated(parents, [chance.randrange(9) for _ in parents])
        start = len(parents) - 1
        whole = shown(made, start)
        for at, number in enumerate(whole):
            assert shown(made, start, LogQuery(after=id_of(number))) == whole[at + 1 :], f"{seed=}"


@pytest.mark.parametrize("first_parent", [False, True])
def test_every_page_of_a_log_with_long_runs_follows_the_one_before(first_parent: bool) -> None:
    """Lines between merges, some side by side, and every end that a log may have."""
    for seed in range(25):
        chance = random.Random(seed)
        made = Table()
        tips = [made.add(created_ns=chance.randrange(9))]
        for _ in range(7):
            tip = made.add_line(chance.randrange(1, 9), chance.choice(tips))
            others = [tip] if chance.random() < 0.4 else [tip, chance.choice(tips)]
            tips.append(made.add(*others, created_ns=chance.randrange(9)))
        start = tips[-1]
        whole = shown(made, start, LogQuery(first_parent=first_parent))
        for number in range(start + 1):
            query = LogQuery(after=id_of(number), first_parent=first_parent)
            at = whole.index(number) if number in whole else len(whole)
            assert shown(made, start, query) == whole[at + 1 :], f"{seed=} {number=}"
            stop = chance.randrange(start + 1)
            last = whole.index(stop) if stop in whole else len(whole)
            query = LogQuery(after=id_of(number), stop_at=id_of(stop), first_parent=first_parent)
            assert shown(made, start, query) == whole[at + 1 : last + 1], f"{seed=} {number=}"


@pytest.mark.parametrize("first_parent", [False, True])
def test_a_deep_page_costs_no_more_than_one_near_the_head(first_parent: bool) -> None:
    made = Table()
    tip = made.add_line(5_000)
    for depth in (10, 100, 4_000):
        query = LogQuery(after=id_of(tip - depth), first_parent=first_parent)
        made.calls = 0
        entries = list(islice(log(made.lookup, id_of(tip), query), 5))
        assert made.numbers[entries[0].id] == tip - depth - 1
        assert made.calls <= 2 * 26 + 10  # two ways along jumps, and the page


def test_of_a_merge_only_what_stands_beside_it_is_walked() -> None:
    made = Table()
    old = made.add_line(1_000)
    merged = made.add(made.add_line(3, old), made.add_line(4, old))
    tip = made.add_line(1_000, merged)
    made.calls = 0
    entries = list(islice(log(made.lookup, id_of(tip), LogQuery(after=id_of(old - 500))), 5))
    assert made.numbers[entries[0].id] == old - 501
    assert made.calls <= 4 * 22 + 20


def test_log_after_a_commit_that_is_not_in_it_is_empty() -> None:
    made = dated([(), (0,), (0,)], [1, 2, 3])
    assert shown(made, 1, LogQuery(after=id_of(2))) == []


def test_log_stops_with_the_commit_to_stop_at() -> None:
    made = dated([(), (0,), (1,), (2,)], [1, 2, 3, 4])
    assert shown(made, 3, LogQuery(stop_at=id_of(1))) == [3, 2, 1]
    assert shown(made, 3, LogQuery(after=id_of(1), stop_at=id_of(1))) == []
    assert shown(made, 3, LogQuery(after=id_of(0), stop_at=id_of(1))) == []


def test_log_since_leaves_out_older_commits() -> None:
    made = dated([(), (0,), (1,), (2,)], [1, 2, 3, 4])
    assert shown(made, 3, LogQuery(since_ns=2)) == [3, 2, 1]
    assert shown(made, 3, LogQuery(since_ns=5)) == []


@pytest.mark.parametrize("first_parent", [True, False])
def test_log_since_finds_newer_commits_behind_one_with_an_early_time(first_parent: bool) -> None:
    made = dated([(), (0,), (1,), (2,), (3,)], [1, 5, 2, 5, 3])
    query = LogQuery(since_ns=4, first_parent=first_parent)
    assert shown(made, 4, query) == [3, 1]
    assert shown(made, 4, replace(query, after=id_of(3))) == [1]
    assert shown(made, 4, replace(query, stop_at=id_of(2))) == [3]


def test_log_since_ends_after_many_older_commits_in_a_row() -> None:
    older = limits.log_older_count_max
    for row, found in ((older - 1, True), (older, False)):
        times = [9, *[1] * row, 9]
        made = dated([(), *[(number,) for number in range(row + 1)]], times)
        assert (0 in shown(made, row + 1, LogQuery(since_ns=5))) is found


def test_pages_tell_whether_more_follow() -> None:
    made = dated([(), (0,), (1,)], [1, 2, 3])

    def page(query: LogQuery) -> tuple[list[int], bool]:
        entries, more = log_page(log(made.lookup, id_of(2), query), query)
        return [made.numbers[entry.id] for entry in entries], more

    assert page(LogQuery(amount=2)) == ([2, 1], True)
    assert page(LogQuery(amount=3)) == ([2, 1, 0], False)
    assert page(LogQuery(amount=2, limit=True)) == ([2, 1], False)
    assert page(LogQuery(amount=2, after=id_of(1))) == ([0], False)


@pytest.mark.parametrize("first_parent", [True, False])
def test_log_reads_what_it_shows_and_little_more(first_parent: bool) -> None:
    made = Table()
    tip = made.add_line(1_000)
    made.calls = 0
    query = LogQuery(first_parent=first_parent)
    assert len(list(islice(log(made.lookup, id_of(tip), query), 20))) == 20
    assert made.calls <= 22


def test_log_nothing_is_read_before_it_is_asked_for() -> None:
    made = dated([()], [1])
    made.calls = 0
    log(made.lookup, CommitId("unknown"), ALL)
    assert made.calls == 0


def test_look_ahead_is_bounded_and_nothing_is_lost_or_shown_twice() -> None:
    """Past the bound times are believed: a parent may come first, but every commit comes once."""
    ahead_max = 5
    made = Table()
    old = made.add(created_ns=1)
    long = made.add_line(50, old)
    recent = made.add(old, created_ns=100)
    tip = made.add(long, recent, created_ns=101)
    made.calls = 0
    walk = log(made.lookup, id_of(tip), ALL, ahead_max)
    assert [made.numbers[entry.id] for entry in islice(walk, 2)] == [tip, recent]
    assert made.calls <= 10
    assert sorted(shown(made, tip, ALL, ahead_max)) == list(range(tip + 1))
    for seed in range(100):
        chance = random.Random(seed)
        parents = random_parents(chance)
        many = dated(parents, [chance.randrange(9) for _ in parents])
        start = len(parents) - 1
        found = shown(many, start, ALL, ahead_max)
        assert sorted(found) == sorted(expected(many, start)), f"{seed=}"
