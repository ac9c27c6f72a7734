"""A job that two workers run: the first dies or stalls at any call, the second goes on.

Whatever the moment: the job ends as done, its commit is made once, nothing is lost.
"""

import logging
from collections.abc import Callable

import pytest

from graveler.core.errors import Conflict
from graveler.core.ids import JobId
from graveler.core.records import JobState
from graveler.engine import imports
from tests.jobs.world import BEGUN, Killed, World, calls_of, new_world
from tests.support.interposer import Script

Moment = Callable[[Script, str, Callable[[], object], int], None]


def calls(kind: str) -> list[tuple[str, int]]:
    """The calls of a run that nothing disturbs: each verb and its how-manieth it is."""
    world = new_world()
    job = BEGUN[kind][0](world)
    return calls_of(world, lambda lake: world.work(job.id, lake))


def check(world: World, kind: str, job: JobId, told: str) -> None:
    ended = world.status(job)
    assert ended.state is JobState.DONE, (told, ended)
    made = world.marked(job)
    assert [each.id for each in made] == [ended.commit], (told, made)
    tree = {path: id for path, id in world.lake.tree().items() if not path.startswith("in/")}
    assert tree == BEGUN[kind][1], told
    assert world.lake.uncommitted() == [], told
    if kind == "import":
        assert {path for path in world.lake.tree() if path not in tree} == {"in/x", "in/y", "in/z"}


@pytest.mark.parametrize("kind", BEGUN)
def test_the_log_tells_how_a_job_has_ended(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """That of one that has failed is a warning with its cause: tests/aws/test_operator_log.py."""
    caplog.set_level(logging.INFO, "graveler.jobs")
    world = new_world()
    job = BEGUN[kind][0](world)
    world.work(job.id)
    [line] = [each for each in caplog.records if each.message == "job ended"]
    told = vars(line)
    assert (line.levelno, told["kind"], told["state"]) == (logging.INFO, kind, "done")
    assert (told["repository"], told["job"], told["attempt"]) == (world.lake.repo.id, job.id, 1)
    assert told["seconds"] >= 0 and "cause" not in told


def dies(script: Script, verb: str, action: Callable[[], object], nth: int) -> None:
    script.before(verb, action, nth)


def dies_after(script: Script, verb: str, action: Callable[[], object], nth: int) -> None:
    script.after(verb, action, nth)


@pytest.mark.parametrize("moment", [dies, dies_after])
@pytest.mark.parametrize("kind", BEGUN)
def test_a_worker_that_dies_anywhere_is_replaced(kind: str, moment: Moment) -> None:
    def kill() -> None:
        raise Killed

    for verb, nth in calls(kind):
        world = new_world()
        job = BEGUN[kind][0](world)
        lake, script = world.lake.interposed()
        moment(script, verb, kill, nth)
        with pytest.raises(Killed):
            world.work(job.id, lake)
        world.pass_lease()
        world.work(job.id)
        check(world, kind, job.id, f"{kind} {verb} {nth}")


@pytest.mark.parametrize("kind", BEGUN)
def test_a_worker_that_stalls_anywhere_does_no_harm_when_it_goes_on(kind: str) -> None:
    for verb, nth in calls(kind):
        world = new_world()
        job = BEGUN[kind][0](world)
        lake, script = world.lake.interposed()

        def take_over(world: World = world, job: JobId = job.id) -> None:
            world.pass_lease()
            world.work(job)

        script.before(verb, take_over, nth)
        world.work(job.id, lake)
        assert script.finished
        check(world, kind, job.id, f"{kind} {verb} {nth}")


@pytest.mark.parametrize("kind", BEGUN)
def test_others_commit_while_a_worker_stalls_anywhere(kind: str) -> None:
    """The mark is found behind commits of others, and what they staged stays theirs."""
    for verb, nth in calls(kind):
        world = new_world()
        job = BEGUN[kind][0](world)
        lake, script = world.lake.interposed()

        def take_over(world: World = world, job: JobId = job.id) -> None:
            world.pass_lease()
            world.work(job)
            world.lake.another_process().commit_of(e="9")

        script.before(verb, take_over, nth)
        world.work(job.id, lake)
        told = f"{kind} {verb} {nth}"
        assert len(world.marked(job.id)) == 1, told
        assert world.status(job.id).state is JobState.DONE, told
        assert world.lake.tree()["e"] == "9", told


def test_a_cancelled_import_lands_nothing_wherever_it_was() -> None:
    for verb, nth in calls("import"):
        world = new_world()
        job = BEGUN["import"][0](world)
        lake, script = world.lake.interposed()
        cancelled: list[bool] = []

        def cancel(
            world: World = world, job: JobId = job.id, cancelled: list[bool] = cancelled
        ) -> None:
            try:
                imports.cancel(world.lake.opened, "main", job)
                cancelled.append(True)
            except Conflict:
                cancelled.append(False)

        script.before(verb, cancel, nth)
        world.work(job.id, lake)
        world.pass_lease()
        world.work(job.id)
        expected = JobState.CANCELLED if cancelled[0] else JobState.DONE
        assert world.status(job.id).state is expected, (verb, nth)
        assert len(world.marked(job.id)) == (0 if cancelled[0] else 1), (verb, nth)
