"""A cluster that collects has the repository's turn: nobody else begins, until it ends or dies."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, Contended, Invalid, OutcomeUnknown
from graveler.core.ids import JobId
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.engine.gc import cluster
from graveler.engine.jobs import record
from graveler.engine.jobs.record import NewJob
from graveler.engine.ports import OpenRepository, open_repository
from graveler.refs import job_records as turns
from graveler.refs.job_records import Turn
from tests.engine.storage import DAY, HOUR, Storage
from tests.support.interposer import InterposedStore, Script

LEASE = limits.collect_turn_seconds
SERVICE = JobId("collect-x")


def begin(storage: Storage, id: str) -> Turn:
    return cluster.begin_turn(storage.opened, id)


def beat(storage: Storage, id: str) -> Turn:
    return cluster.beat_turn(storage.opened, id)


def end(storage: Storage, id: str) -> None:
    cluster.end_turn(storage.opened, id)


def check(storage: Storage, id: str) -> None:
    cluster.check_turn(storage.opened, id)


def check_none(storage: Storage) -> None:
    cluster.check_no_turn(storage.opened)


def order(storage: Storage) -> None:
    """As the service takes its turn."""
    repo = storage.opened
    seen, turn = turns.find_turn(repo.kv, repo.record), Turn(SERVICE, repo.clock.now_ns())
    assert turns.swap_turn(repo.kv, repo.record, turn, seen, repo.ids.stamp())


def scripted(storage: Storage) -> tuple[Storage, Script]:
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    return replace(storage, ports=ports), script


def test_nobody_else_begins_until_it_ends(storage: Storage) -> None:
    check_none(storage)
    first = begin(storage, "A")
    check(storage, "A")
    assert first.until_ns - first.ordered_ns == LEASE * limits.SECOND_NS
    with pytest.raises(Conflict, match=r"its turn is over in \d+ s: turn=A"):
        begin(storage, "B")
    with pytest.raises(Conflict, match="turn=A"):
        check_none(storage)
    with pytest.raises(Conflict, match="turn=B"):
        check(storage, "B")
    end(storage, "B")
    check(storage, "A")
    end(storage, "A")
    end(storage, "A")
    check_none(storage)
    for lost in (beat, check, begin):
        with pytest.raises(Conflict, match="turn=A"):
            lost(storage, "A")
    begin(storage, "B")
    check(storage, "B")


def test_beats_hold_it_for_as_long_as_a_run_may_take(storage: Storage) -> None:
    begun = begin(storage, "A")
    for _ in range(100):
        storage.clock.sleep(LEASE - 5)
        check(storage, "A")
        held = beat(storage, "A")
        assert held.ordered_ns == begun.ordered_ns and held.until_ns > begun.until_ns
    with pytest.raises(Conflict):
        begin(storage, "B")


def test_a_cluster_that_died_has_it_no_more(storage: Storage) -> None:
    begin(storage, "A")
    storage.clock.sleep(LEASE + 1)
    check_none(storage)
    with pytest.raises(Conflict, match="begin another run: turn=A"):
        check(storage, "A")
    begin(storage, "B")
    for lost in (beat, check, begin):
        with pytest.raises(Conflict, match=r"turn=[AB]"):
            lost(storage, "A")
    end(storage, "A")
    check(storage, "B")


@pytest.mark.parametrize("again", [begin, beat])
def test_one_that_slept_goes_on_if_nobody_came(
    storage: Storage, again: Callable[[Storage, str], Turn]
) -> None:
    begin(storage, "A")
    storage.clock.sleep(LEASE + 1)
    again(storage, "A")
    check(storage, "A")


def test_a_cluster_waits_for_the_service(storage: Storage) -> None:
    """For its job, and for an orderer between the turn and the job; for a day, or until it ends."""
    ports = storage.ports
    order(storage)
    check_none(storage)
    with pytest.raises(Conflict, match=r"about to begin.*graveler gc --server.*job=collect-x"):
        begin(storage, "A")
    job = record.begin(open_repository(ports, storage.repo), NewJob(SERVICE, "collect", body=""))
    storage.clock.sleep(2 * DAY)
    with pytest.raises(Conflict, match="wait for its job: job=collect-x"):
        begin(storage, "A")
    record.fail(open_repository(ports, storage.repo), job.id, Invalid("ended"), job.owner)
    begin(storage, "A")
    end(storage, "A")
    order(storage)


def test_an_order_of_which_nothing_came_is_forgotten(storage: Storage) -> None:
    order(storage)
    storage.clock.sleep(DAY - HOUR)
    with pytest.raises(Conflict, match="its orderer died"):
        begin(storage, "A")
    storage.clock.sleep(HOUR + 1)
    begin(storage, "A")


def test_of_two_that_begin_at_once_one_does(storage: Storage) -> None:
    mine, script = scripted(storage)
    script.before("set_if", lambda: begin(storage, "B"))
    with pytest.raises(Conflict, match="turn=B"):
        begin(mine, "A")
    assert script.finished
    check(storage, "B")


def test_beats_and_ends_that_meet(storage: Storage) -> None:
    """Whoever is second looks again."""
    begin(storage, "A")
    mine, script = scripted(storage)
    script.before("set_if", lambda: beat(storage, "A"))
    end(mine, "A")
    assert script.finished
    begin(storage, "B")
    mine, script = scripted(storage)
    script.before("set_if", lambda: end(storage, "B"))
    with pytest.raises(Conflict, match="turn=B"):
        beat(mine, "B")
    assert script.finished


def unknown() -> None:
    raise OutcomeUnknown("lost")


@pytest.mark.parametrize("is_written", [True, False])
def test_answers_may_be_lost(storage: Storage, is_written: bool) -> None:
    for verb in (begin, beat, end):
        mine, script = scripted(storage)
        (script.after if is_written else script.before)("set_if", unknown)
        verb(mine, "A")
        assert script.finished
        if verb is not end:
            check(storage, "A")
    check_none(storage)


def test_endless_contention_ends(storage: Storage) -> None:
    order(storage)
    storage.clock.sleep(DAY + 1)
    for verb in (begin, beat, end):
        mine, script = scripted(storage)
        for nth in range(1, limits.conditional_round_count_max + 1):
            script.before("set_if", unknown, nth)
        with pytest.raises(Contended, match="turn=A"):
            verb(mine, "A")
        assert script.finished
        if verb is begin:
            begin(storage, "A")


def test_what_makes_no_sense_is_refused(storage: Storage) -> None:
    for id in ("", "a-b", "x" * 65, "é"):
        with pytest.raises(Invalid, match="letters and digits"):
            begin(storage, id)
    with pytest.raises(Conflict, match="begin one with POST gc/turns"):
        check(storage, "")
    with pytest.raises(Conflict):
        beat(storage, "A")
    end(storage, "A")
    assert turns.find_turn(storage.ports.kv, storage.repo) is ABSENT


def test_requests(storage: Storage) -> None:
    kv, repo = Counts(), storage.repo
    ports = replace(storage.ports, kv=counted_store(storage.ports.kv, kv))

    def cost(verb: Callable[[OpenRepository, str], object]) -> dict[str, int]:
        before = kv.snapshot()
        verb(open_repository(ports, repo), "A")
        return kv.since(before)

    swap = {"get": 1, "set_if": 1}
    assert cost(cluster.begin_turn) == cost(cluster.beat_turn) == swap
    assert cost(cluster.check_turn) == {"get": 1}
    assert cost(cluster.end_turn) == swap
