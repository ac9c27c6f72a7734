"""Thousands of commits of a real history are made again, by the engine and over HTTP."""

import tempfile
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from lakefs.client import Client as LakeFS

from graveler import assembly
from graveler.engine.commits import log
from tests import draws
from tests.api.serving import ADMINISTRATOR, served
from tests.replay import recorded
from tests.replay.engine_door import EngineDoor, created_ns
from tests.replay.http_door import HttpDoor
from tests.replay.recorded import COUNT
from tests.replay.replay import CHECKS, Replayed, replay

pytestmark = pytest.mark.slow

Check = Callable[[Replayed], None]
OVER_HTTP, LENGTH = 1_000, 16  # of the first commits up to 16 that follow each other are one
NAMES = [check.__name__.removeprefix("check_") for check in CHECKS]


@pytest.fixture(scope="module")
def by_engine() -> Replayed:
    return replay(EngineDoor(assembly.open_memory()), recorded.story(COUNT))


@pytest.fixture(scope="module")
def over_http() -> Iterator[Replayed]:
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        served(Path(folder) / "store") as live,
    ):
        client = LakeFS(
            host=live.client.url,
            username=ADMINISTRATOR.access_key_id,
            password=ADMINISTRATOR.secret_access_key,
        )
        yield replay(HttpDoor(client, "local://lake"), recorded.condensed(OVER_HTTP, LENGTH))


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_by_the_engine(check: Check, by_engine: Replayed) -> None:
    check(by_engine)


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
def test_over_http(check: Check, over_http: Replayed) -> None:
    check(over_http)


def test_the_history_has_merges_with_conflicts(by_engine: Replayed) -> None:
    assert len(by_engine.pairs) == (926 if draws.ALL else 420)
    refused = sum(merged.refused for merged in by_engine.merges.values())
    assert refused >= (351 if draws.ALL else 150)


def test_of_several_bases_the_greatest_generation_counts_then_the_smallest_id(
    by_engine: Replayed,
) -> None:
    door = by_engine.door
    assert isinstance(door, EngineDoor)
    for row in by_engine.pairs:
        if len(row.bases) > 1:
            found = [log.get_commit(door.opened, by_engine.ids[n]) for n in row.bases]
            best = min(found, key=lambda each: (-each.commit.generation, each.id))
            assert by_engine.merges[row.n].base == best.id, f"merge base: {row.n=}"


def test_logs_are_ordered_newest_first(by_engine: Replayed) -> None:
    """All times are older than the repository, so they count as equal, and generations decide."""
    door = by_engine.door
    assert isinstance(door, EngineDoor)
    times = {door.first: log.get_commit(door.opened, door.first).commit.created_ns}
    for row, id in zip(by_engine.rows, by_engine.ids, strict=True):
        merged = by_engine.merges.get(row.n)
        times[id] = created_ns(row) + (merged is not None and merged.id != id)
        if merged is not None:
            times[merged.id] = created_ns(row)
    place: dict[str, tuple[int, int, str]] = {}  # no commit counts as older than a parent
    for id in TopologicalSorter(by_engine.parents).static_order():
        above = [place[parent] for parent in by_engine.parents[id]]
        latest = min([-times.get(id, 0), *(each[0] for each in above)])
        place[id] = latest, min((each[1] for each in above), default=0) - 1, id
    for n in (*by_engine.sample[:: len(by_engine.sample) // 6], COUNT - 1):
        reached, left = {by_engine.ids[n]}, [by_engine.ids[n]]
        while left:
            new = set(by_engine.parents[left.pop()]) - reached
            reached |= new
            left += new
        wanted = sorted(reached, key=place.__getitem__)
        assert door.log(by_engine.ids[n]) == wanted, f"log: {n=}"
