"""The log of one author: only his commits, page by page, and never without end."""

from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid, NotFound
from graveler.engine.commits import commit, log
from graveler.engine.commits.log import LogRequest
from tests.engine.lake import Lake
from tests.support.clockwork import TickingClock

AUTHORS = ("Ann <ann@a.org>", "bob", "ANNETTE", "carl")


@pytest.fixture
def shared(lake: Lake) -> Lake:
    """Twelve commits of four authors in turn."""
    for number in range(12):
        request = commit.CommitRequest(f"{number}", AUTHORS[number % 4], allow_empty=True)
        commit.commit(lake.opened, "main", request)
    return lake


def _all(lake: Lake, author: str, **more: object) -> list[str]:
    messages, after = list[str](), ""
    while True:
        request = LogRequest(after=after, **more)  # type: ignore[arg-type]
        page = log.log_by(lake.opened, "main", request, author)
        assert len(page.entries) <= request.amount
        messages += [entry.commit.message for entry in page.entries]
        after = page.following
        if not after:
            return messages


@pytest.mark.parametrize("amount", [1, 2, 5, 100])
def test_only_the_commits_of_an_author(shared: Lake, amount: int) -> None:
    assert _all(shared, "ann", amount=amount) == ["10", "8", "6", "4", "2", "0"]
    assert _all(shared, "aNN <", amount=amount) == ["8", "4", "0"]
    assert _all(shared, "nobody", amount=amount) == []
    assert _all(shared, "carl", amount=amount) == ["11", "7", "3"]


def test_other_choices_hold_too(shared: Lake) -> None:
    assert _all(shared, "ann", stop_at="main~6") == ["10", "8", "6"]
    request = LogRequest(amount=2, limit=True)
    page = log.log_by(shared.opened, "main", request, "ann")
    assert (len(page.entries), page.following) == (2, "")
    with pytest.raises(Invalid):
        log.log_by(shared.opened, "main", LogRequest(objects=("x",) * 101), "ann")
    with pytest.raises(NotFound):
        log.log_by(shared.opened, "none", LogRequest(), "ann")


def test_a_page_ends_when_its_time_is_used_and_the_next_goes_on(shared: Lake) -> None:
    """Each commit that is read takes a third of the time of a page."""
    clock = TickingClock()
    mine, script = Lake(replace(shared.ports, clock=clock), shared.repo).interposed()

    def later() -> None:
        clock.sleep(limits.page_seconds_max / 3)
        script.after("get", later)

    script.after("get", later)
    found, after, pages = list[str](), "", 0
    while not pages or after:
        page = log.log_by(mine.opened, "main", LogRequest(after=after), "bob")
        found += [entry.commit.message for entry in page.entries]
        after, pages = page.following, pages + 1
        mine = mine.another_process()
    assert found == ["9", "5", "1"] and pages > 2
