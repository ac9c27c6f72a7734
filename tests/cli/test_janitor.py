"""The janitor's thread: sweeps every repository, survives a failed round, ends when told."""

import threading
from dataclasses import replace

from graveler.assembly import open_memory
from graveler.core.errors import Unavailable
from graveler.engine.jobs import record
from graveler.engine.ports import OpenRepository, Ports
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs.queue import JobMessage
from graveler.jobs.sweeper import Sweeper, tending
from graveler.kv.memory import MemoryStore
from graveler.kv.store import ScanPage
from tests.jobs.world import begin_commit, new_world

ROUNDS = 3


class Watched(MemoryStore):
    """Refuses its first scan, then says which partitions are scanned."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0
        self.scanned: list[bytes] = []
        self.enough = threading.Event()

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("for once")
        self.scanned.append(partition)
        if self.scanned.count(b"repos") >= ROUNDS:
            self.enough.set()
        return super().scan(partition, start, end, limit)


def _ports() -> tuple[Ports, Watched]:
    watched = Watched()
    return replace(open_memory(), kv=watched), watched


def test_every_repository_is_swept_although_one_round_failed() -> None:
    ports, watched = _ports()
    made = [
        repository.create(ports, NewRepository(name, f"mem://{name}/")) for name in ("one", "two")
    ]
    watched.scanned.clear()
    watched.enough.clear()  # creations list the repositories, too
    watched.refusals = 1
    sweeper = Sweeper(ports, 0.001, 0.001)
    sweeper.start()
    assert watched.enough.wait(30)
    sweeper.stop()
    assert watched.refusals == 0
    for repo in made:
        assert any(repo.uid.encode() in partition for partition in watched.scanned)


def test_a_repository_that_fails_keeps_no_other_from_its_turn() -> None:
    ports, _ = _ports()
    for name in ("one", "three", "two"):
        repository.create(ports, NewRepository(name, f"mem://{name}/"))
    seen: list[str] = []
    enough = threading.Event()

    def work(repo: OpenRepository) -> None:
        seen.append(repo.id)
        if len(seen) == 3:
            enough.set()
        raise Unavailable("down")

    sweeper = Sweeper(ports, 0.001, 3_600, work)
    sweeper.start()
    assert enough.wait(30)
    sweeper.stop()
    assert sorted(seen) == ["one", "three", "two"]


def test_stopping_before_and_without_a_start() -> None:
    ports, watched = _ports()
    Sweeper(ports).stop()
    sweeper = Sweeper(ports, 3_600)
    sweeper.start()
    sweeper.stop()
    assert watched.scanned == []


def test_a_round_enqueues_a_job_whose_worker_has_gone_silent() -> None:
    world = new_world()
    job = begin_commit(world)
    record.claim(world.lake.opened, job.id, b"dead")
    work = tending(world.queue)
    world.queue.messages.clear()
    work(world.lake.opened)
    assert world.queue.messages == []
    world.pass_lease()
    work(world.lake.opened)
    assert world.queue.messages == [JobMessage("lake", job.id)]
