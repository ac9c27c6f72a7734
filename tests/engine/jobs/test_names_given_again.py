"""The name of a job is given again once the first one is forgotten: nothing of it counts."""

from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import HandedOver
from graveler.core.ids import CommitId, JobId
from graveler.core.records import ABSENT, Job, JobState
from graveler.engine import janitor
from graveler.engine.bulk import job as bulk
from graveler.engine.commits import reset
from graveler.engine.commits.search import Once
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending, NewJob
from tests.engine.bulk_world import begin, finish, landings, write
from tests.engine.lake import Lake, new_lake
from tests.support.clockwork import SeededIds, TickingClock


@pytest.fixture
def timed() -> Lake:
    """A lake whose time goes on when it is told to."""
    lake = new_lake()
    return Lake(replace(lake.ports, clock=TickingClock(), ids=SeededIds(1)), lake.repo)


def _forgotten(lake: Lake) -> None:
    lake.ports.clock.sleep(limits.job_record_keep_seconds + limits.import_seconds_max)
    assert janitor.sweep(lake.opened).jobs == 1


@pytest.mark.parametrize("meanwhile", ["nothing", "commits", "reset"])
def test_an_import_of_the_same_name_lands_again(timed: Lake, meanwhile: str) -> None:
    first = timed.commit_of(z="0")
    job = begin(timed, prefix="in/", id="nightly")
    made = finish(timed, job, write(timed, {"in/a": "1"}))
    assert bulk.status(timed.opened, "main", "nightly").job.state is JobState.DONE
    _forgotten(timed)
    if meanwhile == "reset":  # the head is no ancestor of what comes, and is not older either
        reset.hard_reset(timed.opened, "main", first)
    again = begin(timed, prefix="in/", id="nightly")
    assert again.job.created_ns > job.job.created_ns
    if meanwhile == "commits":
        timed.commit_of(b="1")
    if meanwhile == "reset":
        reset.hard_reset(timed.opened, "main", made)
    landed = finish(timed, again, write(timed, {"in/a": "2"}))
    assert landed != made and timed.tree()["in/a"] == "2"
    assert finish(timed, again, write(timed, {"in/a": "2"})) == landed
    assert landings(timed) == 2


def test_the_mark_of_a_named_job_says_when_it_was_begun(timed: Lake) -> None:
    named, unnamed = begin(timed, id="nightly"), begin(timed)
    assert named.once == Once(
        record.MARK_KEY, f"nightly@{named.job.created_ns}", CommitId(timed.head())
    )
    assert unnamed.once.value == unnamed.job.id
    known = bulk.status(timed.opened, "main", "nightly")
    assert known.once == named.once


def test_a_head_from_before_is_never_the_commit_that_is_looked_for(lake: Lake) -> None:
    lake.put("a", "1")
    old = lake.commit(metadata={"mark": "1"})
    once = Once("mark", "1", old.id)
    lake.commit_of(b="1")
    lake.put("c", "1")
    made = lake.commit(metadata={"mark": "1"}, once=once)
    assert made.id == lake.head() != old.id
    assert lake.commit(metadata={"mark": "1"}, once=once).id == made.id


def _last(lake: Lake, job_id: JobId) -> Job:
    return record.begin(lake.opened, NewJob(job_id, "commit"))


def test_no_id_is_ever_used_twice(timed: Lake) -> None:
    ids = set[JobId]()
    for _ in range(3):
        last = _last(timed, record.next_id(timed.ports, "commit-x-", ABSENT))
        assert record.next_id(timed.ports, "commit-x-", ABSENT) == last.id, "two at once meet"
        second = record.next_id(timed.ports, "commit-x-", last)
        assert second > last.id and not {last.id, second} & ids
        ids |= {last.id, second}
        record.finish(timed.opened, last.id, Ending(JobState.DONE))
        _forgotten(timed)
    assert sorted(ids) == sorted(ids, key=lambda id: id.split("-")[2:])


def test_a_job_of_tokens_that_wait_for_days_has_another_id(timed: Lake) -> None:
    settings = timed.ports.settings._replace(commit_rows_max=1)
    lake = Lake(replace(timed.ports, settings=settings), timed.repo)
    lake.put("a", "1")
    lake.put("b", "1")
    ids = set[str]()
    for _ in range(2):
        with pytest.raises(HandedOver) as caught:
            lake.commit()
        ids.add(caught.value.job)
        _forgotten(lake)
    assert len(ids) == 2
