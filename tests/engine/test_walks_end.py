"""Walks that a request waits for end with its time, in the middle if need be."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from graveler.committed.ranges import RangeStore, Table
from graveler.core import limits
from graveler.core.errors import Unavailable
from graveler.core.ids import RangeId
from graveler.engine.commits import diff, log, merge, reset
from graveler.engine.commits.log import LogRequest
from graveler.engine.ports import within
from tests.engine.lake import COMMITTER, Lake, new_lake
from tests.support.clockwork import TickingClock

HALF = limits.operation_seconds_max / 2 + 1


def _log(lake: Lake) -> object:
    return log.log(lake.opened, "main", LogRequest())


def _deep_page(lake: Lake) -> object:
    after = f"main~{5}"
    return log.log(lake.opened, "main", LogRequest(after=after, amount=1))


def _merge_base(lake: Lake) -> object:
    return log.merge_base(lake.opened, "dev", "main")


def _reset_prefix(lake: Lake) -> None:
    reset.reset_prefix(lake.opened, "main", "p/")


def _three_dot(lake: Lake) -> object:
    return diff.diff_refs(lake.opened, "main", "dev", diff.DiffQuery())


def _merge_preview(lake: Lake) -> object:
    return merge.preview(lake.opened, "dev", "main", diff.DiffQuery())


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
    ports = within(replace(lake.ports, clock=clock), limits.operation_seconds_max)
    mine, script = Lake(ports, lake.repo).interposed()

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


# ---- between two ranges --------------------------------------------------------------------------


@dataclass
class SlowRanges:
    """Each range that is opened takes a third of the time."""

    ranges: RangeStore
    clock: TickingClock
    seconds: float
    opened: int = 0

    def open_range(self, namespace: str, range_id: RangeId) -> Table:
        self.opened += 1
        self.clock.sleep(self.seconds / 3)
        return self.ranges.open_range(namespace, range_id)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self.ranges, verb)


def _two_dot(lake: Lake) -> object:
    query = diff.DiffQuery()
    return diff.diff_refs(lake.opened, "main", "dev", query, three_dot=False)


def _conflicts(lake: Lake) -> object:
    return lake.conflicts("dev")


def _merge(lake: Lake) -> object:
    return lake.merge("dev")


def _revert(lake: Lake) -> object:
    return merge.revert(lake.opened, "main", "main~3", REPLAY)


def _cherry_pick(lake: Lake) -> object:
    return merge.cherry_pick(lake.opened, "main", "dev", REPLAY)


def _log_of(lake: Lake) -> object:
    prefixes = tuple(f"p/{number:03}x" for number in range(5, 200, 30))
    return log.log(lake.opened, "main", LogRequest(prefixes=prefixes))


REPLAY = merge.ReplayRequest(COMMITTER)
REQUEST, COMMIT = limits.operation_seconds_max, limits.commit_seconds_max
RANGED: list[tuple[Callable[[Lake], object], float]] = [
    (_two_dot, REQUEST),
    (_three_dot, REQUEST),
    (_merge_preview, REQUEST),
    (_conflicts, REQUEST),
    (_log_of, REQUEST),
    (_merge, COMMIT),
    (_revert, COMMIT),
    (_cherry_pick, COMMIT),
]


@pytest.mark.parametrize(("walk", "seconds"), RANGED)
def test_a_walk_over_ranges_ends_between_two_of_them(
    walk: Callable[[Lake], object], seconds: float
) -> None:
    lake = new_lake()
    lake.commit_of(**{f"p/{number:03}": "0" for number in range(200)})
    lake.branch("dev")
    lake.commit_of("dev", **{f"p/{number:03}": "1" for number in range(200)})
    lake.commit_of(**{f"q/{number:03}": "0" for number in range(200)})
    lake.commit_of(**{f"q/{number:03}": "1" for number in range(200)})
    lake.commit_of(**{f"p/{number:03}": "2" for number in range(0, 200, 9)})
    clock, record = TickingClock(), lake.record()
    slow = SlowRanges(lake.ports.ranges, clock, seconds)
    mine = Lake(replace(lake.ports, ranges=slow, clock=clock), lake.repo)
    with pytest.raises(Unavailable, match="took too long and was given up; "):
        walk(mine)
    assert 0 < slow.opened <= 4
    assert lake.another_process().record() == record


def test_a_commit_ends_between_two_ranges() -> None:
    lake = new_lake()
    old = {f"p/{number:03}": "0" for number in range(200)}
    lake.commit_of(**old)
    for number in range(0, 200, 9):
        lake.put(f"p/{number:03}", "1")
    clock = TickingClock()
    slow = SlowRanges(lake.ports.ranges, clock, COMMIT)
    mine = Lake(replace(lake.ports, ranges=slow, clock=clock), lake.repo)
    with pytest.raises(Unavailable, match=r"^commit took too long and was given up; "):
        mine.commit("slow")
    assert 0 < slow.opened <= 4
    rival = lake.another_process()
    assert rival.tree("main@") == old
    rival.commit("later")
    assert list(rival.tree("main@").values()).count("1") == 23


def test_a_reset_of_all_paths_covers_none() -> None:
    lake = new_lake()
    lake.commit_of(a="1")
    lake.put("a", "2")
    lake.put("b", "1")
    counted, script = lake.interposed()
    reset.reset_prefix(counted.opened, "main", "")
    assert lake.tree() == {"a": "1"} and not lake.uncommitted()
    assert lake.record().sealed == () and "scan" not in script.seen
