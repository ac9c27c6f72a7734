"""The order of the log, its ends, its pages, and that it is lazy."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT
from graveler.refs.log import Log, LogQuery, log_page, parse_token
from tests.refs.graphs import Table, ancestors, id_of, random_parents

ALL = LogQuery()


def dated(parents: list[tuple[int, ...]], times: list[int]) -> Table:
    made = Table()
    for mine, time in zip(parents, times, strict=True):
        made.add(*mine, created_ns=time)
    return made


def shown(made: Table, start: int, query: LogQuery = ALL) -> list[int]:
    return [made.numbers[entry.id] for entry in Log(made.lookup, id_of(start), query)]


def expected(made: Table, start: int) -> list[int]:
    """All that is reachable, by time; a commit with a wrong time counts as old as its youngest
    parent."""
    reachable = ancestors(made.parents)[start]
    times: list[int] = []
    for number, mine in enumerate(made.parents):
        above = [times[parent] for parent in mine]
        times.append(max([made.commit(number).created_ns, *above]))
    numbers = [number for number in range(start + 1) if reachable >> number & 1]
    return sorted(
        numbers,
        key=lambda number: (-times[number], -made.commit(number).generation, id_of(number)),
    )


@pytest.mark.parametrize("spread", [1, 5, 1_000])
def test_log_is_newest_first_and_children_come_before_parents(spread: int) -> None:
    """Creation times are at random: a parent is often younger than its child."""
    for seed in range(200):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = dated(parents, [chance.randrange(spread) for _ in parents])
        for start in range(len(parents)):
            order = shown(made, start)
            assert order == expected(made, start), f"{seed=} {spread=} {start=}"
            places = {number: at for at, number in enumerate(order)}
            assert all(places[number] < places[p] for number in order for p in parents[number])


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
        entries = list(islice(Log(made.lookup, id_of(tip), query), 5))
        assert made.numbers[entries[0].id] == tip - depth - 1
        assert made.calls <= 2 * 26 + 10  # two ways along jumps, and the page


def test_of_a_merge_only_what_stands_beside_it_is_walked() -> None:
    made = Table()
    old = made.add_line(1_000)
    merged = made.add(made.add_line(3, old), made.add_line(4, old))
    tip = made.add_line(1_000, merged)
    made.calls = 0
    entries = list(islice(Log(made.lookup, id_of(tip), LogQuery(after=id_of(old - 500))), 5))
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
        walk = Log(made.lookup, id_of(2), query)
        entries, following = log_page(walk, walk.behind, query)
        return [made.numbers[entry.id] for entry in entries], bool(following)

    assert page(LogQuery(amount=2)) == ([2, 1], True)
    assert page(LogQuery(amount=3)) == ([2, 1, 0], False)
    assert page(LogQuery(amount=2, limit=True)) == ([2, 1], False)
    assert page(LogQuery(amount=2, after=id_of(1))) == ([0], False)


def paged(made: Table, start: int, amount: int) -> Iterator[list[int]]:
    query = LogQuery(amount=amount)
    while True:
        walk = Log(made.lookup, id_of(start), query)
        entries, following = log_page(walk, walk.behind, query)
        yield [made.numbers[entry.id] for entry in entries]
        if not following:
            return
        front = parse_token(following)
        query = replace(query, after=CommitId(following) if front is ABSENT else front)


def test_pages_that_follow_one_another_are_the_log() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = dated(parents, [chance.randrange(30) for _ in parents])
        start = len(parents) - 1
        pages = list(paged(made, start, chance.randrange(1, 6)))
        assert [number for page in pages for number in page] == shown(made, start), f"{seed=}"


def test_records_without_an_order_come_once() -> None:
    """As a store of an earlier version has them: a parent may come first."""
    for seed in range(60):
        chance = random.Random(seed)
        parents = random_parents(chance)
        made = dated(parents, [chance.randrange(9) for _ in parents])
        for id, commit in made.commits.items():
            made.commits[id] = commit._replace(order_ns=commit.created_ns)
        start = len(parents) - 1
        assert sorted(shown(made, start)) == sorted(expected(made, start)), f"{seed=}"


def test_the_next_page_costs_what_it_shows_beside_any_number_of_merges() -> None:
    made = Table()
    tip = made.add()
    for _ in range(500):  # a branch for each change
        tip = made.add(tip, made.add(tip))
    made.calls = 0
    for number, page in enumerate(paged(made, tip, 20)):
        assert made.calls <= 2 * len(page) + 4, number
        made.calls = 0


@pytest.mark.parametrize("text", ["", "AA", "ä", 44 * "A", 4_000 * "A"])
def test_a_token_that_no_page_made_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="next_offset"):
        parse_token("log:" + text)


@pytest.mark.parametrize("first_parent", [True, False])
def test_log_reads_what_it_shows_and_little_more(first_parent: bool) -> None:
    made = Table()
    tip = made.add_line(1_000)
    made.calls = 0
    query = LogQuery(first_parent=first_parent)
    assert len(list(islice(Log(made.lookup, id_of(tip), query), 20))) == 20
    assert made.calls <= 22


def test_log_nothing_is_read_before_it_is_asked_for() -> None:
    made = dated([()], [1])
    made.calls = 0
    Log(made.lookup, CommitId("unknown"), ALL)
    assert made.calls == 0


def test_a_log_of_first_parents_refuses_the_token_of_another_log() -> None:
    made = Table()
    made.add()
    token = parse_token("log:" + "A" * 43)
    assert token is not ABSENT
    with pytest.raises(Invalid, match="first_parent"):
        Log(made.lookup, id_of(0), LogQuery(after=token, first_parent=True))
