"""Purges of deleted repositories as work of the queue, and in the rounds of a service."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from graveler.core import limits
from graveler.core.errors import (
    Contended,
    Corrupt,
    GravelerError,
    Refused,
    Unavailable,
    Unsupported,
)
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.engine.ports import Ports, open_repository
from graveler.engine.repositories import purge, repository
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs import purge as purging
from graveler.jobs import worker
from graveler.jobs.queue import PurgeMessage
from graveler.refs import lifecycle, repositories
from graveler.refs.keys import UNPURGED
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.world import Held
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import InterposedStore, Script

ROUND_SECONDS = 15 * 60


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A repository that was deleted, past its undo period."""
    made = new_storage(tmp_path)
    made.commit(a="1")
    repository.delete(made.opened)
    made.clock.sleep(DAY + 1)
    return made


def left(storage: Storage) -> list[str]:
    return [gone.id for gone in lifecycle.list_deletions(storage.ports.kv)]


def test_a_purge_is_ordered_when_it_is_due_and_gone_on_with_until_all_is_gone(
    storage: Storage,
) -> None:
    late = repository.create(storage.ports, NewRepository("late", "mem://bucket/late"))
    repository.delete(open_repository(storage.ports, late))
    queue = Held()
    assert purging.order(storage.ports, queue) == 1
    [message] = queue.messages
    assert isinstance(message, PurgeMessage) and message.repository == "lake"
    worker.run(storage.ports, queue, message, 0.0)
    assert queue.messages == [message] and left(storage) == ["lake", "late"]
    assert purging.order(storage.ports, queue) == 1
    worker.run(storage.ports, queue, message)
    assert queue.messages == [message, message] and left(storage) == ["late"]
    worker.run(storage.ports, queue, message)  # delivered twice
    assert storage.stored() == set()


def test_a_message_reads_the_note_of_its_repository_alone(storage: Storage) -> None:
    for number in range(40):
        new = NewRepository(f"repo-{number}", f"mem://bucket/{number}")
        repository.delete(open_repository(storage.ports, repository.create(storage.ports, new)))
    kept = left(storage)
    [gone] = purge.list_due(storage.ports)
    [late] = [each for each in lifecycle.list_deletions(storage.ports.kv) if each.id == "repo-7"]
    counts = Counts()
    ports = replace(storage.ports, kv=counted_store(storage.ports.kv, counts))
    for id, uid in (("lake", "another"), ("nowhere", gone.uid), (late.id, late.uid)):
        before = counts.snapshot()
        purging.run(ports, PurgeMessage(id, uid), 60.0)
        assert counts.since(before) == {"get": 1} and left(storage) == kept
    purging.run(ports, PurgeMessage(gone.id, gone.uid), 60.0)
    assert left(storage) == [each for each in kept if each != "lake"]


def test_one_round_orders_so_many(storage: Storage) -> None:
    for number in range(limits.purges_ordered_max + 3):
        new = NewRepository(f"repo-{number}", f"mem://bucket/{number}")
        repository.delete(open_repository(storage.ports, repository.create(storage.ports, new)))
    storage.clock.sleep(DAY + 1)
    assert purging.order(storage.ports, Held()) == limits.purges_ordered_max


