"""Each request of each verb goes wrong in turn, in each way: nothing half done, nothing lost.

After a failure the branch shows what it showed before or what the verb was to bring about; after an
answer, the latter; and the same call again, over a sound store, always ends well.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    GravelerError,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.engine import names
from graveler.engine.commits import merge, reset
from graveler.engine.objects import write
from tests.engine.lake import COMMITTER, Lake, new_lake
from tests.support.faults import Fault, FaultyStore, nth

Shown = Mapping[str, object]
REQUEST_COUNT_MAX = 40
KINDS = [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]


class Case(NamedTuple):
    """A verb, and the errors that a second call may end with once the first one took effect."""

    call: Callable[[Lake], object]
    again: tuple[type[GravelerError], ...] = ()


def _revert(lake: Lake) -> None:
    request = merge.ReplayRequest(COMMITTER)
    merge.revert(lake.opened, "clean", "clean", request)


def _reset_expected(lake: Lake) -> None:
    """From the head that the ground gave `clean`; the tag holds it, since commits hold a time."""
    head = names.get_tag(lake.opened, "tip")
    reset.hard_reset(lake.opened, "clean", "main", expected=head)


CASES = {
    "write": Case(lambda lake: lake.put("a", "new")),
    "delete": Case(lambda lake: lake.delete("a")),
    "write if absent": Case(lambda lake: lake.put_if_absent("fresh", "1"), (Conflict,)),
    "write if it matches": Case(lambda lake: lake.put_over("a", "9", "1"), (Conflict,)),
    "delete many": Case(lambda lake: write.delete_many(lake.opened, "main", ["a", "b", "x"])),
    "commit": Case(lambda lake: lake.commit("faulty"), (NoChanges,)),
    "merge": Case(lambda lake: lake.merge("dev", "clean"), (NoChanges,)),
    "revert": Case(_revert),
    "reset": Case(lambda lake: reset.reset(lake.opened, "main")),
    "reset prefix": Case(lambda lake: reset.reset_prefix(lake.opened, "main", "st")),
    "hard reset": Case(lambda lake: reset.hard_reset(lake.opened, "clean", "clean~")),
    "hard reset if it is expected": Case(_reset_expected),
    "create branch": Case(lambda lake: lake.branch("new"), (AlreadyExists,)),
    "delete branch": Case(lambda lake: names.delete_branch(lake.opened, "dev"), (NotFound,)),
}


def _ground() -> Lake:
    """`main` with changes, staged and sealed; `clean` without, its head tagged `tip`; `dev`."""
    lake = new_lake()
    lake.commit_of(a="1", b="1", c="1")
    lake.branch("dev")
    lake.branch("clean")
    lake.commit_of("dev", d="dev")
    lake.commit_of("clean", e="clean")
    names.create_tag(lake.opened, "tip", "clean")
    lake.put("staged/1", "1")
    lake.put("staged/2", "2")
    lake.put("sealed", "3")
    reset.reset_path(lake.opened, "main", "staged/1")
    lake.put("staged/3", "3")
    return lake


def _shown(lake: Lake) -> Shown:
    """What readers see: every branch, with and without what is uncommitted, and its history."""
    views, _ = names.list_branches(lake.opened, names.PageQuery())
    return {view.id: (lake.tree(view.id), lake.tree(f"{view.id}@")) for view in views}


def _faulty(lake: Lake, number: int, fault: Fault) -> tuple[Lake, FaultyStore]:
    stores: list[FaultyStore] = []

    def wrap(kv: object) -> FaultyStore:
        stores.append(FaultyStore(kv, nth({number: fault})))  # type: ignore[arg-type]
        return stores[0]

    return lake.with_kv(wrap), stores[0]


def _attempts(case: Case, fault: Fault) -> Iterator[tuple[Lake, FaultyStore, bool, int]]:
    """(lake, store, whether the verb answered, number): one for each request of the verb."""
    for number in range(1, REQUEST_COUNT_MAX):
        lake = _ground()
        broken, store = _faulty(lake, number, fault)
        answered = True
        try:
            result = case.call(broken)
            if isinstance(result, list) and result:
                answered = False
        except Unavailable:
            answered = False
        if store.requests < number:
            return
        yield lake, store, answered, number
    raise AssertionError("a verb of that many requests is none of ours")


@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_half_done_and_nothing_acknowledged_is_lost(name: str, fault: Fault) -> None:
    case = CASES[name]
    untouched = _ground()
    before = _shown(untouched)
    case.call(untouched)
    after = _shown(untouched)
    assert before != after
    for lake, store, answered, number in _attempts(case, fault):
        where = f"{name}: request {number} {fault.name}"
        allowed = [after] if answered else [before, after]
        if name == "delete many" and not answered:
            continue  # reports path by path; see the test below
        assert _shown(lake) in allowed, where
        store.land()
        assert _shown(lake) in allowed, f"{where}, landed late"
        try:
            case.call(lake.another_process())
        except case.again:
            assert _shown(lake) == after, where
        if name not in ("revert", "hard reset"):  # a second one goes further back
            assert _shown(lake) == after, f"{where}, and again"


@pytest.mark.parametrize("fault", KINDS)
def test_paths_that_a_bulk_delete_does_not_complain_of_are_gone(fault: Fault) -> None:
    for number in range(1, 12):
        lake = _ground()
        broken, store = _faulty(lake, number, fault)
        try:
            failed = write.delete_many(broken.opened, "main", ["a", "b", "x"])
        except Unavailable:
            continue
        store.land()
        gone = {"a", "b", "x"} - {error.path for error in failed}
        assert not gone & set(lake.tree())


def test_a_late_duplicate_of_a_write_does_not_undo_a_later_one() -> None:
    lake = _ground()
    broken, store = _faulty(lake, 1, Fault.LATE)
    broken = Lake(replace(broken.ports, cache=lake.ports.cache), lake.repo)
    lake.head()
    with contextlib.suppress(OutcomeUnknown):
        broken.put("a", "early")
    lake.put("a", "late")
    store.land()
    assert lake.tree()["a"] == "late"
    lake.commit()
    store.land()
    assert lake.tree("main@")["a"] == "late"


def test_a_late_duplicate_of_a_branch_creation_does_not_bring_a_deleted_branch_back() -> None:
    lake = _ground()
    broken, store = _faulty(lake, 2, Fault.LATE)
    try:
        broken.branch("new", lake.head())
    except GravelerError:
        lake.branch("new")
    names.delete_branch(lake.opened, "new")
    store.land()
    with pytest.raises(NotFound):
        lake.head("new")


def test_a_committer_that_dies_after_its_seal_fifty_times_is_made_good_by_the_next() -> None:
    lake = new_lake()
    for attempt in range(50):
        lake.put(f"p/{attempt:02}", "1")
        broken, _ = _faulty(lake, 5 if attempt else 6, Fault.REFUSED)  # just after the seal
        with pytest.raises(Unavailable):
            broken.commit("never")
    assert len(lake.record().sealed) >= 50
    wanted = {f"p/{attempt:02}": "1" for attempt in range(50)}
    assert lake.tree() == wanted
    lake.commit("all of it")
    assert lake.tree("main@") == wanted
    assert lake.record().sealed == ()
