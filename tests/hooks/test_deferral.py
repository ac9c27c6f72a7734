"""A service that must answer soon leaves hooks of commits and merges to a worker."""

import threading
from dataclasses import dataclass

import pytest

from graveler.core.errors import HookFailed
from graveler.core.records import ABSENT, CommitEntry, JobState
from graveler.engine.commits import commit, merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.ports import OpenRepository
from graveler.jobs import handover, schedule, worker
from graveler.jobs.handover import AT_ONCE, Deadlines, TimeLimits
from graveler.jobs.orders import commit_asked, merge_asked
from graveler.jobs.queue import Message
from graveler.jobs.schedule import Scheduler
from tests.engine.lake import Lake
from tests.hooks.test_gate import _prepared
from tests.hooks.world import OtherSide, World
from tests.jobs import joins
from tests.jobs.world import COMMIT, Held
from tests.jobs.world import World as JobsWorld


@dataclass
class WorkersThread:
    """A queue whose messages another thread works on at once."""

    lake: Lake

    def enqueue(self, message: Message) -> None:
        thread = threading.Thread(
            name="worker", target=worker.run, args=(self.lake.ports, self, message)
        )
        thread.start()
        thread.join()


def _world() -> tuple[World, list[str]]:
    """A world, and the names of the threads in which hooks run."""
    threads: list[str] = []

    def answer(told: dict[str, str]) -> int:
        threads.append(threading.current_thread().name)
        return 403 if told.get("commit_message") == "temp" else 200

    world = _prepared(OtherSide(), "pre-commit", "pre-merge", "prepare-commit")
    world.side.answer = answer
    return world, threads


def _due(world: World, time_limits: TimeLimits) -> Deadlines:
    return time_limits.since(world.lake.ports.clock.steady_seconds())


def _commit(world: World, message: str, time_limits: TimeLimits) -> CommitEntry:
    request = CommitRequest(message, "c")

    def direct(repo: OpenRepository) -> CommitEntry:
        return commit.commit(repo, "main", request)

    scheduler = Scheduler(world.lake.opened, WorkersThread(world.lake))
    order = commit_asked("main", request, force=False)
    return handover.run_or_enqueue(scheduler, order, _due(world, time_limits), direct)


SOON = TimeLimits(hand_over_seconds=1_000.0, answer_seconds=1_000.0)


def test_a_worker_runs_the_hooks_of_a_commit() -> None:
    world, threads = _world()
    world.lake.put("new", "1")
    entry = _commit(world, "m", SOON)
    assert world.lake.head() == entry.id
    assert threads == ["worker", "worker"]  # prepare-commit and pre-commit


def test_the_veto_of_a_worker_is_the_answer() -> None:
    world, threads = _world()
    world.lake.put("new", "1")
    before = world.lake.head()
    for _ in range(2):  # the same request again asks the hooks again
        with pytest.raises(HookFailed, match="prepare-commit hook aborted") as failed:
            _commit(world, "temp", SOON)
        assert failed.value.fields["event"] == "prepare-commit"
    assert world.lake.head() == before
    assert threads == ["worker", "worker"]


def test_joining_a_commit_that_is_vetoed_has_another_job_ask_the_hooks_again() -> None:
    world, _ = _world()
    world.lake.put("new", "1")
    asked = commit_asked("main", COMMIT, force=False)
    job = schedule.begin(Scheduler(world.lake.opened, Held()), asked, ABSENT)
    jobs = JobsWorld(world.lake, Held())

    def act() -> None:
        world.side.answer = lambda _: 403
        jobs.work(job.id)
        world.side.answer = lambda _: 200

    class AtOnce(Held):
        def enqueue(self, message: Message) -> None:
            WorkersThread(world.lake).enqueue(message)

    entry = joins.commit(JobsWorld(joins.waiting(jobs, act).lake, AtOnce()))
    assert jobs.status(job.id).state is JobState.FAILED
    assert world.lake.head() == entry.id and world.lake.uncommitted() == []


def test_a_worker_runs_the_hooks_of_a_merge() -> None:
    world, threads = _world()

    def direct(repo: OpenRepository) -> CommitEntry:
        merged = merge.merge(repo, "dev", "main", MergeRequest("c"))
        return CommitEntry(merged, commit_of(repo, merged))

    scheduler = Scheduler(world.lake.opened, WorkersThread(world.lake))
    order = merge_asked("dev", "main", MergeRequest("c"), force=False)
    entry = handover.run_or_enqueue(scheduler, order, _due(world, SOON), direct)
    assert world.lake.head() == entry.id
    assert threads == ["worker"]


def test_a_service_without_time_limits_runs_them_itself() -> None:
    world, threads = _world()
    world.lake.put("new", "1")
    _commit(world, "m", AT_ONCE)
    assert threads == [threading.current_thread().name] * 2


def test_a_commit_that_no_action_waits_for_needs_no_worker() -> None:
    world, threads = _world()
    world.lake.put("new", "1", "dev")
    world.lake.delete("_lakefs_actions/check.yaml", "dev")
    world.lake.commit("no gate", "dev")
    threads.clear()
    world.lake.put("newer", "1", "dev")
    request = CommitRequest("m", "c")
    scheduler = Scheduler(world.lake.opened, WorkersThread(world.lake))

    def direct(repo: OpenRepository) -> CommitEntry:
        return commit.commit(repo, "dev", request)

    handover.run_or_enqueue(
        scheduler, commit_asked("dev", request, force=False), _due(world, SOON), direct
    )
    assert threads == []
