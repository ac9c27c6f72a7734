"""Collections by turns: one at a time, once a day where a rule asks, whoever orders and dies."""

import json
from pathlib import Path

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, Gone, Unavailable
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, Job, JobState
from graveler.engine.gc import cluster, retention
from graveler.engine.jobs import record
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs import collect, rounds
from graveler.jobs.queue import JobMessage
from graveler.jobs.schedule import Scheduler
from graveler.refs import garbage
from graveler.refs import job_records as records
from graveler.refs import job_records as turns
from graveler.refs.garbage import Retention, Size
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.world import Held, Killed, World, calls_of, new_world, replaced
from tests.support.interposer import Script

HOUR = 3600


def named(world: World, count: int) -> None:
    """More repositories, each with a rule of retention."""
    for number in range(count):
        new = NewRepository(f"lake-{number:03}", f"mem://bucket/lake-{number}")
        retention.set_rule(
            open_repository(world.lake.ports, repository.create(world.lake.ports, new)),
            Retention(7),
        )


def with_rule(world: World) -> World:
    retention.set_rule(world.lake.opened, Retention(7))
    return world


def daily(world: World, lake: Lake | None = None, seconds: float = 1e9) -> int:
    return rounds.order_daily((lake or world.lake.another_process()).ports, world.queue, seconds)


def on_record(world: World) -> list[Job]:
    return [seen.job for seen in records.list_all(world.lake.ports.kv, world.lake.repo)]


# ---- by hand -------------------------------------------------------------------------------------


def test_one_collection_at_a_time() -> None:
    world = new_world()
    job = rounds.order(world.scheduler)
    assert rounds.order(world.scheduler).id == job.id
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE, world.status(job.id)
    assert rounds.order(world.scheduler).id != job.id
    assert len(on_record(world)) == 2


def test_a_dry_run_is_another_job_and_one_runs_at_a_time() -> None:
    world = new_world()
    job = rounds.rehearse(world.scheduler)
    assert rounds.rehearse(world.scheduler).id == job.id != rounds.order(world.scheduler).id
    world.work(job.id)
    assert rounds.rehearse(world.scheduler).id != job.id


@pytest.fixture
def aged(tmp_path: Path) -> tuple[Storage, World, str]:
    """A commit that has expired, with files of its own."""
    storage = new_storage(tmp_path)
    retention.set_rule(storage.opened, Retention(default_days=7))
    old = storage.commit(a="old", b="same")
    storage.commit(a="new")
    storage.wait(8 * DAY)
    return storage, World(Lake(storage.ports, storage.repo)), old


def result_of(world: World, job: JobId) -> dict[str, object]:
    ended = world.status(job)
    assert ended.state is JobState.DONE, ended
    found: dict[str, object] = json.loads(record.ordered(world.lake.opened, job).result)
    return found


def lines(storage: Storage, folder: object, name: str) -> list[str]:
    """The addresses in the lists of a folder whose names begin so."""
    pages = storage.blocks.list(f"{folder}{name}", "", 100).lines
    raw = b"".join(b"".join(storage.blocks.get(each.address).chunks) for each in pages)
    return [json.loads(line)["address"] for line in raw.splitlines()]


def test_a_dry_run_lists_what_would_go_and_changes_nothing(
    aged: tuple[Storage, World, str],
) -> None:
    storage, world, old = aged
    before, expected = storage.stored(), storage.collect(delete=False)
    job = rounds.rehearse(world.scheduler)
    world.work(job.id)
    result = result_of(world, job.id)
    assert result["run"] == "" and result["deleted"] == {"count": 0, "size_bytes": 0}
    assert (result["commits"], result["commits_kept"]) == (expected.commits, expected.kept)
    sizes = sum(each.size for each in expected.condemned)
    assert result["condemned"] == {"count": len(expected.condemned), "size_bytes": sizes}
    found = lines(storage, result["candidates"], "condemned-")
    assert sorted(found) == sorted(each.address for each in expected.condemned)
    storage.clock.sleep(2 * DAY)
    again = rounds.rehearse(world.scheduler)
    world.work(again.id)
    assert result_of(world, again.id)["condemned"] == result["condemned"]
    assert storage.stored() == before and storage.read(old, "a") == b"old"


def test_two_collections_a_day_apart_delete(aged: tuple[Storage, World, str]) -> None:
    storage, world, old = aged
    first = rounds.order(world.scheduler)
    world.work(first.id)
    result = result_of(world, first.id)
    condemned = lines(storage, result["candidates"], "condemned-")
    assert condemned and result["run"] and set(condemned) <= storage.stored()
    storage.clock.sleep(DAY + 1)
    dry = rounds.rehearse(world.scheduler)
    world.work(dry.id)
    would = result_of(world, dry.id)
    assert sorted(lines(storage, would["candidates"], "deleted-")) == sorted(condemned)
    second = rounds.order(world.scheduler)
    world.work(second.id)
    assert result_of(world, second.id)["deleted"] == would["deleted"] == result["condemned"]
    assert not set(condemned) & storage.stored()
    fresh = storage.restarted()
    assert (fresh.read("main", "a"), fresh.read("main", "b")) == (b"new", b"same")
    with pytest.raises(Gone):
        fresh.read(old, "a")


