"""A repository with work to be done by jobs, and workers to do it, for the tests of this folder."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from graveler import assembly
from graveler.block import address
from graveler.block.adapter import CREATE, Beat, ObjectHead, unwatched
from graveler.core import limits
from graveler.core.ids import JobId
from graveler.core.records import CommitEntry, Job
from graveler.engine import imports
from graveler.engine.commits import log as history
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.log import LogRequest
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.jobs import record
from graveler.engine.objects import copies, write
from graveler.engine.objects.copies import Source
from graveler.engine.repositories import repository
from graveler.jobs import orders, schedule, worker
from graveler.jobs.orders import CopyOrder
from graveler.jobs.queue import JobMessage, Message
from graveler.jobs.schedule import Scheduler
from tests.engine.lake import COMMITTER, Lake
from tests.engine.overridden import OverriddenBlocks
from tests.support.clockwork import SeededIds, TickingClock

SOURCE = "mem://bucket/source/"
LEASE_SECONDS = limits.job_lease_seconds + 1
Begin = Callable[["World"], Job]


@dataclass
class Held:
    """A queue that keeps what it is given."""

    messages: list[Message] = field(default_factory=list)

    def enqueue(self, message: Message) -> None:
        self.messages.append(message)


@dataclass
class World:
    """`lake` is the store; each worker sees it with caches of its own."""

    lake: Lake
    queue: Held = field(default_factory=Held)

    @property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.lake.opened, self.queue)

    def work(self, job: JobId, lake: Lake | None = None, seconds: float = 1e9) -> None:
        """A worker is given the job's message."""
        seen = lake or self.lake.another_process()
        worker.run(seen.ports, self.queue, JobMessage(seen.repo.id, job), seconds)

    def pass_lease(self) -> None:
        self.lake.ports.clock.sleep(LEASE_SECONDS)

    def status(self, job: JobId) -> Job:
        return record.status(self.lake.opened, job)

    def log(self) -> list[CommitEntry]:
        found, more = history.log(self.lake.opened, "main", LogRequest(amount=100))
        assert not more
        return [each for each in found if each.commit.parents]

    def marked(self, job: JobId) -> list[CommitEntry]:
        """The commits of `main` that a job made."""
        return [each for each in self.log() if each.commit.metadata.get(record.MARK_KEY) == job]


def new_world() -> World:
    """Something committed, something staged, a branch to merge, two objects to import."""
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    lake = Lake(ports, repo)
    lake.commit_of(a="1", b="1")
    lake.branch("other")
    lake.commit_of("other", c="2")
    lake.branch("staged")
    for name in ("x", "y", "z"):
        ports.blocks.put(SOURCE + name, [b"bytes"], CREATE)
    return World(lake)


class Killed(BaseException):
    """The worker's process is gone."""


def calls_of(world: World, act: Callable[[Lake], object]) -> list[tuple[str, int]]:
    """The calls of a run that nothing disturbs: each verb and its how-manieth it is."""
    lake, script = world.lake.interposed()
    act(lake)
    counted: Counter[str] = Counter()
    found = []
    for verb in script.seen:
        counted[verb] += 1
        found.append((verb, counted[verb]))
    return found


def replaced(world: World, job: JobId, call: tuple[str, int], *, stalls: bool) -> None:
    """A worker dies before that call, or stalls there until another one has done the job."""
    lake, script = world.lake.interposed()

    def strike() -> None:
        if not stalls:
            raise Killed
        world.pass_lease()
        world.work(job)

    verb, nth = call
    script.before(verb, strike, nth)
    try:
        world.work(job, lake)
    except Killed:
        world.pass_lease()
        world.work(job)
    assert script.finished


COMMIT = CommitRequest("job", COMMITTER, {"key": "value"})


def begin_commit(world: World) -> Job:
    world.lake.put("d", "3")
    world.lake.delete("b")
    return schedule.ask(world.scheduler, orders.commit_asked("main", COMMIT, force=False))


def begin_merge(world: World) -> Job:
    source = world.lake.head("other")
    request = MergeRequest(COMMITTER, "merge")
    return schedule.ask(world.scheduler, orders.merge_asked(source, "main", request, force=False))


def begin_import(world: World) -> Job:
    request = ImportRequest([ImportPath("common_prefix", SOURCE, "in/")], "import", COMMITTER)
    job = imports.submit(world.lake.opened, "main", request, owner=b"")
    world.queue.enqueue(JobMessage(world.lake.repo.id, job.id))
    return job


LONG = Source("other", "c")


def copy_of(world: World, path: str = "copied") -> CopyOrder:
    """The order of a copy of what is at LONG: an entry that says that it is long."""
    there = copies.to_be_copied(world.lake.opened, "main", path, LONG)
    return CopyOrder(there, LONG, path, False)


def put_long(world: World, content: bytes = b"long") -> None:
    """Stage, at LONG, an object that is longer than a request copies, as the store says too."""
    repo = world.lake.opened
    made = write.upload(repo, "other", "c", write.Upload([content]))
    size = limits.copy_in_request_bytes_max + 1
    write.stage(repo, "other", "c", made._replace(size=size))
    long, blocks = address.join(repo.namespace, made.address), repo.blocks

    def copied(source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        head = blocks.copy(source, destination, beat)
        return head._replace(size=size) if source == long else head

    seen: Any = OverriddenBlocks(blocks, copy=copied)
    world.lake = Lake(replace(world.lake.ports, blocks=seen), world.lake.repo)


def begin_copy(world: World) -> Job:
    put_long(world)
    asked = orders.copy_asked("main", copy_of(world))
    return schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))


def begin_reset(world: World) -> Job:
    world.lake.put("r/a", "9")
    world.lake.put("r/b", "9")
    asked = orders.reset_asked("main", "r/", force=False)
    return schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))


BEGUN: dict[str, tuple[Begin, dict[str, str]]] = {
    "commit": (begin_commit, {"a": "1", "d": "3"}),
    "merge": (begin_merge, {"a": "1", "b": "1", "c": "2"}),
    "import": (begin_import, {"a": "1", "b": "1"}),
}
