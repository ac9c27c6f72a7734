"""Walks that a request waits for end with its time, in the middle if need be."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler import limits
from graveler.engine import compare, history, merge, resetting
from graveler.engine.history import LogRequest
from graveler.errors import Unavailable
from graveler.testing.clockwork import TickingClock
from tests.engine.lake import Lake

HALF = limits.operation_seconds_max / 2 + 1


def _log(lake: Lake) -> object:
    return history.log(lake.ports, lake.repo, "main", LogRequest())


def _deep_page(lake: Lake) -> object:
    after = f"main~{5}"
    return history.log(lake.ports, lake.repo, "main", LogRequest(after=after, amount=1))


def _merge_base(lake: Lake) -> object:
    return history.merge_base(lake.ports, lake.repo, "dev", "main")


def _reset_prefix(lake: Lake) -> None:
    resetting.reset_prefix(lake.ports, lake.repo, "main", "p/")


def _three_dot(lake: Lake) -> object:
    return compare.diff_refs(lake.ports, lake.repo, "main", "dev", compare.DiffQuery())


def _merge_preview(lake: Lake) -> object:
    return merge.preview(lake.ports, lake.repo, "dev", "main", compare.DiffQuery())


@pytest.mark.parametrize(
    "walk", [_log, _deep_page, _merge_base, _reset_prefix, _three_dot, _merge_preview]
)
def test_a_walk_ends_with_the_time_of_its_request(
    lake: Lake, walk: Callable[[Lake], object]
) -> None:
    lake.branch("dev")
    lake.commit_of("dev", x="1")
    for number in range(8):
        lake.commit_of(a=f"{number}")
    lake.merge("dev")
    for number in range(3):
        lake.put(f"p/{number}", "1")
    clock = TickingClock()
    slow = Lake(replace(lake.ports, clock=clock), lake.repo).interposed()
    mine, script = slow

    def later() -> None:
        clock.sleep(HALF)
        script.after("get", later)
        script.after("scan", later)

    script.after("get", later)
    script.after("scan", later)
    record = lake.record()
    with pytest.raises(Unavailable, match="too long"):
        walk(mine)
    assert lake.another_process().record() == record


def test_a_look_for_uncommitted_changes_ends_with_the_time_of_a_commit(lake: Lake) -> None:
    lake.branch("dev")
    lake.commit_of("dev", x="1")
    lake.put("p", "1")
    clock = TickingClock()
    mine, script = Lake(replace(lake.ports, clock=clock), lake.repo).interposed()
    script.after("scan", lambda: clock.sleep(limits.commit_seconds_max + 1))
    record = lake.record()
    with pytest.raises(Unavailable, match="too long"):
        mine.merge("dev")
    assert script.finished and lake.another_process().record() == record
