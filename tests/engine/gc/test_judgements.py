"""A read of roots, or a run that condemns, judges all commits once, however many pages it has."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from graveler.core.errors import Conflict, Corrupt, Gone, Invalid
from graveler.core.ids import CommitId, MetarangeId
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine import names
from graveler.engine.commits.heads import commit_of
from graveler.engine.gc import cluster, collect, retention, root_pages
from graveler.engine.gc.cluster import CondemnationPage, DeletionOrder
from graveler.engine.gc.root_pages import Root, RootPage
from graveler.engine.ports import open_repository
from graveler.engine.repositories import verify
from graveler.refs import garbage as condemned
from graveler.refs.garbage import Retention
from tests.engine.storage import DAY, Storage

TURN = "T1"
ORDER = DeletionOrder("R1", 3, 300, TURN)
JUDGED = "mem://bucket/lake/_graveler/gc/cluster/judged/"


class Cost(NamedTuple):
    """Requests to the key-value store and to the object store."""

    kv: dict[str, int]
    blocks: dict[str, int]


class Counted:
    """A storage whose requests are counted."""

    def __init__(self, storage: Storage) -> None:
        self._kv, self._blocks = Counts(), Counts()
        self.ports = replace(
            storage.ports,
            kv=counted_store(storage.ports.kv, self._kv),
            blocks=counted_blocks(storage.ports.blocks, self._blocks),
        )

    def of(self, verb: Callable[[], object]) -> Cost:
        before = self._kv.snapshot(), self._blocks.snapshot()
        verb()
        return Cost(self._kv.since(before[0]), self._blocks.since(before[1]))


def old_commits(storage: Storage, number: int) -> list[CommitId]:
    """So many whose content retention lets go; behind them one that it keeps."""
    retention.set_rule(storage.opened, Retention(default_days=7))
    made = [CommitId(storage.commit(a=f"old {at}")) for at in range(number)]
    storage.commit(a="new")
    storage.wait(8 * DAY)
    return made


def metarange(storage: Storage, commit: str) -> MetarangeId:
    return commit_of(storage.opened, CommitId(commit)).metarange


def content_place(storage: Storage, amount: int) -> str:
    """Where the first page of content begins."""
    after = ""
    while True:
        page = root_pages.page(storage.opened, after, amount)
        if any(root.kind == "metarange" for root in page.roots):
            return after
        after = page.following


def rest(storage: Storage, after: str, amount: int) -> list[Root]:
    """All that is told from a place on."""
    found: list[Root] = []
    while after:
        page = root_pages.page(storage.opened, after, amount)
        assert len(page.roots) <= amount
        found, after = found + page.roots, page.following
    return found


def snapshots(storage: Storage) -> list[str]:
    return [line.address for line in storage.blocks.list(JUDGED, "", 100).lines]


# ---- roots ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [12, 40])
def test_later_pages_of_roots_cost_one_read_however_many_commits_there_are(
    storage: Storage, number: int
) -> None:
    old_commits(storage, number)
    place, counted = content_place(storage, 5), Counted(storage)
    pages: list[RootPage] = []

    def read(after: str) -> Cost:
        return counted.of(
            lambda: pages.append(
                root_pages.page(open_repository(counted.ports, storage.repo), after, 5)
            )
        )

    first = read(place)
    assert first.kv["scan"] > 5 and first.blocks == {"put": 1}
    while pages[-1].following:
        assert read(pages[-1].following) == ({}, {"read": 1})
    told = [root for page in pages for root in page.roots]
    assert [len(page.roots) for page in pages[:-1]] == [5] * (len(pages) - 1)
    assert told == rest(storage, place, 1_000) and len(told) == number + 1
    assert [root.objects for root in told].count("kept") == 1


def test_what_fits_into_a_page_is_not_stored(storage: Storage) -> None:
    old_commits(storage, 4)
    assert len(rest(storage, content_place(storage, 5), 5)) == 5
    assert snapshots(storage) == []
    assert len(rest(storage, content_place(storage, 4), 4)) == 5
    (only,) = snapshots(storage)
    rest(storage, content_place(storage, 3), 3)  # the same content, the same file
    assert snapshots(storage) == [only]


def test_each_read_from_the_beginning_judges_anew(storage: Storage) -> None:
    (old, *_) = old_commits(storage, 4)
    before, place = metarange(storage, old), content_place(storage, 2)
    first = root_pages.page(storage.opened, place, 2)
    cluster.begin_turn(storage.opened, TURN)
    cluster.condemn_page(storage.opened, ORDER, "", 100)
    storage.wait(DAY)
    cluster.begin_turn(storage.opened, "T2")
    cluster.sweep(storage.opened, "R1", 0, "T2")
    late = metarange(storage, storage.commit(a="late"))
    known = [*first.roots, *rest(storage, first.following, 2)]
    assert {root.name: root.objects for root in known}[before] == "expiring"
    assert late not in [root.name for root in known]
    fresh = {root.name: root.objects for root in rest(storage, content_place(storage, 2), 2)}
    assert (fresh[before], fresh[late]) == ("gone", "kept")


def test_an_entry_that_is_committed_between_two_pages_is_told(storage: Storage) -> None:
    """By its token, which was read before, and by its commit, which is judged after."""
    old_commits(storage, 4)
    storage.put(b="moves")
    entry = next(
        line.address.removeprefix("mem://bucket/lake/")
        for line in storage.blocks.list("mem://bucket/lake/data/", "", 100).lines
        if storage.blocks.read(line.address, 0, 5) == b"moves"
    )
    told: list[Root] = []
    after, pages = "", 0
    while pages == 0 or after:
        page = root_pages.page(storage.opened, after, 1)
        told, after, pages = told + page.roots, page.following, pages + 1
        if pages == 1:
            made = metarange(storage, storage.commit())
    assert Root("address", entry) in told and Root("metarange", made) in told


def test_a_snapshot_is_no_garbage_and_no_damage(storage: Storage) -> None:
    old_commits(storage, 4)
    first = root_pages.page(storage.opened, content_place(storage, 2), 2)
    stored = snapshots(storage)
    storage.wait(2 * DAY)
    storage.collected()
    assert snapshots(storage) == stored
    assert list(verify.verify(storage.ports, objects=True)) == []
    assert len(rest(storage, first.following, 2)) == 3


def test_a_snapshot_that_is_gone_or_damaged_ends_the_read(storage: Storage) -> None:
    old_commits(storage, 4)
    first = root_pages.page(storage.opened, content_place(storage, 2), 2)
    (place,) = snapshots(storage)
    whole = b"".join(storage.blocks.get(place).chunks)
    records = whole.splitlines(keepends=True)
    shuffled = b"".join([*records[:2], *reversed(records[2:])])
    for damaged in (whole[:-1], b"".join(records[:2]), shuffled, b""):
        storage.blocks.put(place, [damaged])
        with pytest.raises(Corrupt, match="damaged"):
            root_pages.page(storage.opened, first.following, 5)
    storage.blocks.delete(place)
    with pytest.raises(Gone, match="begin again"):
        root_pages.page(storage.opened, first.following, 5)


@pytest.mark.parametrize(
    "spot", ["x", "../../../_lakefs/x-1-2", "0" * 64, "0" * 64 + "-2-2", "0" * 64 + "-1-x"]
)
def test_a_place_in_no_snapshot_is_refused(storage: Storage, spot: str) -> None:
    old_commits(storage, 3)
    first = root_pages.page(storage.opened, content_place(storage, 2), 2)
    raw = urlsafe_b64decode(first.following).decode()
    name = raw.split('"')[3]
    wrong = urlsafe_b64encode(raw.replace(name, spot).encode()).decode()
    with pytest.raises(Invalid, match="previous page"):
        root_pages.page(storage.opened, wrong, 2)
    with pytest.raises(Invalid, match="previous page"):
        cluster.condemn_page(storage.opened, ORDER, spot, 2)


# ---- condemning ----------------------------------------------------------------------------------


def condemn(storage: Storage, after: str = "", amount: int = 1_000) -> CondemnationPage:
    cluster.begin_turn(storage.opened, TURN)
    return cluster.condemn_page(storage.opened, ORDER, after, amount)


def marks(storage: Storage) -> dict[str, str]:
    return {id: mark.run for id, mark in condemned.list_marks(storage.ports.kv, storage.repo)}


@pytest.mark.parametrize("amount", [1, 5, 1_000])
def test_pages_of_any_size_condemn_all_that_retention_lets_go(
    storage: Storage, amount: int
) -> None:
    old = old_commits(storage, 6)
    contents = {metarange(storage, each) for each in old}
    page = condemn(storage, "", amount)
    told = set(page.metaranges)
    while page.following:
        page = condemn(storage, page.following, amount)
        told |= set(page.metaranges)
    assert told == contents
    assert marks(storage) == dict.fromkeys({*old, *contents}, "R1")
    assert condemn(storage, "", amount) == CondemnationPage([], 0)  # all stand


@pytest.mark.parametrize("number", [6, 20])
def test_later_pages_that_condemn_judge_nothing(storage: Storage, number: int) -> None:
    old_commits(storage, number)
    cluster.begin_turn(storage.opened, TURN)
    counted = Counted(storage)
    pages: list[CondemnationPage] = []

    def ask(after: str) -> Cost:
        return counted.of(
            lambda: pages.append(
                cluster.condemn_page(open_repository(counted.ports, storage.repo), ORDER, after, 4)
            )
        )

    first = ask("")
    # Of two commits: what is judged, the run, and four marks.
    assert first == (
        {"get": 4, "scan": 11, "set_if": 2, "set_many": 1},
        {"check_versions": 1, "put": 1, "head": 2},
    )
    while pages[-1].following:
        # The turn, the repository, the run; runs, branches, tags, snapshots; the marks.
        assert ask(pages[-1].following) == (
            {"get": 3, "scan": 4, "set_many": 1},
            {"check_versions": 1, "read": 1, "head": 2},
        )
    assert len(pages) == number // 2


def test_what_became_a_head_meanwhile_is_not_condemned(storage: Storage) -> None:
    old = old_commits(storage, 4)
    page = condemn(storage, "", 2)
    (condemned_first,) = page.metaranges
    left = [each for each in old if metarange(storage, each) != condemned_first]
    names.create_branch(storage.opened, "late", left[0])
    page = condemn(storage, page.following)
    assert set(page.metaranges) == {metarange(storage, each) for each in left[1:]}
    assert left[0] not in marks(storage)
    assert metarange(storage, left[0]) not in marks(storage)


def test_what_is_kept_again_meanwhile_loses_nothing(storage: Storage) -> None:
    """It is refused until the next run, which unmarks it."""
    old = old_commits(storage, 4)
    page = condemn(storage, "", 2)
    retention.set_rule(storage.opened, Retention(default_days=0))
    condemn(storage, page.following)
    assert set(old) <= marks(storage).keys()
    assert {root.objects for root in rest(storage, content_place(storage, 9), 9)} == {"kept"}
    storage.wait(DAY)
    cluster.begin_turn(storage.opened, "T2")
    cluster.sweep(storage.opened, "R1", 0, "T2")
    assert {root.objects for root in rest(storage, content_place(storage, 9), 9)} == {"kept"}
    order = DeletionOrder("R2", 0, 0, "T2")
    assert cluster.condemn_page(storage.opened, order, "", 9).metaranges == []
    assert marks(storage) == {}
    names.create_branch(storage.opened, "late", old[0])


def test_what_was_written_meanwhile_is_not_condemned(storage: Storage) -> None:
    """A commit of it may be on its way."""
    old = old_commits(storage, 4)
    page = condemn(storage, "", 2)
    (condemned_first,) = page.metaranges
    left = sorted({metarange(storage, each) for each in old} - {condemned_first})
    place = f"mem://bucket/lake/_lakefs/{left[0]}"
    storage.blocks.put(place, [b"".join(storage.blocks.get(place).chunks)])
    assert condemn(storage, page.following).metaranges == left[1:]


def test_a_run_that_is_taken_back_between_two_pages_marks_no_more(storage: Storage) -> None:
    old_commits(storage, 4)
    page = condemn(storage, "", 2)
    collect.undo(storage.opened, "R1")
    with pytest.raises(Conflict, match="begin another"):
        condemn(storage, page.following)
    assert marks(storage) == {}


def test_pages_are_of_the_run_that_judged(storage: Storage) -> None:
    old_commits(storage, 4)
    page = condemn(storage, "", 2)
    other = ORDER._replace(run="R2")
    before = marks(storage)
    with pytest.raises(Conflict, match="without after"):
        cluster.condemn_page(storage.opened, other, page.following, 2)
    assert marks(storage) == before


def test_a_judgement_that_is_gone_ends_the_run(storage: Storage) -> None:
    old_commits(storage, 4)
    page = condemn(storage, "", 2)
    storage.blocks.delete(snapshots(storage)[0])
    with pytest.raises(Gone, match="begin again"):
        condemn(storage, page.following)
    assert len(condemn(storage).metaranges) == 3
