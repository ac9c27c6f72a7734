"""Requests that join a job, for the tests of joining: a worker that pauses, and a caller that
waits while others act."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Any

from graveler.core.clock import Clock
from graveler.core.ids import JobId
from graveler.core.records import CommitEntry
from graveler.engine.commits import commit as committing
from graveler.engine.commits import merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.ports import OpenRepository
from graveler.jobs import handover, orders
from graveler.jobs.handover import TimeLimits
from graveler.jobs.schedule import Scheduler
from tests.engine.lake import Lake
from tests.jobs.world import COMMIT, World

SHORT = TimeLimits(20.0, 27.0)
NO_TIME = TimeLimits(0.0, 27.0)  # the work is handed over before it begins
SCANNED = ("set_many", 1)  # of the worker's commit: the request after it has read what it folds in
RESOLVED = ("scan", 1)  # of the worker's merge: the request after it has resolved the source
_SECONDS = 30.0  # of a thread that waits for another one; reached only if a test fails


@contextmanager
def paused(world: World, job: JobId, call: tuple[str, int]) -> Iterator[Callable[[], None]]:
    """A worker that stands before that call; the function lets it run to its end."""
    lake, script = world.lake.interposed()
    reached, resumed = Event(), Event()

    def pause() -> None:
        reached.set()
        assert resumed.wait(_SECONDS)

    verb, nth = call
    script.before(verb, pause, nth)
    thread = Thread(target=lambda: world.work(job, lake))
    thread.start()

    def finish() -> None:
        resumed.set()
        thread.join()

    try:
        assert reached.wait(_SECONDS)
        yield finish
    finally:
        finish()


@dataclass
class Waiting:
    """A clock whose first `sleep` runs `act`: the caller has asked for its job once by then."""

    clock: Clock
    act: Callable[[], object]
    done: bool = False

    def now_ns(self) -> int:
        return self.clock.now_ns()

    def steady_seconds(self) -> float:
        return self.clock.steady_seconds()

    def sleep(self, seconds: float) -> None:
        if not self.done:
            self.done = True
            self.act()
        self.clock.sleep(seconds)


def waiting(world: World, act: Callable[[], object], lake: Lake | None = None) -> World:
    """The same store for a caller that waits for a job, while others `act`."""
    seen = lake or world.lake.another_process()
    clock: Any = Waiting(seen.ports.clock, act)
    return World(Lake(replace(seen.ports, clock=clock), seen.repo), world.queue)


def commit(
    world: World, request: CommitRequest = COMMIT, time_limits: TimeLimits = SHORT
) -> CommitEntry:
    """A caller commits `main`, and waits."""

    def direct(repo: OpenRepository) -> CommitEntry:
        return committing.commit(repo, "main", request)

    asked = orders.commit_asked("main", request, force=False)
    return _run_or_enqueue(world.scheduler, asked, time_limits, direct)


def merged(world: World, request: MergeRequest) -> CommitEntry:
    """A caller merges `other` into `main`, and waits."""

    def direct(repo: OpenRepository) -> CommitEntry:
        made = merge.merge(repo, "other", "main", request)
        return CommitEntry(made, commit_of(repo, made))

    asked = orders.merge_asked("other", "main", request, force=False)
    return _run_or_enqueue(world.scheduler, asked, SHORT, direct)


def _run_or_enqueue(
    scheduler: Scheduler, asked: orders.JobRequest, time_limits: TimeLimits, direct: handover.Direct
) -> CommitEntry:
    due = time_limits.since(scheduler.repo.clock.steady_seconds())
    return handover.run_or_enqueue(scheduler, asked, due, direct)
