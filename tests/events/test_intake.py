"""Rules, messages and batches together: what arrives in a bucket stands in commits."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from graveler.block.adapter import ObjectHead
from graveler.block.memory import MemoryBlocks
from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import AlreadyExists, Invalid, NotFound, Refused, Unavailable
from graveler.core.records import ABSENT
from graveler.engine import names
from graveler.engine.events import rules as watching
from graveler.engine.events.rules import NewRule
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.events import intake
from graveler.events.intake import BatchJob, Message
from graveler.refs import repositories
from graveler.refs.event_rules import EventRule
from tests.engine.lake import Lake, new_lake
from tests.events.test_notification import record
from tests.support.faults import Fault, FaultyStore


@pytest.fixture
def lake() -> Lake:
    return new_lake()


def commit_now(lake: Lake) -> intake.Submit:
    """Commits batches at once."""

    def submit(job: BatchJob) -> None:
        intake.run(lake.ports, job)

    return submit


def watch(lake: Lake, **said: Any) -> EventRule:
    new = NewRule(**{"branch": "main", "bucket": "landing", **said})
    return watching.create(lake.opened, new)


def message(name: str, *records: dict[str, Any], age_days: float = 0) -> Message:
    now = datetime.fromtimestamp(SystemClock().now_ns() / 1e9 - age_days * 86_400, UTC)
    timed = [{**each, "eventTime": now.isoformat()} for each in records]
    return Message(name, json.dumps({"Records": timed}))


def event(key: str, sequencer: str, etag: str) -> dict[str, Any]:
    if etag:
        return record(key, sequencer=sequencer, eTag=etag)
    return record(key, "ObjectRemoved:Delete", sequencer=sequencer)


def take_in(lake: Lake, *messages: Message) -> tuple[dict[str, int], list[str], list[BatchJob]]:
    jobs: list[BatchJob] = []
    counts, failed = intake.take_in(lake.ports, messages, jobs.append)
    return {taken.value: n for taken, n in counts.items()}, [each.id for each in failed], jobs


def test_objects_stand_where_their_rules_say(lake: Lake) -> None:
    watch(lake, prefix="in/", suffix=".csv", path="raw/{rest}")
    watch(lake, path="{bucket}/{key}")
    counts, failed, jobs = take_in(
        lake, message("1", event("in/a.csv", "1", "x"), event("in/b.txt", "1", "y"))
    )
    assert (counts, failed, jobs) == ({"staged": 3}, [], [])
    assert lake.tree() == {"raw/a.csv": "x", "landing/in/a.csv": "x", "landing/in/b.txt": "y"}
    assert take_in(lake, message("2", event("in/a.csv", "1", "x")))[0] == {"known": 2}


def test_a_marker_closes_a_batch_which_becomes_one_commit(lake: Lake) -> None:
    rule = watch(lake, prefix="in/", suffix=".csv", marker="_SUCCESS")
    take_in(lake, message("1", event("in/a.csv", "1", "x")))
    _, _, jobs = take_in(lake, message("2", event("in/_SUCCESS", "1", "m")))
    (job,) = jobs
    assert job == BatchJob("lake", rule.id, job.batch)
    for _ in range(3):
        intake.run(lake.ports, job)
    assert lake.tree("main@") == {"in/a.csv": "x", "in/_SUCCESS": "m"}
    assert lake.uncommitted() == []


def test_time_closes_a_batch_and_a_lost_job_is_found_by_the_next_tick(lake: Lake) -> None:
    watch(lake, seconds_max=60)
    take_in(lake, message("1", event("a", "1", "x")))
    jobs: list[BatchJob] = []
    assert intake.tick(lake.ports, jobs.append) == 0
    later(lake, 61)

    def lose(_: BatchJob) -> None:
        raise Unavailable("no queue")

    with pytest.raises(Unavailable):
        intake.tick(lake.ports, lose)
    assert intake.tick(lake.ports, commit_now(lake)) == 1
    assert intake.tick(lake.ports, jobs.append) == 0 and jobs == []
    assert lake.tree("main@") == {"a": "x"}


def test_a_batch_that_waits_is_handed_on_again_only_when_nobody_has_taken_it_for_long(
    lake: Lake,
) -> None:
    watch(lake, seconds_max=60)
    take_in(lake, message("1", event("a", "1", "x")))
    later(lake, 61)
    jobs: list[BatchJob] = []
    again_seconds = limits.batch_again_seconds

    def tick() -> int:
        return intake.tick(lake.ports, jobs.append, again_seconds=again_seconds)

    def begin() -> None:
        with pytest.raises(Unavailable):
            plan = lambda _, verb: Fault.REFUSED if verb == "scan" else Fault.NONE  # noqa: E731
            intake.work(lake.with_kv(lambda kv: FaultyStore(kv, plan)).ports, jobs[0])

    assert tick() == 1 and tick() == 0  # closed just now
    later(lake, again_seconds - 10)
    assert tick() == 0
    later(lake, 10)
    assert tick() == 1 and tick() == 0  # handed on just now
    later(lake, again_seconds - 10)
    begin()
    later(lake, again_seconds - 10)
    assert tick() == 0
    later(lake, 10)
    assert tick() == 1
    assert jobs == [jobs[0]] * 3
    intake.work(lake.ports, jobs[0])
    later(lake, again_seconds)
    assert tick() == 0 and lake.tree("main@") == {"a": "x"}


def test_what_has_no_time_left_is_told_as_failed_and_changes_nothing(lake: Lake) -> None:
    watch(lake)
    messages = [message("1", event("a", "1", "x")), message("2", event("b", "1", "x"))]
    counts, failed = intake.take_in(lake.ports, messages, lambda _: None, -1.0)
    assert counts == {} and [each.id for each in failed] == ["1", "2"]
    assert lake.tree() == {}


def test_a_removal_stages_what_is_there_now(lake: Lake) -> None:
    watch(lake)
    lake.commit_of(gone="1", back="1")
    lake.ports.blocks.put("mem://landing/back", [b"again"])
    take_in(lake, message("1", event("gone", "2", ""), event("back", "2", "")))
    tree = lake.tree()
    assert "gone" not in tree and tree["back"] not in ("1", "")


def test_poison_fails_alone(lake: Lake) -> None:
    watch(lake, prefix="in/")
    long = "in/" + "x" * 2_000
    counts, failed, _ = take_in(
        lake,
        Message("broken", "{"),
        message("good", event("in/a", "1", "x")),
        message("long", event(long, "1", "x")),
        message("dots", event("in/../b", "1", "x")),
    )
    assert failed == ["broken", "long", "dots"] and counts == {"staged": 1}
    assert lake.tree() == {"in/a": "x"}


def test_a_rule_that_cannot_name_an_object_stops_no_other_rule(lake: Lake) -> None:
    watch(lake, prefix="in/", path="x" * 900 + "/{key}")
    watch(lake, prefix="in/")
    key = "in/" + "k" * 200
    counts, failed, _ = take_in(lake, message("1", event(key, "1", "x"), event("in/a", "2", "y")))
    assert failed == ["1"] and counts == {"staged": 3}
    assert lake.tree() == {key: "x", "in/a": "y", "x" * 900 + "/in/a": "y"}


def test_a_rule_of_a_branch_that_is_gone_fails_and_one_of_a_repository_that_is_gone_ends(
    lake: Lake,
) -> None:
    lake.branch("dev")
    watch(lake, branch="dev")
    names.delete_branch(lake.opened, "dev")
    assert take_in(lake, message("1", event("a", "1", "x")))[1] == ["1"]
    repository.delete(lake.opened)
    assert take_in(lake, message("1", event("a", "1", "x"))) == ({}, [], [])
    assert intake.tick(lake.ports, commit_now(lake)) == 0
    intake.run(lake.ports, BatchJob("lake", "rule", "batch"))


def test_one_rule_that_fails_stops_no_other_ones_batches(lake: Lake) -> None:
    """The branch of the first is gone, which ends its batch; the second waits, being read-only."""
    lake.branch("dev")
    frozen = Lake(lake.ports, repository.create(lake.ports, NewRepository("cold", "mem://a/lake")))
    watch(frozen, seconds_max=1)
    watch(lake, branch="dev", prefix="dev/", seconds_max=1)
    watch(lake, seconds_max=1)
    take_in(lake, message("1", event("a", "1", "x"), event("dev/a", "1", "x")))
    names.delete_branch(lake.opened, "dev")
    freeze(frozen)
    later(lake, 2)
    jobs: list[BatchJob] = []
    assert intake.tick(lake.ports, jobs.append) == 1 == intake.tick(lake.ports, jobs.append)
    assert {job.repository for job in jobs} == {"lake"}
    intake.run(lake.ports, jobs[0])
    assert lake.tree("main@") == {"a": "x", "dev/a": "x"}
    assert intake.tick(lake.ports, jobs.append) == 0


def test_a_failure_of_one_rules_job_is_raised_after_all_rules(lake: Lake) -> None:
    for prefix in "abc":
        watch(lake, prefix=prefix, seconds_max=1)
    take_in(lake, message("1", *(event(key, "1", "x") for key in "abc")))
    later(lake, 2)
    tried: list[BatchJob] = []

    def refuse_the_first(job: BatchJob) -> None:
        tried.append(job)
        if len(tried) == 1:
            raise Unavailable("no queue")

    with pytest.raises(Unavailable):
        intake.tick(lake.ports, refuse_the_first)
    assert len(tried) == 3


def test_the_batch_of_a_branch_that_is_gone_ends_without_a_commit(lake: Lake) -> None:
    lake.branch("dev")
    watch(lake, branch="dev", marker="_SUCCESS")
    (job,) = take_in(lake, message("1", event("_SUCCESS", "1", "m")))[2]
    names.delete_branch(lake.opened, "dev")
    assert intake.run(lake.ports, job) is ABSENT
    assert intake.tick(lake.ports, lambda _: None) == 0


def test_a_removal_that_cannot_be_looked_at_fails_alone(lake: Lake) -> None:
    watch(lake)

    class Deaf(MemoryBlocks):
        def head(self, address: str) -> ObjectHead:
            raise Unavailable("no answer")

    deaf = Lake(replace(lake.ports, blocks=Deaf(lake.ports.clock)), lake.repo)
    counts, failed, _ = take_in(
        deaf, message("gone", event("a", "1", "")), message("new", event("b", "1", "x"))
    )
    assert (counts, failed) == ({"staged": 1}, ["gone"])


def test_a_notification_that_may_be_older_than_what_is_remembered_is_refused(lake: Lake) -> None:
    watch(lake)
    _, failed, _ = take_in(
        lake,
        message("old", event("a", "1", "x"), age_days=14.5),
        message("slow", event("b", "1", "x"), age_days=13.5),
    )
    assert failed == ["old"]


def freeze(lake: Lake) -> None:
    found = repositories.find(lake.ports.kv, lake.repo.id)
    assert found is not ABSENT
    frozen = replace(found.repository, read_only=True)
    repositories.swap(lake.ports.kv, found, frozen, lake.ports.ids.stamp())
    lake.ports.cache.forget_repository(lake.repo.id)


def later(lake: Lake, seconds: int) -> None:
    before = lake.ports.clock.now_ns
    lake.ports.clock.now_ns = lambda: before() + seconds * 1_000_000_000  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"bucket": "B"}, "bucket"),
        ({"path": "one"}, "path must have"),
        ({"path": "{name}"}, "path has an unknown placeholder"),
        ({"marker": "a/_SUCCESS"}, "marker"),
        ({"objects_max": -1}, "objects"),
        ({"seconds_max": 0}, "seconds"),
        ({"prefix": "x" * 2_000}, "prefix"),
        ({"bucket": "bucket", "prefix": ""}, "own namespace"),
        ({"bucket": "bucket", "prefix": "lake/data/"}, "own namespace"),
        ({"bucket": "bucket", "prefix": "la"}, "own namespace"),
    ],
)
def test_rules_that_cannot_work_are_refused(lake: Lake, said: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        watch(lake, **said)
    assert watching.list_all(lake.opened) == ()


def test_a_rule_does_not_watch_what_another_repository_may_collect(lake: Lake) -> None:
    repository.create(lake.ports, NewRepository("second", "mem://shared/second"))
    for prefix in ("", "sec", "second/data/"):
        with pytest.raises(Invalid, match="another repository's namespace"):
            watch(lake, bucket="shared", prefix=prefix)
    watch(lake, bucket="shared", prefix="second-hand/")


def test_no_repository_is_made_where_a_rule_watches(lake: Lake) -> None:
    rule = watch(lake, prefix="in/")
    for namespace in ("mem://landing/in/lake", "mem://landing/in", "mem://landing"):
        with pytest.raises(Invalid, match=rule.id):
            repository.create(lake.ports, NewRepository("other", namespace))
    repository.create(lake.ports, NewRepository("other", "mem://landing/out"))


def test_a_bucket_that_may_not_be_read_is_not_watched(lake: Lake) -> None:
    class Closed:
        def list(self, _prefix: str, _after: str, _limit: int) -> None:
            raise NotFound("no such bucket")

    closed = Lake(replace(lake.ports, blocks=cast(Any, Closed())), lake.repo)
    with pytest.raises(Invalid, match="bucket not found"):
        watch(closed)
    assert watching.list_all(lake.opened) == ()


def test_rules_are_made_shown_and_ended(lake: Lake) -> None:
    with pytest.raises(NotFound):
        watch(lake, branch="nowhere")
    rules = {watch(lake), watch(lake, prefix="a/"), watch(lake, bucket="bucket", prefix="other/")}
    assert set(watching.list_all(lake.opened)) == rules
    with pytest.raises(AlreadyExists):
        watch(lake, prefix="a/", seconds_max=1)
    gone = rules.pop()
    assert watching.get(lake.opened, gone.id) == gone
    watching.delete(lake.opened, gone.id)
    for missing in (gone.id, "..", "a/b", ""):
        with pytest.raises(NotFound):
            watching.delete(lake.opened, missing)
    assert set(watching.list_all(lake.opened)) == rules


def test_a_read_only_repository_watches_nothing(lake: Lake) -> None:
    with pytest.raises(Refused):
        watch(Lake(lake.ports, replace(lake.repo, read_only=True)))


@pytest.mark.parametrize("seed", range(15))
def test_any_delivery_ends_in_commits_with_the_newest_of_every_object(
    lake: Lake, seed: int
) -> None:
    """Every event at least once, shuffled, in messages of any size, handed on or lost."""
    print(f"{seed=}")
    chance = random.Random(seed)
    watch(lake, objects_max=chance.choice((0, 5, 20)), seconds_max=60, marker="_SUCCESS")
    expected: dict[str, str] = {}
    events = []
    for number in range(30):
        key = chance.choice(("a/_SUCCESS", *"bcdefghijk"))
        etag = "" if chance.random() < 0.2 else f"e{number}"
        events += [event(key, f"{number + 1:04X}", etag)] * chance.randint(1, 2)
        expected[key] = etag
    chance.shuffle(events)
    while events:
        size = chance.randint(1, 5)
        batch, events = events[:size], events[size:]
        jobs: list[BatchJob] = []
        intake.take_in(lake.ports, [message("m", *batch)], jobs.append)
        for job in jobs:
            if chance.random() < 0.7:
                intake.run(lake.ports, job)
    later(lake, 61)
    intake.tick(lake.ports, commit_now(lake))
    assert lake.uncommitted() == []
    assert lake.tree("main@") == {key: etag for key, etag in expected.items() if etag}
