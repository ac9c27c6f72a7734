"""Purges of deleted repositories as work of the queue, and in the rounds of a service."""

from dataclasses import replace
from pathlib import Path

import pytest

from graveler import limits
from graveler.engine.ports import open_repository
from graveler.engine.repositories import purge, repository
from graveler.engine.repositories.repository import NewRepository
from graveler.errors import Unavailable
from graveler.jobs import purge as purging
from graveler.jobs import worker
from graveler.jobs.queue import PurgeMessage
from graveler.kv.counter import ObservedStore
from graveler.records import ABSENT
from graveler.refs.names import deletions, repositories
from graveler.requests import Counts
from graveler.testing.faults import Fault, FaultyStore
from graveler.testing.interposer import InterposedStore, Script
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.world import Held


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A repository that was deleted, past its undo period."""
    made = new_storage(tmp_path)
    made.commit(a="1")
    repository.delete(made.opened)
    made.clock.sleep(DAY + 1)
    return made


def left(storage: Storage) -> list[str]:
    return [gone.id for gone in deletions.list_all(storage.ports.kv)]


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
    [late] = [each for each in deletions.list_all(storage.ports.kv) if each.id == "repo-7"]
    counts = Counts()
    ports = replace(storage.ports, kv=ObservedStore(storage.ports.kv, counts))
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


def test_a_purge_that_always_fails_is_tried_once_a_day_and_says_so(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    plan = lambda _, verb: Fault.REFUSED if verb == "scan" else Fault.NONE  # noqa: E731
    broken = replace(storage.ports, kv=FaultyStore(storage.ports.kv, plan))
    queue = Held()
    assert purging.order(storage.ports, queue) == 1
    with pytest.raises(Unavailable):  # an outage: the message is delivered again
        worker.run(broken, queue, queue.messages[0])
    storage.clock.sleep(limits.purge_eager_seconds)
    round_seconds = 15 * 60
    assert round_seconds < limits.purge_turn_seconds
    orders = [0] * 7
    for number in range(7 * DAY // round_seconds):
        orders[number * round_seconds // DAY] += purging.order(storage.ports, queue)
        storage.clock.sleep(round_seconds)
    assert all(1 <= count <= 3 for count in orders)
    worker.run(broken, queue, queue.messages[-1])  # no error: the message is done
    assert "not purged for 10 days: repository=lake" in caplog.text and left(storage) == ["lake"]
    worker.run(storage.ports, queue, queue.messages[-1])  # the cause is mended
    assert left(storage) == [] and storage.stored() == set()


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
    deletions.note(
        storage.ports.kv, gone.repository, gone.deleted_ns + DAY, storage.ports.ids.stamp()
    )
    before = storage.stored()
    assert purge.purge(storage.ports, gone) and storage.stored() == before
    assert left(storage) == ["lake"]


def test_what_an_older_release_deleted_is_told_once(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    [gone] = deletions.list_all(storage.ports.kv)
    deletions.forget(storage.ports.kv, gone)
    for _ in range(2):
        purging.note_older(storage.ports)
    assert caplog.text.count("repositories=1") == 1 and left(storage) == ["lake"]
    assert purging.order(storage.ports, Held()) == 0
