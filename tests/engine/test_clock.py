"""A wall clock that steps back: what was acknowledged last still counts, and history keeps its
order."""

import random
from dataclasses import replace

import pytest

from graveler import assembly
from graveler.core.errors import NoChanges
from graveler.engine.commits import log, reset
from graveler.engine.commits.log import LogRequest
from graveler.engine.objects import write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs.cache import RefCache
from tests import draws
from tests.engine.lake import Lake

HOUR_NS = 3_600 * 10**9


class SteppingClock:
    """Wall time that stands still until it is moved, either way; steady time goes on."""

    def __init__(self) -> None:
        self.wall_ns = 1_700_000_000 * 10**9
        self._steady = 0.0

    def now_ns(self) -> int:
        return self.wall_ns

    def steady_seconds(self) -> float:
        self._steady += 0.000_1
        return self._steady

    def sleep(self, seconds: float) -> None:
        self._steady += seconds


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def lake(clock: SteppingClock) -> Lake:
    ports = assembly.open_memory(clock)
    return Lake(ports, repository.create(ports, repository.NewRepository("lake", "mem://b/lake")))


def with_clock_of_its_own(lake: Lake, clock: SteppingClock) -> Lake:
    """Another process whose clock shows something else."""
    return Lake(replace(lake.ports, clock=clock, cache=RefCache(clock)), lake.repo)


def test_the_last_acknowledged_write_counts_though_its_time_is_earlier(
    lake: Lake, clock: SteppingClock
) -> None:
    lake.put("a", "first")
    clock.wall_ns -= HOUR_NS
    lake.put("a", "second")
    assert lake.tree() == {"a": "second"}
    clock.wall_ns -= HOUR_NS
    lake.delete("a")
    assert lake.tree() == {}
    clock.wall_ns -= HOUR_NS
    lake.put_if_absent("a", "third")
    assert lake.tree() == {"a": "third"}
    clock.wall_ns -= HOUR_NS
    assert write.delete_many(lake.opened, "main", ["a"]) == []
    assert lake.tree() == {}


def test_what_is_staged_earlier_than_its_commit_is_committed(
    lake: Lake, clock: SteppingClock
) -> None:
    lake.commit_of(a="1")
    clock.wall_ns -= HOUR_NS
    lake.commit_of(a="2")
    clock.wall_ns -= HOUR_NS
    lake.commit_of(a="")
    clock.wall_ns -= HOUR_NS
    lake.put("a", "4")
    reset.reset_path(lake.opened, "main", "a")
    assert lake.tree() == {}
    assert lake.tree("main~1") == {"a": "2"}


def test_a_log_has_parents_behind_children_whatever_their_times(
    lake: Lake, clock: SteppingClock
) -> None:
    generator = random.Random(5)
    made = [lake.head()]
    for number in range(12):
        clock.wall_ns += generator.randint(-HOUR_NS, HOUR_NS)
        if number % 4 == 3:
            lake.branch(f"side{number}")
            lake.commit_of(f"side{number}", **{f"s{number}": "x"})
            clock.wall_ns -= 2 * HOUR_NS
            made.append(lake.merge(f"side{number}"))
        else:
            made.append(lake.commit_of(**{f"k{number}": "x"}))
    found, more = log.log(lake.opened, "main", LogRequest(amount=1_000))
    place = {entry.id: at for at, entry in enumerate(found)}
    assert not more
    assert len({entry.commit.created_ns for entry in found}) > 10
    for entry in found:
        assert all(place[parent] > place[entry.id] for parent in entry.commit.parents)
    firsts = LogRequest(amount=1_000, first_parent=True)
    line, _ = log.log(lake.opened, "main", firsts)
    assert [entry.id for entry in line][: len(made)] == made[::-1]


def test_processes_whose_clocks_jump_agree_with_a_dictionary(
    lake: Lake, clock: SteppingClock
) -> None:
    seed = draws.seed()
    generator = random.Random(seed)
    clocks = [clock, SteppingClock(), SteppingClock()]
    processes = [lake, *(with_clock_of_its_own(lake, each) for each in clocks[1:])]
    wanted: dict[str, str] = {}
    for number in range(400):
        generator.choice(clocks).wall_ns += generator.randint(-HOUR_NS, HOUR_NS)
        process, path = generator.choice(processes), generator.choice("abc")
        verb = generator.choice(("put", "put", "delete", "absent", "many", "commit"))
        if verb == "put":
            process.put(path, f"{number}")
            wanted[path] = f"{number}"
        elif verb == "absent" and path not in wanted:
            process.put_if_absent(path, f"{number}")
            wanted[path] = f"{number}"
        elif verb == "delete":
            process.delete(path)
            wanted.pop(path, None)
        elif verb == "many":
            assert (
                write.delete_many(open_repository(process.ports, lake.repo), "main", ["a", "b"])
                == []
            )
            wanted.pop("a", None)
            wanted.pop("b", None)
        elif verb == "commit":
            try:
                process.commit()
            except NoChanges:
                continue
            assert lake.tree("main@") == wanted
        assert lake.tree() == wanted
