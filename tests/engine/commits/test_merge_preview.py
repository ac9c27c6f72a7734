"""What a merge would do: the same as the merge then does, counted and paged, without a write."""

import itertools
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Gone, Invalid, NotFound
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Entry
from graveler.engine import names
from graveler.engine.commits import diff, merge
from graveler.engine.commits.merge import PreviewPage, PreviewQuery
from tests.engine.commits.test_merge import ROWS, _three
from tests.engine.lake import Lake, new_lake
from tests.engine.storage import Storage
from tests.engine.test_requests import Counted
from tests.engine.test_walks_end import SlowRanges
from tests.support.clockwork import TickingClock


def _checksum(version: object) -> str:
    return version.checksum if isinstance(version, Entry) else ""


def _pages(lake: Lake, **more: object) -> list[PreviewPage]:
    pages, after = list[PreviewPage](), ""
    while not pages or after:
        query = PreviewQuery(after=after, **more)  # type: ignore[arg-type]
        pages.append(merge.preview_counts(lake.opened, "dev", "main", query))
        after = pages[-1].following
    return pages


@pytest.fixture
def rows() -> tuple[Lake, dict[str, tuple[str, str, str, str]]]:
    """Every row of the rule six times."""
    lake = new_lake()
    rows = {
        f"{number:03}": row
        for number, row in enumerate(itertools.chain.from_iterable(itertools.repeat(ROWS, 6)))
    }
    _three(lake, {path: row[:3] for path, row in rows.items()})
    return lake, rows


@pytest.mark.parametrize("amount", [1, 4, 1_000])
def test_conflicts_come_with_their_three_versions(
    rows: tuple[Lake, dict[str, tuple[str, str, str, str]]], amount: int
) -> None:
    lake, wanted = rows
    pages = _pages(lake, amount=amount)
    found = [
        (path, *map(_checksum, versions)) for page in pages for path, *versions in page.conflicts
    ]
    assert found == [(path, *row[:3]) for path, row in wanted.items() if row[3] == "!"]
    assert all(len(page.conflicts) <= amount for page in pages)
    assert {page[:3] for page in pages} == {
        (merge_base(lake), CommitId(lake.head("dev")), CommitId(lake.head()))
    }


def merge_base(lake: Lake) -> CommitId:
    """The commit below both branches."""
    return CommitId(merge.head_of(lake.opened, "main~1").id)


@pytest.mark.parametrize("amount", [1, 7, 1_000])
@pytest.mark.parametrize("prefix", ["", "0", "01"])
def test_counts_add_up_to_what_the_merge_then_does(
    rows: tuple[Lake, dict[str, tuple[str, str, str, str]]], amount: int, prefix: str
) -> None:
    lake, _ = rows
    head = lake.head()
    pages = _pages(lake, amount=amount, prefix=prefix)
    summed = {kind: sum(page.counts[kind] for page in pages) for kind in pages[0].counts}
    assert lake.head() == head
    conflicts = {path for path in lake.conflicts("dev") if path.startswith(prefix)}
    assert summed.pop("conflict") == len(conflicts) > 0
    made = lake.merge("dev", strategy="dest-wins")
    query = diff.DiffQuery(prefix=prefix, amount=1_000)
    lines = diff.diff_refs(lake.opened, head, made, query, three_dot=False).lines
    kinds = [line.kind for line in lines]
    assert summed == {kind: kinds.count(kind) for kind in summed}  # type: ignore[arg-type]


def test_nothing_to_do(forked: Lake) -> None:
    page = merge.preview_counts(forked.opened, "main", "dev", PreviewQuery())
    assert not any(page.counts.values()) and not page.following
    assert page.base == forked.head()


def test_a_page_ends_when_its_time_is_used_and_the_next_goes_on() -> None:
    lake = new_lake()
    lake.commit_of(**{f"p/{number:03}": "0" for number in range(40)})
    lake.branch("dev")
    lake.commit_of("dev", **{f"p/{number:03}": "1" for number in range(40)})
    lake.commit_of(**{f"p/{number:03}": "2" for number in range(0, 40, 9)})
    clock = TickingClock()
    slow = SlowRanges(lake.ports.ranges, clock, limits.page_seconds_max)
    mine = Lake(replace(lake.ports, ranges=slow, clock=clock), lake.repo)  # type: ignore[arg-type]
    pages = _pages(mine)
    assert len(pages) > 2
    summed = {kind: sum(page.counts[kind] for page in pages) for kind in pages[0].counts}
    assert summed == {"added": 0, "removed": 0, "changed": 35, "conflict": 5}
    assert [each.path for page in pages for each in page.conflicts] == lake.conflicts("dev")


def test_refusals(forked: Lake) -> None:
    for source, dest in (("none", "main"), ("dev", "none")):
        with pytest.raises(NotFound):
            merge.preview_counts(forked.opened, source, dest, PreviewQuery())
    for wrong in (PreviewQuery("x" * 2_000), PreviewQuery(after="\0")):
        with pytest.raises(Invalid):
            merge.preview_counts(forked.opened, "dev", "main", wrong)


def test_an_expired_source_is_refused_as_the_merge_refuses_it(
    aged: tuple[Storage, CommitId],
) -> None:
    storage, old = aged
    storage.collect()
    names.create_branch(storage.opened, "other", "main")
    with pytest.raises(Gone):
        merge.merge(storage.opened, old, "other", merge.MergeRequest("me"))
    with pytest.raises(Gone):
        merge.preview_counts(storage.opened, old, "other", PreviewQuery())


def test_requests() -> None:
    counted = Counted()
    lake = counted.lake
    lake.commit_of(a="1", b="1")
    lake.branch("dev")
    lake.commit_of("dev", a="2")
    lake.commit_of(a="3")
    source, dest = lake.head("dev"), lake.head()

    def look() -> PreviewPage:
        return merge.preview_counts(lake.opened, source, dest, PreviewQuery())

    assert look().conflicts[0].base is not ABSENT
    assert counted.of(look) == {} and counted.blocks_of(look) == {}