def test_a_collection_that_no_worker_gets_done_is_given_up() -> None:
    world = new_world()
    job = rounds.order(world.scheduler)
    lake, clock = world.lake, world.lake.ports.clock
    for _ in range(limits.job_run_count_max):
        seen, script = lake.interposed()
        script.after("scan", lambda: clock.sleep(15 * 60), 2)
        world.queue.messages.clear()
        world.work(job.id, seen, seconds=14 * 60)
        assert world.queue.messages == [JobMessage("lake", job.id)]
    before = garbage.find_size(lake.ports.kv, lake.repo)
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED and "gc given up: 12 workers" in ended.error
    after = garbage.find_size(lake.ports.kv, lake.repo)
    assert before is ABSENT and after is not ABSENT
    assert after == Size(0, 0, after.at_ns, given_up=True)


# ---- workers that die or stall -------------------------------------------------------------------


def due_world(scratch: Path) -> tuple[Storage, World, JobId]:
    """What one run has condemned may go; the job that deletes it is ordered."""
    storage = new_storage(scratch)
    retention.set_rule(storage.opened, Retention(default_days=7))
    storage.commit(a="old")
    storage.commit(a="new")
    storage.wait(8 * DAY)
    storage.collect()
    storage.commit(a="newest")
    storage.wait(8 * DAY)
    world = World(Lake(storage.ports, storage.repo))
    return storage, world, rounds.order(world.scheduler).id


@pytest.mark.parametrize("stalls", [False, True])
def test_a_worker_that_dies_or_stalls_anywhere_is_replaced(tmp_path: Path, stalls: bool) -> None:
    storage, world, job = due_world(tmp_path)
    calls = calls_of(world, lambda lake: world.work(job, lake))
    left = storage.stored()
    for told in calls:
        storage, world, job = due_world(tmp_path)
        replaced(world, job, told, stalls=stalls)
        assert world.status(job).state is JobState.DONE, told
        assert len(storage.stored()) == len(left), told
        assert storage.restarted().read("main", "a") == b"newest", told


# ---- by schedule ---------------------------------------------------------------------------------


def test_only_repositories_with_a_rule_and_once_a_day() -> None:
    world = new_world()
    assert daily(world) == 0
    retention.set_rule(world.lake.opened, Retention())
    assert daily(world) == 1
    [message] = world.queue.messages
    assert isinstance(message, JobMessage)
    world.work(JobId(message.job))
    clock = world.lake.ports.clock
    for _ in range(23):
        clock.sleep(HOUR)
        assert daily(world) == 0
    clock.sleep(HOUR)
    assert daily(world) == 1
    retention.end_rule(world.lake.opened)
    clock.sleep(2 * DAY)
    assert retention.find_rule(world.lake.opened) is ABSENT and daily(world) == 0


def sized(world: World, size: Size) -> None:
    garbage.put_size(world.lake.ports.kv, world.lake.repo, size, world.lake.ports.ids.stamp())


@pytest.mark.parametrize(
    "size",
    [
        Size(limits.collect_files_max + 1, 1, 0),
        Size(1, limits.collect_commits_max + 1, 0),
    ],
)
def test_what_is_too_large_for_a_worker_is_not_sent_to_one(size: Size) -> None:
    world = with_rule(new_world())
    sized(world, size._replace(at_ns=world.lake.ports.clock.now_ns()))
    assert daily(world) == 1 and world.queue.messages == []
    [job] = on_record(world)
    assert job.state is JobState.FAILED and "graveler.spark.collect" in job.error
    assert daily(world) == 0  # it was said for the day
    by_hand = rounds.order(world.scheduler)
    assert world.queue.messages == [JobMessage("lake", by_hand.id)]
    world.work(by_hand.id)
    assert world.status(by_hand.id).state is JobState.DONE
    found = garbage.find_size(world.lake.ports.kv, world.lake.repo)
    assert found is not ABSENT and (found.commits, found.given_up) == (3, False)
    world.lake.ports.clock.sleep(DAY + 1)
    world.queue.messages.clear()
    assert daily(world) == len(world.queue.messages) == 1


