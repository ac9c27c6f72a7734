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
from graveler.engine.ports import open_repository
from graveler.engine.repositories import purge, repository
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs import purge as purging
from graveler.jobs import worker
from graveler.jobs.queue import PurgeMessage
from graveler.refs import lifecycle, repositories
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.world import Held
from tests.support.interposer import InterposedStore, Script


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


def test_what_was_deleted_anew_since_it_was_listed_stays(storage: Storage) -> None:
    [gone] = purge.list_due(storage.ports)
    lifecycle.note_deletion(
        storage.ports.kv, gone.repository, gone.deleted_ns + DAY, storage.ports.ids.stamp()
    )
    before = storage.stored()
    assert purge.purge(storage.ports, gone) and storage.stored() == before
    assert left(storage) == ["lake"]