def test_what_may_not_be_removed_is_said(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    guest = repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest"))
    seen = repositories.find(storage.ports.kv, guest.id)
    assert seen is not ABSENT
    moved = replace(guest, namespace="mem://bucket/lake/inside")
    repositories.swap(storage.ports.kv, seen, moved, storage.ports.ids.stamp())
    queue = Held()
    purging.order(storage.ports, queue)
    worker.run(storage.ports, queue, queue.messages[0])
    assert "guest shares its files" in caplog.text and left(storage) == ["lake"]
    assert len(queue.messages) == 1


def without_scans(storage: Storage) -> Ports:
    """The store answers, but not for what a purge reads."""
    plan = lambda _, verb: Fault.REFUSED if verb == "scan" else Fault.NONE  # noqa: E731
    return replace(storage.ports, kv=FaultyStore(storage.ports.kv, plan))


def test_a_purge_that_always_fails_is_tried_once_a_day_and_says_so(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    broken = without_scans(storage)
    queue = Held()
    assert purging.order(storage.ports, queue) == 1
    with pytest.raises(Unavailable):  # an outage: the message is delivered again
        worker.run(broken, queue, queue.messages[0])
    storage.clock.sleep(limits.purge_eager_seconds)
    assert orders_of_days(storage, 7, lambda message: worker.run(broken, queue, message)) == [1] * 7
    assert "not purged for 9 days: repository=lake" in caplog.text and left(storage) == ["lake"]
    storage.clock.sleep(DAY)
    assert purging.order(storage.ports, queue) == 1
    worker.run(storage.ports, queue, queue.messages[-1])  # the cause is mended
    assert left(storage) == [] and storage.stored() == set()
    assert storage.ports.kv.scan(UNPURGED, b"", b"", 10) == ((), False)


def orders_of_days(
    storage: Storage, days: int, work: Callable[[PurgeMessage], object]
) -> list[int]:
    """How often rounds order the purge on each day, while `work` runs each message."""
    orders = [0] * days
    for number in range(days * DAY // ROUND_SECONDS):
        queue = Held()
        orders[number * ROUND_SECONDS // DAY] += purging.order(storage.ports, queue)
        for message in queue.messages:
            assert isinstance(message, PurgeMessage)
            work(message)
        storage.clock.sleep(ROUND_SECONDS)
    return orders


def test_a_long_purge_that_does_not_fail_goes_on_in_every_round(storage: Storage) -> None:
    storage.clock.sleep(limits.purge_eager_seconds)
    rounds = DAY // ROUND_SECONDS
    part = lambda message: purging.run(storage.ports, message, 0.0)  # noqa: E731
    assert orders_of_days(storage, 2, part) == [rounds] * 2
    assert left(storage) == ["lake"]


def test_a_purge_that_goes_on_after_a_failure_waits_no_longer(storage: Storage) -> None:
    storage.clock.sleep(limits.purge_eager_seconds)
    queue = Held()
    purging.order(storage.ports, queue)
    [message] = queue.messages
    assert isinstance(message, PurgeMessage)
    purging.run(without_scans(storage), message, 60.0)
    assert purging.order(storage.ports, Held()) == 0
    purging.run(storage.ports, message, 0.0)  # delivered twice
    assert purging.order(storage.ports, Held()) == 1


@pytest.mark.parametrize("failure", [Unavailable, Contended, Refused, Unsupported, Corrupt])
def test_every_failure_of_an_old_purge_is_an_error_and_delays_it_by_a_day(
    storage: Storage,
    failure: type[GravelerError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    [gone] = purge.list_due(storage.ports)
    message = PurgeMessage(gone.id, gone.uid)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))

    def fail() -> None:
        raise failure("broken")

    def broken(act: Callable[[], object]) -> None:
        script.before("scan", fail, 2 if act is in_service else 1)
        act()
        assert script.finished

    def in_service() -> None:
        purging.run_all(ports)

    broken(in_service)
    assert purging.order(ports, Held()) == 1  # young: every round tries it
    assert [line.levelname for line in caplog.records] == ["WARNING"]
    storage.clock.sleep(limits.purge_eager_seconds)
    for act in (in_service, lambda: purging.run(ports, message, 60.0)):
        caplog.clear()
        broken(act)
        assert [line.levelname for line in caplog.records] == ["ERROR"]
        assert "not purged for 3 days: repository=lake broken" in caplog.text
        purging.run_all(ports)
        assert purging.order(ports, Held()) == 0 and left(storage) == ["lake"]
    storage.clock.sleep(DAY)
    purging.run_all(ports)
    assert left(storage) == [] and storage.stored() == set()


def test_rounds_read_no_failures_of_young_purges(storage: Storage) -> None:
    counts = Counts()
    ports = replace(storage.ports, kv=counted_store(storage.ports.kv, counts))
    for reads in (0, 1):
        before = counts.snapshot()
        assert purging.order(ports, Held()) == 1
        assert counts.since(before).get("get", 0) == reads
        storage.clock.sleep(limits.purge_eager_seconds)


def test_a_service_purges_by_itself(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))

    def refuse() -> None:
        raise Unavailable("for once")

    script.before("get", refuse)
    purging.run_all(ports)
    assert "not purged: repository=lake for once" in caplog.text and left(storage) == ["lake"]
    purging.run_all(ports, 0.0)
    assert left(storage) == ["lake"]
    purging.run_all(ports)
    assert left(storage) == [] and storage.stored() == set()
    assert list(purge.list_due(ports)) == []


def test_what_cannot_be_purged_holds_up_nobody_else(storage: Storage) -> None:
    """Each round begins at another name."""
    for number in range(3 * limits.purges_ordered_max):
        new = NewRepository(f"{'abcdefghij'[number % 10]}-repo-{number}", f"mem://bucket/{number}")
        repository.delete(open_repository(storage.ports, repository.create(storage.ports, new)))
    storage.clock.sleep(DAY + 1)
    ordered: set[str] = set()
    for _ in range(200):
        queue = Held()
        purging.order(storage.ports, queue)
        ordered |= {message.repository for message in queue.messages if message is not None}
    assert ordered == set(left(storage))


def test_what_was_deleted_anew_since_it_was_listed_stays(storage: Storage) -> None:
    [gone] = purge.list_due(storage.ports)
    lifecycle.note_deletion(
        storage.ports.kv, gone.repository, gone.deleted_ns + DAY, storage.ports.ids.stamp()
    )
    before = storage.stored()
    assert purge.purge(storage.ports, gone) and storage.stored() == before
    assert left(storage) == ["lake"]
