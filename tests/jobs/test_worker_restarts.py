"""Jobs that begin again in each worker are given up, of every kind, and say so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import GravelerError, HookFailed, Unavailable, Unsupported
from graveler.core.records import ABSENT, CommitEntry, Job, JobState
from graveler.engine import names
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Mode
from graveler.engine.bulk.land import Finish
from graveler.engine.commits import log
from graveler.engine.commits.log import LogRequest
from graveler.engine.events import batches, rules
from graveler.engine.events.batches import Delivery
from graveler.engine.events.rules import NewRule
from graveler.engine.hooks import JOB_KIND, NOTHING_PENDING, HookEvent, NoHooks, Pending
from graveler.engine.jobs import record
from graveler.engine.ports import Deadline, OpenRepository, Ports
from graveler.events.intake import BatchJob
from graveler.jobs import orders, schedule, worker
from graveler.jobs.kinds import KINDS
from graveler.jobs.queue import JobMessage
from scripts.deploy import ROOT
from tests.aws.deployment.templates import resources_of
from tests.engine.bulk.test_rows import scanned
from tests.engine.bulk_world import MAIN
from tests.engine.bulk_world import begin as begin_bulk
from tests.engine.lake import COMMITTER, Lake
from tests.engine.pulls.world import opened
from tests.jobs.test_handover_to_clusters import MANY, ROWS_MAX, bounded
from tests.jobs.world import (
    COMMIT,
    Held,
    Killed,
    World,
    begin_commit,
    begin_copy,
    begin_import,
    begin_merge,
    begin_reset,
    calls_of,
    new_world,
)
from tests.support.faults import Fault, FaultyStore


def begin_landing(world: World) -> Job:
    world.lake.put("d", "3")
    job = begin_bulk(world.lake, Mode.COMMIT)
    finish = Finish(scanned(world.lake, job), "request", "landed", "tester")
    asked = orders.land_asked(MAIN, job.job.id, finish)
    return schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))


def begin_pull(world: World) -> Job:
    pull = opened(world.lake, "other", "main")
    return schedule.submit(world.scheduler, orders.pull_asked("main", pull, 1, COMMITTER), ABSENT)


RESTARTED: dict[str, Callable[[World], Job]] = {
    orders.COMMIT: begin_commit,
    orders.MERGE: begin_merge,
    orders.PULL: begin_pull,
    orders.IMPORT: begin_import,
    orders.LAND: begin_landing,
    orders.COPY: begin_copy,
    orders.RESET: begin_reset,
}
# Too short to be cut off in the middle, or with a world of their own: tested in test_restores.py,
# below, and in ../hooks/test_faults.py.
OTHERS = (orders.RESTORE, JOB_KIND)


def cut_off(world: World, job: Job) -> None:
    """A worker whose time ends in the middle: at its first beat."""
    world.queue.messages.clear()
    world.work(job.id, seconds=0)


def test_every_kind_has_a_bound() -> None:
    stepwise = {name for name, kind in KINDS.items() if kind.is_stepwise}
    assert {*RESTARTED, *OTHERS, *stepwise} == set(KINDS)


@pytest.mark.parametrize("kind", RESTARTED)
def test_what_no_worker_can_finish_fails_and_says_so(kind: str) -> None:
    world = new_world()
    job = RESTARTED[kind](world)
    for _ in range(limits.job_restart_count_max):
        cut_off(world, job)
        assert world.queue.messages == [JobMessage("lake", job.id)]
        assert not world.status(job.id).ended
    world.queue.messages.clear()
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED and f"{kind} given up: 4 workers" in ended.error
    assert not world.queue.messages and not world.marked(job.id)


@pytest.mark.parametrize("kind", RESTARTED)
def test_a_worker_that_dies_counts_too(kind: str) -> None:
    """One that is killed says nothing; its lease ends."""

    world = new_world()
    job = RESTARTED[kind](world)
    for _ in range(limits.job_restart_count_max):
        lake, script = world.lake.interposed()
        script.before("set_if", strike_dead, 3)  # it has claimed the job, and counted its run
        with pytest.raises(Killed):
            world.work(job.id, lake)
        world.pass_lease()
    world.work(job.id)
    assert "given up" in world.status(job.id).error


def test_the_last_run_that_is_allowed_may_still_do_it() -> None:
    world = new_world()
    job = begin_commit(world)
    for _ in range(limits.job_restart_count_max - 1):
        cut_off(world, job)
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE


# ---- what the last worker had landed -------------------------------------------------------------


def last_run(kind: str) -> tuple[World, Job]:
    """A job of which one run is left."""
    world = new_world()
    job = RESTARTED[kind](world)
    for _ in range(limits.job_restart_count_max - 1):
        cut_off(world, job)
    return world, job


def landed(world: World, job: Job) -> bool:
    """Whether what the job was to do can be seen."""
    if job.kind == orders.COPY:
        return "copied" in world.lake.tree()
    if job.kind == orders.RESET:
        return not world.lake.uncommitted()
    return len(made(world)) > 1


def made(world: World) -> tuple[CommitEntry, ...]:
    """The commits of `main` after the first, without those that a merge brought in."""
    request = LogRequest(first_parent=True)
    entries, _ = log.log(world.lake.opened, "main", request)
    return tuple(entry for entry in entries if entry.commit.parents)


@pytest.mark.parametrize("kind", RESTARTED)
def test_what_the_last_worker_landed_before_it_died_is_done(kind: str) -> None:
    undisturbed, job = last_run(kind)
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(job.id, lake))
    expected = undisturbed.status(job.id)
    assert expected.state is JobState.DONE
    seen = set()
    for verb, nth in calls:
        if verb != "set_if" or nth <= 2:  # it claims the job, and counts its run
            continue
        world, job = last_run(kind)
        lake, script = world.lake.interposed()
        script.before(verb, strike_dead, nth)
        with pytest.raises(Killed):
            world.work(job.id, lake)
        is_landed = landed(world, job)
        world.pass_lease()
        world.work(job.id)
        ended = world.status(job.id)
        assert (ended.state is JobState.DONE) == landed(world, job)
        assert len(made(world)) <= 2
        if not is_landed and kind != orders.IMPORT:  # that had got further
            assert "given up" in ended.error
        assert not is_landed or ended.state is JobState.DONE
        if is_landed and kind not in (orders.COPY, orders.RESET):
            assert ended.commit == made(world)[0].id
        seen.add(is_landed)
    assert seen == {True, False}


def strike_dead() -> None:
    raise Killed


def test_a_commit_whose_history_is_too_long_to_be_looked_through_is_not_said_to_have_failed() -> (
    None
):
    world, job = last_run(orders.COMMIT)
    cut_off(world, job)
    for number in range(4):
        world.lake.commit_of(e=str(number))
    world.work(job.id, world.lake.with_settings(walk_count_max=2))
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED and "outcome unknown" in ended.error


def test_a_job_whose_branch_is_gone_is_given_up() -> None:
    world = new_world()
    world.lake.put("d", "3", "other")
    job = schedule.ask(world.scheduler, orders.commit_asked("other", COMMIT, force=False))
    for _ in range(limits.job_restart_count_max):
        cut_off(world, job)
    names.delete_branch(world.lake.opened, "other")
    world.work(job.id)
    assert "given up" in world.status(job.id).error


def test_what_cannot_be_found_out_now_is_asked_again() -> None:
    world, job = last_run(orders.COMMIT)
    cut_off(world, job)
    count = iter(range(100))
    plan = lambda _, verb: Fault.REFUSED if verb == "get" and next(count) > 3 else Fault.NONE  # noqa: E731
    with pytest.raises(Unavailable):
        world.work(job.id, world.lake.with_kv(lambda kv: FaultyStore(kv, plan)))
    assert not world.status(job.id).ended
    world.pass_lease()
    world.work(job.id)
    assert "given up" in world.status(job.id).error


def test_an_import_that_gets_further_is_not_given_up() -> None:
    world = new_world()
    job = begin_import(world)
    repo = world.lake.opened
    for number in range(3 * limits.job_restart_count_max):
        cut_off(world, job)
        owner = repo.ids.stamp()
        record.claim(repo, job.id, owner)
        record.Heartbeat(repo, job.id, owner).beat(number + 1, always=True)
        record.release(repo, job.id, owner)
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE


def test_a_commit_that_waits_for_a_cluster_is_not_given_up() -> None:
    world = bounded(new_world(), ROWS_MAX)
    for path, identity in MANY.items():
        world.lake.put(path, identity)
    job = begin_commit(world)
    for _ in range(3 * limits.job_restart_count_max):
        world.work(job.id)
        world.pass_lease()
    assert not world.status(job.id).ended


# ---- batches of events ---------------------------------------------------------------------------


def begin_batch(world: World) -> BatchJob:
    repo = world.lake.opened
    rule = rules.create(repo, NewRule(branch="main", bucket="landing"))
    closed = batches.note(repo, rule, Delivery(1, marked=True))
    assert isinstance(closed, batches.ClosingBatch)
    return BatchJob(repo.id, rule.id, closed.batch)


def waiting(world: World, job: BatchJob) -> int:
    repo = world.lake.opened
    return len(batches.tick(repo, rules.get(repo, job.rule)))


def test_a_batch_that_is_handed_over_is_done_until_its_commit_is_there() -> None:
    world = bounded(new_world(), ROWS_MAX)
    for path, identity in MANY.items():
        world.lake.put(path, identity)
    job = begin_batch(world)
    for _ in range(3 * limits.job_restart_count_max):
        worker.run(world.lake.ports, Held(), job)  # no error: the message is done
        assert waiting(world, job) == 1  # the tick hands it on again
    assert len(bulk.list_alive(world.lake.opened)) == 1


def no_scans(world: World) -> Lake:
    """The store answers, but not for what a commit reads."""
    plan = lambda _, verb: Fault.REFUSED if verb == "scan" else Fault.NONE  # noqa: E731
    return world.lake.with_kv(lambda kv: FaultyStore(kv, plan))


def run_and_die(world: World, job: BatchJob) -> None:
    """A worker that is killed in its commit, as by the end of its time or of its memory."""
    lake, script = world.lake.interposed()
    script.before("set_if", strike_dead, 2)
    with pytest.raises(Killed):
        worker.run(lake.ports, Held(), job)


TICK_SECONDS = limits.batch_again_seconds


@pytest.mark.parametrize("hours", [1, 23])
def test_an_outage_gives_no_batch_up(hours: int) -> None:
    world = new_world()
    world.lake.put("late", "1")
    job = begin_batch(world)
    for _ in range(hours * 3600 // TICK_SECONDS):
        with pytest.raises(Unavailable):
            worker.run(no_scans(world).ports, Held(), job)
        assert waiting(world, job) == 1
        world.lake.ports.clock.sleep(TICK_SECONDS)
    worker.run(world.lake.ports, Held(), job)
    assert waiting(world, job) == 0 and len(made(world)) == 2 and not world.lake.uncommitted()


def test_a_batch_that_no_worker_can_commit_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    world = new_world()
    world.lake.put("late", "1")
    job = begin_batch(world)
    for _ in range(limits.batch_restart_seconds // TICK_SECONDS):
        run_and_die(world, job)
        assert waiting(world, job) == 1
        world.lake.ports.clock.sleep(TICK_SECONDS)
    worker.run(world.lake.ports, Held(), job)
    assert waiting(world, job) == 0 and "batch given up" in logged(caplog)
    assert world.lake.uncommitted() and len(made(world)) == 1
    worker.run(world.lake.ports, Held(), job)


class Veto(NoHooks):
    """A hook that refuses commits until it is open."""

    def __init__(self) -> None:
        self.is_open = False
        self.asked = 0
        self.error: GravelerError = HookFailed("pre-commit hook aborted")

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        self.asked += 1
        if not self.is_open:
            raise self.error
        return NOTHING_PENDING


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """The messages of the log, and the causes that lines have beside them."""
    return "\n".join((caplog.text, *(vars(line).get("cause", "") for line in caplog.records)))


def vetoed() -> tuple[World, Veto, BatchJob, Ports]:
    """A batch that waits, the hook that refuses its commit, and the ports with that hook."""
    world, veto = new_world(), Veto()
    world.lake.put("late", "1")
    return world, veto, begin_batch(world), replace(world.lake.ports, hooks=veto)


def test_a_batch_that_a_hook_refuses_waits_and_lands_when_the_hook_agrees(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, veto, job, ports = vetoed()
    for _ in range(2 * limits.job_restart_count_max):
        worker.run(ports, Held(), job)
        assert waiting(world, job) == 1
        world.lake.ports.clock.sleep(TICK_SECONDS)
    assert "batch waits" in logged(caplog) and "given up" not in logged(caplog)
    veto.is_open = True
    worker.run(ports, Held(), job)
    assert waiting(world, job) == 0 and len(made(world)) == 2 and not world.lake.uncommitted()


def test_the_log_says_of_no_batch_that_waits_that_it_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, veto, job, ports = vetoed()
    for error in (HookFailed("hook not reached"), Unsupported("no hooks here")):
        veto.error = error
        worker.run(ports, Held(), job)
        assert waiting(world, job) == 1 and str(error) in logged(caplog)
    assert "given up" not in logged(caplog) and "refused" not in logged(caplog)


def test_a_batch_that_a_hook_refuses_for_a_day_is_given_up_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, veto, job, ports = vetoed()
    while waiting(world, job):
        worker.run(ports, Held(), job)
        world.lake.ports.clock.sleep(TICK_SECONDS)
    asked = veto.asked
    assert asked == limits.batch_restart_seconds // TICK_SECONDS
    assert logged(caplog).count("batch given up") == 1 and world.lake.uncommitted()
    worker.run(ports, Held(), job)
    assert veto.asked == asked and logged(caplog).count("batch given up") == 1


def test_a_batch_is_handed_on_again_only_after_the_longest_run_of_a_worker() -> None:
    worker_seconds = resources_of(ROOT / "template.yaml")["WorkerFunction"]["Properties"]["Timeout"]
    assert TICK_SECONDS > worker_seconds > limits.commit_seconds_max
    assert limits.batch_restart_seconds > TICK_SECONDS


def test_a_batch_that_the_last_worker_committed_before_it_died_is_not_said_to_be_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = new_world()
    world.lake.put("late", "1")
    job = begin_batch(world)
    for run in range(1, limits.job_restart_count_max + 1):
        lake, script = world.lake.interposed()
        is_last = run == limits.job_restart_count_max
        if is_last:
            world.lake.ports.clock.sleep(limits.batch_restart_seconds - 1)
        script.before("set_if", strike_dead, 4 if is_last else 2)  # it forgets, or seals
        with pytest.raises(Killed):
            worker.run(lake.ports, Held(), job)
        assert len(made(world)) == (2 if is_last else 1)
    world.lake.ports.clock.sleep(1)
    worker.run(world.lake.ports, Held(), job)
    assert waiting(world, job) == 0 and "given up" not in logged(caplog)
    assert len(made(world)) == 2 and not world.lake.uncommitted()
