"""A collection that runs elsewhere condemns commits, and is undone, as one that runs here."""

from dataclasses import replace

import pytest

from graveler.committed import writer
from graveler.core import limits
from graveler.core.errors import Conflict, Gone, Invalid, NotFound, Unsupported
from graveler.core.ids import NO_METARANGE, CommitId, MetarangeId
from graveler.core.records import Entry
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.core.wire import encode_entry
from graveler.engine import dump, names
from graveler.engine.bulk import job
from graveler.engine.commits import commit
from graveler.engine.gc import cluster, collect, retention, root_pages
from graveler.engine.gc.cluster import CondemnationPage, DeletionOrder
from graveler.engine.gc.root_pages import Root
from graveler.engine.ports import keyspace, open_repository
from graveler.refs import commits, garbage
from graveler.refs import garbage as condemned
from graveler.refs.garbage import Retention, RunState
from tests.engine.storage import DAY, HOUR, Storage
from tests.support.interposer import InterposedStore, Script

TURN = "T1"


def metarange(storage: Storage, commit: str) -> MetarangeId:
    return job.commit_of(storage.opened, CommitId(commit)).metarange


def content_roots(storage: Storage) -> list[Root]:
    """Of the pages that a cluster reads, those that are metaranges."""
    found = root_pages.page(storage.opened, "", 1_000)
    roots = list(found.roots)
    while found.following:
        found = root_pages.page(storage.opened, found.following, 1_000)
        roots += found.roots
    return [each for each in roots if each.kind == "metarange"]


def expiring(storage: Storage) -> list[MetarangeId]:
    """What a cluster asks to be condemned."""
    return [MetarangeId(each.name) for each in content_roots(storage) if not each.kept]


def root(storage: Storage, metarange: MetarangeId) -> Root:
    [only] = [each for each in content_roots(storage) if each.name == metarange]
    return only


def have_turn(storage: Storage) -> None:
    cluster.begin_turn(storage.opened, TURN)


def sweep(storage: Storage, run: str, undone: int) -> None:
    have_turn(storage)
    cluster.sweep(storage.opened, run, undone, TURN)


def condemn(storage: Storage, run: str = "R1", *metaranges: MetarangeId) -> CondemnationPage:
    asked = metaranges or expiring(storage)
    have_turn(storage)
    return cluster.condemn(storage.opened, DeletionOrder(run, 3, 300, TURN), asked)


def first_page(storage: Storage, run: str) -> CondemnationPage:
    have_turn(storage)
    return cluster.condemn_page(storage.opened, DeletionOrder(run, 3, 300, TURN), "", 1_000)


def marks(storage: Storage) -> dict[str, str]:
    found = condemned.list_marks(storage.ports.kv, storage.repo)
    return {id: mark.run for id, mark in found}


def state(storage: Storage, run: str = "R1") -> RunState:
    return garbage.get_run(storage.ports.kv, storage.repo, run).run.state


def test_an_expired_commit_is_refused_at_once_and_no_root_a_day_later(
    aged: tuple[Storage, CommitId],
) -> None:
    storage, old = aged
    content = metarange(storage, old)
    assert expiring(storage) == [content]
    assert condemn(storage) == CondemnationPage([content], 0)
    assert marks(storage) == {old: "R1", content: "R1"}
    with pytest.raises(Gone):
        names.create_branch(storage.opened, "late", old)
    assert expiring(storage) == [content]
    assert root(storage, content) == Root("metarange", content, False, True, "expiring")
    storage.wait(DAY)
    assert root(storage, content) == Root("metarange", content, False, True, "due")
    sweep(storage, "R1", 0)
    assert root(storage, content) == Root("metarange", content, False, True, "gone")
    sweep(storage, "R1", 0)  # an answer may be lost
    (run,) = collect.list_runs(storage.opened)
    assert (run.state, run.count, run.size) == (RunState.SWEEPING, 3, 300)