def test_what_was_too_large_is_tried_again_after_a_month() -> None:
    """A cluster may have collected it since, and records no size."""
    world = with_rule(new_world())
    clock = world.lake.ports.clock
    sized(world, Size(limits.collect_files_max + 1, 1, clock.now_ns()))
    clock.sleep(limits.collect_size_seconds - DAY)
    assert daily(world) == 1 and world.queue.messages == []
    clock.sleep(DAY)
    assert daily(world) == len(world.queue.messages) == 1
    [message] = world.queue.messages
    world.work(message.job)
    assert world.status(message.job).state is JobState.DONE
    assert collect.too_large(world.lake.opened) == ""


def test_what_no_worker_could_end_is_tried_again_after_a_month() -> None:
    world = with_rule(new_world())
    clock = world.lake.ports.clock
    sized(world, Size(7, 3, clock.now_ns(), given_up=True))
    assert daily(world) == 1 and world.queue.messages == []
    clock.sleep(limits.collect_size_seconds)
    assert daily(world) == len(world.queue.messages) == 1


def test_a_collection_by_hand_counts_for_the_day() -> None:
    world = with_rule(new_world())
    rounds.order(world.scheduler)
    assert daily(world) == 0


def test_a_round_orders_so_many_and_all_have_their_turn() -> None:
    world = new_world()
    many = 3 * limits.collections_ordered_max + 5
    named(world, many)
    counts = [daily(world) for _ in range(5)]
    assert counts == [*[limits.collections_ordered_max] * 3, 5, 0]
    assert len({message.repository for message in world.queue.messages}) == many
    assert daily(new_world(), seconds=0.0) == 0


def test_an_orderer_that_dies_anywhere_loses_no_day() -> None:
    calls = calls_of(with_rule(new_world()), lambda lake: daily(with_rule(new_world()), lake))
    assert calls
    for verb, nth in calls:
        for after in (False, True):
            world = with_rule(new_world())
            lake, script = world.lake.interposed()

            def kill() -> None:
                raise Killed

            (script.after if after else script.before)(verb, kill, nth)
            with pytest.raises(Killed):
                daily(world, lake)
            daily(world)
            [job] = on_record(world)
            turn = turns.find_turn(world.lake.ports.kv, world.lake.repo)
            assert turn is not ABSENT and turn.turn.job == job.id, (verb, nth, after)
            world.work(job.id)
            assert daily(world) == 0 and on_record(world) == [world.status(job.id)]


def test_two_janitors_at_once_order_one_collection() -> None:
    calls = calls_of(with_rule(new_world()), lambda lake: daily(with_rule(new_world()), lake))
    for verb, nth in calls:
        world = with_rule(new_world())
        lake, script = world.lake.interposed()
        script.before(verb, lambda world=world: daily(world), nth)  # type: ignore[misc]
        daily(world, lake)
        assert_one(world, script, (verb, nth))


def assert_one(world: World, script: Script, told: tuple[str, int]) -> None:
    [job] = on_record(world)
    assert script.finished, told
    assert set(world.queue.messages) == {JobMessage("lake", job.id)}, told


def test_a_repository_whose_store_does_not_answer_is_passed_over() -> None:
    world = with_rule(new_world())
    named(world, 2)
    lake, script = world.lake.interposed()

    def refuse() -> None:
        raise Unavailable("for once")

    script.before("get", refuse, 1)
    assert daily(world, lake) == 2
    assert isinstance(world.queue, Held) and len(world.queue.messages) == 2


# ---- beside clusters -----------------------------------------------------------------------------


def test_nobody_collects_here_while_a_cluster_does() -> None:
    world = with_rule(new_world())
    repo = world.lake.opened
    cluster.begin_turn(repo, "A")
    with pytest.raises(Conflict, match="turn=A"):
        rounds.order(world.scheduler)
    assert daily(world) == 0 and on_record(world) == []
    assert rounds.rehearse(world.scheduler).id
    cluster.end_turn(repo, "A")
    assert daily(world) == 0, "it was collected today"
    job = rounds.order(world.scheduler)
    with pytest.raises(Conflict, match=job.id):
        cluster.begin_turn(repo, "B")
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
    cluster.begin_turn(repo, "B")


def test_a_cluster_that_died_keeps_nobody_from_collecting() -> None:
    world = with_rule(new_world())
    cluster.begin_turn(world.lake.opened, "A")
    world.lake.ports.clock.sleep(limits.collect_turn_seconds + 1)
    assert daily(world) == 0, "its run was begun today"
    world.lake.ports.clock.sleep(DAY)
    assert daily(world) == 1


def test_a_job_that_comes_too_late_gives_way_to_a_cluster() -> None:
    """Its orderer slept for a day between the turn and the job."""
    world = new_world()
    lake, script = world.lake.interposed()

    def sleep() -> None:
        world.lake.ports.clock.sleep(DAY + 1)
        cluster.begin_turn(world.lake.opened, "A")

    script.after("set_if", sleep)
    job = rounds.order(Scheduler(lake.opened, world.queue))
    assert script.finished
    world.work(job.id)
    assert "turn=A" in world.status(job.id).error
