"""Summaries count what listings list, in pages of any size, and read no more than they must."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid, NotFound, Unavailable
from graveler.core.records import Entry
from graveler.engine.commits import diff
from graveler.engine.commits.diff import DiffLine, SummaryLine, SummaryPage, SummaryQuery
from graveler.engine.objects import read
from tests.engine.lake import Lake, new_lake
from tests.engine.test_requests import Counted
from tests.engine.test_walks_end import SlowRanges
from tests.support.clockwork import TickingClock

Ask = Callable[[SummaryQuery], SummaryPage]
PREFIXES = ("", "a", "a/", "a/b/", "zz", "c/0")


def _changed(rng: random.Random, lake: Lake, branch: str) -> None:
    paths = [
        f"{folder}{number}" for folder in ("", "a/", "a/b/", "c/", "d/") for number in range(9)
    ]
    for path in rng.sample(paths, 12):
        lake.put(path, "x" * rng.randrange(1, 99), branch)
    for path in rng.sample(sorted(lake.tree(branch)), 5):
        lake.delete(path, branch)
    folder = rng.choice(("new/", "a/new/", "d/"))
    for number in range(20):
        lake.put(f"{folder}{number:03}", "y" * number + branch, branch)
    if rng.random() < 0.5:
        for path in lake.tree(branch):
            if path.startswith("c/"):
                lake.delete(path, branch)
    lake.commit(branch=branch)


@pytest.fixture(params=range(6))
def grown(request: pytest.FixtureRequest) -> Lake:
    """`main` and `dev` with a common commit and changes of their own; `main` has uncommitted
    rows."""
    rng = random.Random(request.param)
    lake = new_lake()
    for number in range(40):
        lake.put(f"c/{number:03}", "0")
        lake.put(f"a/b/{number:03}", "00")
    lake.commit()
    lake.branch("dev")
    for branch in ("main", "dev", "dev"):
        _changed(rng, lake, branch)
    for number in range(9):
        lake.put(f"a/{number}", "uncommitted")
        lake.put(f"c/{number:03}", "0" if number % 2 else "1")
    for path in rng.sample(sorted(lake.tree("main@")), 5):
        lake.delete(path)
    return lake


def _summed(ask: Ask, query: SummaryQuery) -> dict[str, SummaryLine]:
    """All pages, added up."""
    lines: dict[str, SummaryLine] = {}
    commits = set()
    while True:
        page = ask(query)
        assert len(page.lines) <= query.amount
        assert [line.path for line in page.lines] == sorted(line.path for line in page.lines)
        commits.add((page.left, page.right))
        for line in page.lines:
            before = lines.get(line.path, SummaryLine(line.path, 0, 0, 0, 0, 0, 0))
            sums = map(sum, zip(before[1:], line[1:], strict=True))
            lines[line.path] = SummaryLine(line.path, *sums)
        if not page.following:
            assert len(commits) == 1
            return lines
        query = query._replace(after=page.following)


def _listed(lines: list[DiffLine], prefix: str, *, sizes: bool) -> dict[str, SummaryLine]:
    """The same, from a listing without a delimiter."""
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        if not line.path.startswith(prefix):
            continue
        stem, slash, _ = line.path[len(prefix) :].partition("/")
        here = counts.setdefault(prefix + stem + slash if slash else prefix, Counter())
        here[line.kind] += 1
        if sizes and line.kind != "conflict":
            here["+"] += line.right.size if isinstance(line.right, Entry) else 0
            here["-"] += line.left.size if isinstance(line.left, Entry) else 0
    kinds = ("added", "changed", "removed", "conflict", "+", "-")
    return {
        path: SummaryLine(path, *(here[kind] for kind in kinds)) for path, here in counts.items()
    }


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("amount", [1, 2, 1_000])
def test_objects(grown: Lake, amount: int, sizes: bool) -> None:
    page = read.list_objects(grown.opened, "main@", read.ListQuery(amount=1_000))
    lines = [
        DiffLine("added", path, right=entry)
        for path, entry in page.lines
        if isinstance(entry, Entry)
    ]
    for prefix in PREFIXES:
        query = SummaryQuery(prefix, amount=amount, sizes=sizes)
        sums = _summed(lambda query: diff.sum_objects(grown.opened, "main", query), query)
        assert sums == _listed(lines, prefix, sizes=sizes), prefix


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("amount", [1, 1_000])
@pytest.mark.parametrize("three_dot", [True, False])
def test_differences(grown: Lake, amount: int, sizes: bool, three_dot: bool) -> None:
    whole = diff.DiffQuery(amount=1_000)
    page = diff.diff_refs(grown.opened, "main", "dev", whole, three_dot=three_dot)

    def ask(query: SummaryQuery) -> SummaryPage:
        return diff.sum_differences(grown.opened, "main", "dev", query, three_dot=three_dot)

    for prefix in PREFIXES:
        query = SummaryQuery(prefix, amount=amount, sizes=sizes)
        assert _summed(ask, query) == _listed(list(page.lines), prefix, sizes=sizes), prefix


@pytest.mark.parametrize("amount", [1, 1_000])
def test_uncommitted_changes(grown: Lake, amount: int) -> None:
    page = diff.diff_branch(grown.opened, "main", diff.DiffQuery(amount=1_000))
    for prefix in PREFIXES:
        query = SummaryQuery(prefix, amount=amount)
        sums = _summed(lambda query: diff.sum_uncommitted(grown.opened, "main", query), query)
        assert sums == _listed(list(page.lines), prefix, sizes=True), prefix
    clean = diff.sum_uncommitted(grown.opened, "dev", SummaryQuery())
    assert (clean.lines, clean.following, clean.left) == ((), "", grown.head("dev"))


def test_other_delimiters(lake: Lake) -> None:
    lake.commit_of(**{"a-1": "1", "a-2": "1", "b": "1"})
    query = SummaryQuery(delimiter="-")
    lines = diff.sum_objects(lake.opened, "main", query).lines
    assert [(line.path, line.added) for line in lines] == [("", 1), ("a-", 2)]
    flat = diff.sum_objects(lake.opened, "main", SummaryQuery(delimiter="")).lines
    assert [(line.path, line.added) for line in flat] == [("", 3)]


def test_nothing(lake: Lake) -> None:
    page = diff.sum_objects(lake.opened, "main", SummaryQuery())
    assert page.lines == () and not page.following
    same = diff.sum_differences(lake.opened, "main", "main", SummaryQuery(), three_dot=True)
    assert same.lines == () and not same.following


def test_refusals(lake: Lake) -> None:
    with pytest.raises(NotFound):
        diff.sum_objects(lake.opened, "none", SummaryQuery())
    with pytest.raises(NotFound):
        diff.sum_uncommitted(lake.opened, "none", SummaryQuery())
    for wrong in (SummaryQuery("x" * 2_000), SummaryQuery(after="x" * 2_000)):
        with pytest.raises(Invalid):
            diff.sum_objects(lake.opened, "main", wrong)


# ---- cost ----------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> tuple[Lake, SlowRanges, TickingClock]:
    """Three folders of many ranges, on both sides of a difference; opening takes no time yet."""
    lake, clock = new_lake(), TickingClock()
    lake.branch("dev")
    for folder in ("a", "b", "c"):
        for number in range(60):
            lake.put(f"{folder}/{number:03}", "1")
    lake.commit()
    ranges = SlowRanges(lake.ports.ranges, clock, 0)
    ports = replace(lake.ports, ranges=ranges, clock=clock)  # type: ignore[arg-type]
    return Lake(ports, lake.repo), ranges, clock


def test_ranges_within_one_child_are_counted_unread(
    slow: tuple[Lake, SlowRanges, TickingClock],
) -> None:
    lake, ranges, _ = slow
    counts = [("a/", 60), ("b/", 60), ("c/", 60)]
    for sizes, opened_max in ((False, 4), (True, 10_000)):
        query = SummaryQuery(sizes=sizes)
        for page, kind in (
            (diff.sum_objects(lake.opened, "main", query), "added"),
            (diff.sum_differences(lake.opened, "dev", "main", query, three_dot=False), "added"),
            (diff.sum_differences(lake.opened, "main", "dev", query, three_dot=False), "removed"),
        ):
            assert [(line.path, getattr(line, kind)) for line in page.lines] == counts
            assert sum(line.bytes_added + line.bytes_removed for line in page.lines) == 180 * sizes
        assert ranges.opened <= 3 * opened_max, sizes
        if sizes:
            assert ranges.opened > 100


def test_a_page_ends_when_its_time_is_used_and_the_next_goes_on(
    slow: tuple[Lake, SlowRanges, TickingClock],
) -> None:
    lake, ranges, _ = slow
    ranges.seconds = limits.page_seconds_max
    pages, after = list[SummaryPage](), ""
    while not pages or after:
        pages.append(diff.sum_objects(lake.opened, "main", SummaryQuery(after=after)))
        after = pages[-1].following
    assert len(pages) > 5
    sums = Counter[str]()
    for page in pages:
        for line in page.lines:
            sums[line.path] += line.added
    assert sums == {"a/": 60, "b/": 60, "c/": 60}


def test_a_range_that_takes_all_the_time_is_given_up(
    slow: tuple[Lake, SlowRanges, TickingClock],
) -> None:
    lake, ranges, _ = slow
    ranges.seconds = 3 * (limits.operation_seconds_max + 1)
    lake.put("b/000", "2")
    lake.commit()
    with pytest.raises(Unavailable, match="too long"):
        diff.sum_differences(lake.opened, "main~1", "main", SummaryQuery("b/"), three_dot=False)


def test_requests() -> None:
    counted = Counted()
    lake = counted.lake
    one, other = lake.head(), lake.commit_of(c="3")

    def ask(ref: str) -> SummaryPage:
        return diff.sum_objects(lake.opened, ref, SummaryQuery())

    assert counted.of(lambda: ask("main")) == {"get": 1}
    assert counted.of(lambda: ask(other)) == {}
    query = SummaryQuery()
    assert not counted.of(
        lambda: diff.sum_differences(lake.opened, one, other, query, three_dot=True)
    )
    lake.put("p", "1")
    spent = counted.of(lambda: diff.sum_uncommitted(lake.opened, "main", query))
    assert sum(spent.values()) == 2