def test_a_second_run_condemns_only_what_is_new(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    content = metarange(storage, old)
    condemn(storage)
    before = marks(storage)
    storage.clock.sleep(HOUR)
    assert condemn(storage) == condemn(storage, "R2") == CondemnationPage([content], 0)
    assert marks(storage) == before
    # Nor does the collection that runs here, whose run has a list of files all the same.
    assert storage.collect().run != "" and before.items() <= marks(storage).items()


def test_what_nobody_condemned_is_condemned_anew(aged: tuple[Storage, CommitId]) -> None:
    """Marks of a run that was undone at the wrong moment, or of none that is known."""
    storage, old = aged
    mark = condemned.Mark("lost", storage.clock.now_ns())
    condemned.put_mark(storage.ports.kv, storage.repo, [old], mark, storage.ports.ids)
    condemn(storage)
    assert marks(storage) == {old: "R1", metarange(storage, old): "R1"}


def test_what_is_kept_or_shared_or_unknown_is_not_condemned(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    first = storage.commit(a="1")
    again = commit.CommitRequest("says the same", "tester", allow_empty=True)
    commit.commit(storage.opened, "main", again)
    shared = metarange(storage, first)
    asked = (shared, NO_METARANGE, MetarangeId("0" * 64))
    storage.wait(2 * DAY)
    assert condemn(storage, "R1", *asked) == CondemnationPage([], 0) and marks(storage) == {}
    head = metarange(storage, storage.commit(a="2"))
    assert condemn(storage, "R1", *asked, head) == CondemnationPage([], 0)
    storage.wait(2 * DAY)
    assert condemn(storage, "R1", *asked, head) == CondemnationPage([shared], 0)
    assert len(marks(storage)) == 3


def test_a_metarange_that_was_written_lately_is_not_condemned(
    aged: tuple[Storage, CommitId],
) -> None:
    """A commit of it may be on its way, whatever the dates of others."""
    storage, old = aged
    content = metarange(storage, old)
    place = f"mem://bucket/lake/_lakefs/{content}"
    storage.blocks.put(place, [b"".join(storage.blocks.get(place).chunks)])
    assert condemn(storage, "R1", content) == CondemnationPage([], 0)
    storage.wait(DAY + 1)
    assert condemn(storage, "R1", content) == CondemnationPage([content], 0)


def orphaned(storage: Storage) -> tuple[MetarangeId, str]:
    """A metarange that no commit has, and its address."""
    rows = [(b"a", encode_entry(Entry("data/a", 1, "etag", 1)))]
    id = writer.write(keyspace(storage.opened), rows)
    return id, f"mem://bucket/lake/_lakefs/{id}"


def test_a_metarange_that_no_commit_has_is_refused_once_it_is_condemned(storage: Storage) -> None:
    """Otherwise a client may commit it while the cluster deletes its files."""
    storage.commit(a="1")
    orphan, place = orphaned(storage)
    given = commit.CommitRequest("given", "me", source_metarange=orphan)
    assert condemn(storage, "R1", orphan) == CondemnationPage([], 0)  # too young
    storage.wait(DAY + 1)
    assert condemn(storage, "R2", orphan) == CondemnationPage([orphan], 0)
    assert marks(storage) == {orphan: "R2"}
    with pytest.raises(Gone):
        commit.commit(storage.opened, "main", given)
    # Written again, it names objects that nothing keeps.
    storage.blocks.put(place, [b"".join(storage.blocks.get(place).chunks)])
    assert first_page(storage, "R3") == CondemnationPage([], 0)
    assert marks(storage) == {orphan: "R2"}


def test_the_mark_of_a_metarange_that_no_commit_has_goes_with_its_file(storage: Storage) -> None:
    orphan, place = orphaned(storage)
    storage.wait(DAY + 1)
    condemn(storage, "R1", orphan)
    assert first_page(storage, "R2") == CondemnationPage([], 0) and len(marks(storage)) == 1
    storage.blocks.delete(place)
    assert first_page(storage, "R3") == CondemnationPage([], 0) and marks(storage) == {}


def test_a_metarange_that_was_committed_beside_its_condemnation_is_kept(storage: Storage) -> None:
    orphan, _ = orphaned(storage)
    storage.wait(DAY + 1)
    unaware = replace(storage.repo, collected=False)  # somebody who looked before
    condemn(storage, "R1", orphan)
    given = commit.CommitRequest("given", "me", source_metarange=orphan)
    commit.commit(open_repository(storage.ports, unaware), "main", given)
    assert root(storage, orphan).kept
    assert condemn(storage, "R2", orphan) == CondemnationPage([], 0) and marks(storage) == {}


def test_the_tables_of_a_dump_are_not_condemned(storage: Storage) -> None:
    storage.commit(a="1")
    dumped = dump.dump(storage.opened)
    tables = [dumped.commits, dumped.branches, dumped.tags]
    storage.wait(DAY + 1)
    assert condemn(storage, "R1", *map(MetarangeId, tables)) == CondemnationPage([], 0)


def test_what_is_gone_is_not_condemned(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    content = metarange(storage, old)
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{content}")
    assert condemn(storage, "R1", content) == CondemnationPage([], 0)


def test_the_base_of_a_job_that_runs_is_not_condemned(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    names.create_branch(storage.opened, "side", old)
    job.begin(storage.opened, "side", job.NewBulk(job.Mode.MERGE))
    names.delete_branch(storage.opened, "side")
    assert condemn(storage, "R1", metarange(storage, old)) == CondemnationPage([], 0)


def test_what_is_kept_again_is_no_longer_refused(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    condemn(storage)
    # An empty commit, of which no file ever was there, is marked too.
    retention.set_rule(storage.opened, Retention(default_days=0))
    history = commits.list_all(storage.ports.kv, storage.repo)
    (empty,) = (each.id for each in history if each.commit.metarange == NO_METARANGE)
    mark = condemned.Mark("R1", storage.clock.now_ns())
    condemned.put_mark(storage.ports.kv, storage.repo, [empty], mark, storage.ports.ids)
    assert len(marks(storage)) == 3
    assert condemn(storage, "R2", metarange(storage, old)) == CondemnationPage([], 0)
    assert marks(storage) == {}
    names.create_branch(storage.opened, "late", old)


def test_what_is_gone_stays_refused(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    condemn(storage)
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{metarange(storage, old)}")
    before = marks(storage)
    retention.set_rule(storage.opened, Retention(default_days=0))
    condemn(storage, "R2")
    assert marks(storage) == before


# ---- taking back ---------------------------------------------------------------------------------


def test_a_run_is_taken_back_until_it_is_swept(aged: tuple[Storage, CommitId]) -> None:
    storage, old = aged
    condemn(storage)
    collect.undo(storage.opened, "R1")
    assert marks(storage) == {} and state(storage) is RunState.UNDONE
    names.create_branch(storage.opened, "late", old)
    names.delete_branch(storage.opened, "late")
    with pytest.raises(Conflict, match="begin another"):
        condemn(storage)
    with pytest.raises(Conflict, match="undone"):
        sweep(storage, "R1", 0)
    assert marks(storage) == {}
    assert condemn(storage, "R2").undone == 1
    sweep(storage, "R2", 1)
    with pytest.raises(Conflict, match="cannot be undone"):
        collect.undo(storage.opened, "R2")


def test_no_run_counts_from_before_another_was_taken_back(
    aged: tuple[Storage, CommitId],
) -> None:
    """Its list may name the same files."""
    storage, _ = aged
    condemn(storage, "R1")
    condemn(storage, "R2")
    collect.undo(storage.opened, "R1")
    with pytest.raises(Conflict, match="undone"):
        sweep(storage, "R2", 0)
    assert state(storage, "R2") is RunState.CONDEMNED


def test_a_run_that_is_taken_back_while_it_condemns_leaves_no_marks(
    aged: tuple[Storage, CommitId],
) -> None:
    storage, _ = aged
    asked = expiring(storage)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    script.before("set_many", lambda: collect.undo(storage.opened, "R1"))
    with pytest.raises(Conflict, match="begin another"):
        condemn(replace(storage, ports=ports), "R1", *asked)
    assert script.finished and marks(storage) == {}


@pytest.mark.parametrize("verb", ["scan", "get", "set_if"])
def test_a_run_that_is_taken_back_while_it_is_about_to_be_swept_is_not(
    aged: tuple[Storage, CommitId], verb: str
) -> None:
    storage, _ = aged
    condemn(storage)
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    script.before(verb, lambda: collect.undo(storage.opened, "R1"))
    with pytest.raises(Conflict, match="undone"):
        cluster.sweep(open_repository(ports, storage.repo), "R1", 0, TURN)
    assert script.finished and state(storage) is RunState.UNDONE


def test_the_collection_that_runs_here_lets_such_a_run_go_on(
    aged: tuple[Storage, CommitId],
) -> None:
    """It has no list of its own, so its end changes nothing for the cluster."""
    storage, old = aged
    condemn(storage)
    stored = storage.stored()
    storage.wait(DAY)
    assert storage.collect().deleted == () and storage.stored() == stored
    assert state(storage) is RunState.SWEPT
    sweep(storage, "R1", 0)
    with pytest.raises(Gone):
        names.create_branch(storage.opened, "late", old)


def test_what_makes_no_sense_is_refused(storage: Storage) -> None:
    repo = storage.opened
    for run in ("", "a/b", "x" * 65, "é"):
        with pytest.raises(Invalid, match="letters and digits"):
            cluster.condemn(repo, DeletionOrder(run, 0, 0, TURN), [])
    many = [MetarangeId("0" * 64)] * (limits.collect_condemn_count_max + 1)
    with pytest.raises(Invalid, match="too many"):
        cluster.condemn(repo, DeletionOrder("R", 0, 0, TURN), many)
    have_turn(storage)
    with pytest.raises(NotFound, match="run of garbage collection not found"):
        cluster.sweep(repo, "R", 0, TURN)
    assert list(garbage.list_runs(repo.kv, repo.record)) == []


def test_requests(aged: tuple[Storage, CommitId]) -> None:
    storage, _ = aged
    asked = expiring(storage)
    kv, blocks = Counts(), Counts()
    ports = replace(
        storage.ports,
        kv=counted_store(storage.ports.kv, kv),
        blocks=counted_blocks(storage.ports.blocks, blocks),
    )
    repo, order = storage.repo, DeletionOrder("R1", 0, 0, TURN)
    have_turn(storage)
    marked = {"get": 4, "scan": 11, "set_if": 2, "set_many": 1}
    for expected in (marked, {"get": 3, "scan": 11}):
        before = kv.snapshot(), blocks.snapshot()
        cluster.condemn(open_repository(ports, repo), order, asked)
        assert (kv.since(before[0]), blocks.since(before[1])) == (
            expected,
            {"check_versions": 1, "head": 1},
        )
    storage.wait(DAY)
    have_turn(storage)
    told = {"get": 3, "scan": 12, "set_if": 1, "set_many": 1}
    for expected, stored in ((told, {"put": 1}), ({"get": 3, "scan": 12}, {})):
        before = kv.snapshot(), blocks.snapshot()
        cluster.sweep(open_repository(ports, repo), "R1", 0, TURN)
        assert (kv.since(before[0]), blocks.since(before[1])) == (expected, stored)


def test_nothing_is_condemned_where_no_versions_are_kept(aged: tuple[Storage, str]) -> None:
    storage, _ = aged
    have_turn(storage)
    storage.blocks.keeps_versions = False
    with pytest.raises(Unsupported):
        condemn(storage, "R")
    assert collect.list_runs(storage.opened) == []
    assert not list(condemned.list_marks(storage.ports.kv, storage.repo))
