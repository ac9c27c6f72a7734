"""Break parameters are chosen anew by compare-and-swap: nobody's choice is overwritten unseen."""

from dataclasses import replace
from functools import partial

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import (
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
    Unavailable,
)
from graveler.core.records import BreakParameters
from graveler.core.requests import Counts, counted_store
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs import repositories
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyStore, nth

OLD = BreakParameters(raggedness=3, salt=b"lake")
NEW = BreakParameters(min_size=300, max_size=9_000, raggedness=5, salt=b"other")
OTHER = replace(NEW, salt=b"somebody else's")


def swap(lake: Lake, wanted: BreakParameters = NEW, seen: BreakParameters = OLD) -> None:
    repository.swap_breaks(lake.opened, seen, wanted)


def now(lake: Lake) -> BreakParameters:
    return repository.read_breaks(lake.opened)


def test_what_was_seen_is_swapped_once_or_often(lake: Lake) -> None:
    assert now(lake) == OLD
    for _ in range(2):
        swap(lake)
        assert now(lake) == NEW
    found = repository.get(lake.ports, "lake")
    assert found == replace(lake.repo, breaks=NEW)


def test_what_somebody_else_has_set_stays(lake: Lake, rival: Lake) -> None:
    swap(rival, OTHER)
    with pytest.raises(PreconditionFailed, match="have changed: min_size=300"):
        swap(lake)
    assert now(lake) == OTHER


def test_of_two_at_the_same_time_one_wins(lake: Lake) -> None:
    mine, script = lake.interposed()
    script.before("set_if", lambda: swap(lake.another_process(), OTHER))
    with pytest.raises(PreconditionFailed):
        swap(mine)
    assert script.finished and now(lake) == OTHER


def test_another_change_of_the_record_is_no_hindrance(lake: Lake) -> None:
    def collect() -> None:
        seen = repositories.find(lake.ports.kv, lake.repo.id)
        assert seen is not repositories.ABSENT
        collected = replace(seen.repository, collected=True)
        assert repositories.swap(lake.ports.kv, seen, collected, lake.ports.ids.stamp())

    mine, script = lake.interposed()
    script.before("set_if", collect)
    swap(mine)
    assert repositories.get(lake.ports.kv, lake.repo.id) == replace(
        lake.repo, breaks=NEW, collected=True
    )


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.REFUSED])
def test_whichever_call_fails_it_is_set_or_was_not(lake: Lake, fault: Fault) -> None:
    for number in (1, 2):
        breaks = replace(NEW, raggedness=10 + number)
        before = now(lake)
        faulty = lake.with_kv(partial(FaultyStore, plan=nth({number: fault})))
        try:
            swap(faulty, breaks, before)
        except Unavailable:
            assert now(lake) == before
        else:
            assert now(lake) == breaks


def test_one_that_landed_unheard_and_was_replaced_is_not_denied(lake: Lake) -> None:
    mine, script = lake.interposed()
    faulty = mine.with_kv(partial(FaultyStore, plan=nth({2: Fault.LOST})))
    script.after("set_if", lambda: swap(lake.another_process(), OTHER, NEW))
    with pytest.raises(OutcomeUnknown):
        swap(faulty)
    assert script.finished and now(lake) == OTHER


def test_a_repository_that_is_gone_or_made_anew(lake: Lake) -> None:
    repository.delete(lake.opened)
    for call in (swap, now):
        with pytest.raises(NotFound):
            call(lake)
    new = repository.NewRepository("lake", "mem://bucket/other", breaks=OLD)
    made = repository.create(lake.ports, new)
    for call in (swap, now):
        with pytest.raises(NotFound):
            call(lake)
    assert now(Lake(lake.ports, made)) == OLD


def test_a_read_only_repository_is_left_alone_unless_forced(lake: Lake) -> None:
    closed = Lake(lake.ports, replace(lake.repo, read_only=True))
    with pytest.raises(Refused):
        swap(closed)
    repository.swap_breaks(closed.opened, OLD, NEW, force=True)
    assert now(lake) == NEW


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_size": -1},
        {"min_size": 10, "max_size": 9},
        {"max_size": 0},
        {"raggedness": 0},
        {"max_size": limits.range_size_bytes_max + 1},
        {"raggedness": limits.range_raggedness_max + 1},
        {"salt": b""},
        {"salt": bytes(limits.range_salt_bytes_max + 1)},
    ],
)
def test_what_nobody_can_write_by_is_refused(lake: Lake, wrong: dict[str, int | bytes]) -> None:
    with pytest.raises(Invalid):
        swap(lake, replace(NEW, **{"min_size": 0, **wrong}))  # type: ignore[arg-type]
    assert now(lake) == OLD


def test_what_it_costs(lake: Lake) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))
    swap(counted)
    assert dict(counts.snapshot()) == {"get": 1, "set_if": 1}
    swap(counted)
    assert dict(counts.snapshot()) == {"get": 2, "set_if": 1}


MANY = BreakParameters(raggedness=limits.range_raggedness_default, salt=b"many")


@pytest.mark.parametrize(
    ("records", "chosen"),
    [
        (0, 2_000),
        (999_999, 2_000),
        (1_000_000, 4_000),
        (25_000_000, 4_000),
        (36_000_000, 6_000),
        (5_000_000_000, 50_000),
    ],
)
def test_a_first_import_chooses_by_its_number_of_records(records: int, chosen: int) -> None:
    ports = assembly.open_memory()
    new = repository.NewRepository("lake", "mem://bucket/lake", breaks=MANY)
    lake = Lake(ports, repository.create(ports, new))
    expected = replace(MANY, raggedness=chosen)
    assert repository.first_breaks(lake.opened, records) == expected
    assert now(lake) == MANY  # the import may fail
    repository.keep_breaks(lake.opened, expected)
    assert now(lake) == expected
    opened = open_repository(ports, repository.get(ports, "lake"))
    assert repository.first_breaks(opened, records) == expected


def test_what_somebody_has_chosen_stays(lake: Lake) -> None:
    assert repository.first_breaks(lake.opened, 10**9) == OLD
    ports = assembly.open_memory()
    new = repository.NewRepository("lake", "mem://bucket/lake", breaks=MANY)
    other = Lake(ports, repository.create(ports, new))
    swap(other, NEW, MANY)  # since the repository was opened
    assert repository.first_breaks(other.opened, 10**9) == NEW
    repository.keep_breaks(other.opened, replace(MANY, raggedness=31_622))  # chosen before that
    assert now(other) == NEW
