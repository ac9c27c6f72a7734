"""Garbage collection: what goes, what stays, what can be taken back, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from graveler.block import address
from graveler.core.errors import Conflict, Corrupt, Gone, Invalid, NotFound, Refused, Unsupported
from graveler.core.ids import RepositoryId, RepositoryUid
from graveler.core.records import ABSENT, AddressType, CommitEntry, Entry
from graveler.engine import imports, names
from graveler.engine.commits import commit, diff, log, merge, reset
from graveler.engine.gc import collect, retention
from graveler.engine.gc.collect import CollectSettings
from graveler.engine.objects import addresses, write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository, verify
from graveler.refs import repositories
from graveler.refs.garbage import Retention, RunState
from tests.engine.storage import DAY, HOUR, Storage, kinds


@pytest.fixture
def lost(storage: Storage) -> tuple[Storage, str]:
    """A commit that no branch has led to for longer than it is kept, and its id."""
    storage.commit(a="kept")
    names.create_branch(storage.opened, "side", "main")
    made = storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    storage.collect()
    storage.wait(8 * DAY)
    return storage, made


# ---- what goes, and what stays -------------------------------------------------------------------


def test_without_a_rule_nothing_that_a_branch_leads_to_goes(storage: Storage) -> None:
    old = storage.commit(a="old")
    storage.commit(a="new")
    storage.wait(400 * DAY)
    assert storage.collected() == 0
    assert storage.read(old, "a") == b"old"


def test_an_expired_commit_loses_what_is_its_own(aged: tuple[Storage, str]) -> None:
    storage, old = aged
    dry = storage.collect(delete=False)
    before = storage.stored()
    assert kinds(dry) == {("object", "expired"): 1}
    assert dry.deleted == () and storage.collect(delete=False) == dry
    assert storage.collected() == len(dry.condemned)
    assert before - storage.stored() == {each.address for each in dry.condemned}
    fresh = storage.restarted()
    assert (fresh.read("main", "a"), fresh.read("main", "b")) == (b"new", b"same")
    with pytest.raises(Gone):
        fresh.read(old, "a")
    assert not list(verify.verify(fresh.ports, objects=True))
    assert [entry.id for entry in _log(fresh)][1] == old  # the record stays


def _log(storage: Storage) -> tuple[CommitEntry, ...]:
    return log.log(storage.opened, "main", log.LogRequest())[0]


def test_bytes_that_were_never_committed_go_once_nothing_stages_them(storage: Storage) -> None:
    storage.put(a="first")
    storage.put(a="second")
    write.delete(storage.opened, "main", "a")
    storage.wait(2 * DAY)
    assert storage.collected() == 2
    storage.put(b="kept", c="dropped")
    reset.reset_path(storage.opened, "main", "c")
    storage.wait(2 * DAY)
    assert storage.collected() == 0  # the row is hidden only: its token is still open
    storage.commit()
    storage.wait(2 * DAY)
    assert storage.collected() == 1
    assert storage.read("main", "b") == b"kept"


def test_a_deleted_branch_is_kept_for_some_days_and_tags_for_ever(storage: Storage) -> None:
    storage.commit(a="main")
    names.create_branch(storage.opened, "side", "main")
    storage.commit("side", b="tagged")
    names.create_tag(storage.opened, "v1", "side")
    storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    storage.wait(400 * DAY)  # however old it is: what no run has seen can be saved
    assert storage.collected() == 0
    storage.wait(4 * DAY)
    assert storage.collected() == 0
    storage.wait(DAY)
    assert storage.collected() == 3
    assert storage.restarted().read("v1", "b") == b"tagged"


def _with_branch(storage: Storage, commit: str) -> None:
    names.create_branch(storage.opened, "again", commit)
    names.delete_branch(storage.opened, "again")


def _with_tag(storage: Storage, commit: str) -> None:
    names.create_tag(storage.opened, "again", commit)
    names.delete_tag(storage.opened, "again")


def _with_reset(storage: Storage, commit: str) -> None:
    before = names.get_branch(storage.opened, "main").branch.commit
    reset.hard_reset(storage.opened, "main", commit)
    reset.hard_reset(storage.opened, "main", before)


@pytest.mark.parametrize("with_ref", [_with_branch, _with_tag, _with_reset])
def test_a_ref_that_no_run_saw_gives_all_its_days_to_what_it_led_to(
    storage: Storage, with_ref: Callable[[Storage, str], None]
) -> None:
    """The commit's parent too, though a run found both lost long before."""
    storage.commit(a="main")
    names.create_branch(storage.opened, "side", "main")
    parent = storage.commit("side", b="parent")
    lost = storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    assert storage.collected() == 0
    storage.wait(5 * DAY)
    with_ref(storage, lost)
    storage.wait(DAY)
    assert storage.collected() == 0
    storage.wait(5 * DAY)
    assert storage.collected() == 0
    fresh = storage.restarted()
    assert (fresh.read(lost, "b"), fresh.read(parent, "b")) == (b"lost", b"parent")
    storage.wait(DAY)
    assert storage.collected() == 6


def test_an_old_branch_can_be_merged_after_its_base_has_expired(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    base = storage.commit(a="base", b="base", c="base")
    names.create_branch(storage.opened, "side", "main")
    storage.commit(a="main", c="main")
    storage.commit("side", b="side", c="side")
    for number in range(3):
        storage.commit(a=f"main {number}")
        storage.wait(2 * DAY)
        storage.collected()
    fresh = storage.restarted()
    repo = fresh.opened
    with pytest.raises(Gone, match="not in the object store"):
        fresh.read(base, "c")
    lines = diff.diff_refs(repo, "main", "side", diff.DiffQuery()).lines
    assert [(line.kind, line.path) for line in lines] == [("changed", "b"), ("conflict", "c")]
    request = merge.MergeRequest("tester", strategy="source-wins")
    merge.merge(repo, "side", "main", request)
    assert [fresh.read("main", path) for path in "abc"] == [b"main 2", b"side", b"side"]
    page = log.LogRequest(objects=("c",))
    found = log.log(repo, "main", page)[0]
    assert [entry.id for entry in found][-1] == base
    assert not list(verify.verify(repo, objects=True))


def test_what_is_kept_can_be_picked_though_its_parent_has_expired(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.commit(a="old")
    names.create_branch(storage.opened, "side", "main")
    kept = storage.commit("side", b="kept")
    storage.commit(a="new")
    storage.wait(2 * DAY)
    storage.collected()
    request = merge.ReplayRequest("tester")
    merge.cherry_pick(storage.opened, "main", kept, request)
    assert storage.restarted().read("main", "b") == b"kept"


def test_a_commit_is_kept_from_when_a_run_first_found_it_lost(storage: Storage) -> None:
    first = storage.commit(a="first")
    old = storage.commit(a="old")
    storage.wait(30 * DAY)
    reset.hard_reset(storage.opened, "main", first)
    for _ in range(3):  # the mark says when, and is not put again
        assert storage.collected() == 0
        storage.wait(DAY)
    reset.hard_reset(storage.opened, "main", old)
    storage.collect(delete=False)
    storage.collect()  # finds it again
    reset.hard_reset(storage.opened, "main", first)
    storage.collect(delete=False)  # changes nothing: a dry run notes nothing
    storage.wait(3 * DAY)
    assert storage.collected() == 0
    storage.wait(4 * DAY)
    assert storage.collected() == 0
    storage.wait(2 * DAY)
    assert storage.collected() == 3


def test_an_expired_commit_that_is_lost_as_well_loses_its_ranges_too(
    storage: Storage,
) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    names.create_branch(storage.opened, "side", "main")
    old = storage.commit("side", a="old", b="same")
    storage.commit("side", a="new")
    storage.wait(2 * DAY)
    assert storage.collected() == 1
    names.delete_branch(storage.opened, "side")
    storage.wait(2 * DAY)
    assert storage.collected() == 0
    storage.wait(8 * DAY)
    assert storage.collected() > 4
    assert storage.stored() == {"_lakefs/dummy"}
    with pytest.raises(Gone):
        names.create_branch(storage.opened, "new", old)


def test_a_log_by_path_ends_where_content_is_gone(storage: Storage) -> None:
    """As of a repository that an older version has collected."""
    ids = [storage.commit(a=f"{number}") for number in range(4)]
    gone = _log(storage)[2].commit.metarange
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{gone}")
    fresh = storage.restarted()
    for request in (
        log.LogRequest(objects=("a",)),
        log.LogRequest(prefixes=("a",)),
    ):
        found, following = log.log(fresh.opened, "main", request)
        assert ([entry.id for entry in found], following) == ([ids[3]], "")


def test_young_files_stay_whoever_needs_them(storage: Storage) -> None:
    address_ = address.new_data_address(storage.clock.now_ns(), storage.ports.ids, b"x")
    storage.blocks.put(f"mem://bucket/lake/{address_}", [b"on its way"])
    storage.clock.sleep(23 * HOUR)
    assert storage.collect().condemned == ()
    storage.clock.sleep(2 * HOUR)
    assert [each.address for each in storage.collect().condemned] == [address_]


def test_only_names_of_our_own_shapes_go(storage: Storage) -> None:
    foreign = ("data/readme", "_lakefs/UPPER", "data/x/y", "tables/part-0")
    for name in foreign:
        storage.blocks.put(f"mem://bucket/lake/{name}", [b"not ours"])
    storage.wait(9 * DAY)
    assert storage.collected() == 0


def test_what_lies_outside_stays_and_what_lies_inside_is_known_by_any_spelling(
    storage: Storage,
) -> None:
    storage.blocks.put("mem://bucket/source/x.csv", [b"imported"])
    source = imports.ImportPath("common_prefix", "mem://bucket/source/", "in/")
    request = imports.ImportRequest([source], "import", "tester")
    job = imports.submit(storage.opened, "main", request, owner=b"me")
    imports.run(storage.opened, "main", request, job.id)
    spellings = ("mem://bucket/lake/{}", "MEM://bucket/lake/{}", "mem://bucket//lake//{}")
    for number, spelling in enumerate(spellings):
        made = _upload(storage, f"tmp{number}")
        for kind in (AddressType.FULL, AddressType.BY_PREFIX):
            there = made._replace(address=spelling.format(made.address), address_type=kind)
            write.stage(storage.opened, "main", f"{kind}{number}", there)
        write.delete(storage.opened, "main", f"tmp{number}")
    storage.commit(c="x")
    storage.wait(9 * DAY)
    assert storage.collected() == 0
    write.delete(storage.opened, "main", "in/x.csv")
    storage.commit()
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.wait(9 * DAY)
    storage.collected()
    assert b"".join(storage.blocks.get("mem://bucket/source/x.csv").chunks) == b"imported"


def _upload(storage: Storage, path: str) -> Entry:
    body = write.Upload([path.encode()])
    return write.upload(storage.opened, "main", path, body)


def test_an_upload_address_is_good_until_it_has_expired(storage: Storage) -> None:
    where = addresses.hand_out(storage.opened, "main", "a")
    storage.blocks.put(where, [b"bytes"])
    storage.clock.sleep(DAY - 60)
    storage.collect()
    addresses.link(storage.opened, "main", "a", addresses.Link(where, "sum", 5))
    unused = addresses.hand_out(storage.opened, "main", "b")
    storage.blocks.put(unused, [b"bytes"])
    storage.wait(3 * DAY)
    assert storage.collected() == 1
    assert storage.read("main", "a") == b"bytes"


def test_a_namespace_that_another_repository_reads_is_left_alone(storage: Storage) -> None:
    """Earlier versions let bare and read-only repositories share a namespace."""
    storage.commit(a="x")
    ports = storage.ports
    guest = replace(storage.repo, id=RepositoryId("guest"), uid=RepositoryUid("guest-uid"))
    assert repositories.put_new(ports.kv, guest, ports.ids.stamp(), ABSENT)
    for repo in (guest, storage.repo):
        with pytest.raises(Refused):
            collect.collect(open_repository(ports, repo))
    repository.delete(open_repository(ports, guest))
    collect.collect(open_repository(ports, storage.repo))


def test_a_namespace_that_was_never_claimed_is_left_alone(storage: Storage) -> None:
    storage.blocks.delete("mem://bucket/lake/_lakefs/dummy")
    with pytest.raises(Refused):
        storage.collect()


# ---- between condemning and deleting -------------------------------------------------------------


def test_a_condemned_commit_may_not_be_used(aged: tuple[Storage, str]) -> None:
    storage, old = aged
    metarange = _log(storage)[1].commit.metarange
    names.create_branch(storage.opened, "side", "main")
    storage.collect()
    repo = storage.opened
    given = commit.CommitRequest("given", "tester", source_metarange=metarange)
    for use in (
        lambda: names.create_branch(repo, "new", old),
        lambda: names.create_tag(repo, "v1", old),
        lambda: merge.merge(repo, old, "side", merge.MergeRequest("tester")),
        lambda: reset.hard_reset(repo, "side", "side~1"),
        lambda: merge.cherry_pick(repo, "side", old, merge.ReplayRequest("tester")),
        lambda: merge.revert(repo, "side", "main", merge.ReplayRequest("tester")),
        lambda: commit.commit(repo, "side", given),
    ):
        with pytest.raises(Gone):
            use()
    assert storage.read(old, "a") == b"old"  # it is not gone yet


def test_a_branch_that_came_in_between_saves_its_commit(aged: tuple[Storage, str]) -> None:
    storage, old = aged
    before = storage.repo  # somebody looked before anything was condemned
    storage.collect()
    names.create_branch(open_repository(storage.ports, before), "saved", old)
    storage.wait(DAY)
    assert storage.collect().deleted == ()
    assert storage.restarted().read("saved", "a") == b"old"
    names.create_branch(storage.opened, "more", "saved")  # not condemned any more


def test_a_file_that_was_written_again_stays(lost: tuple[Storage, str]) -> None:
    storage, _ = lost
    doomed = storage.collect().condemned
    name = next(each.address for each in doomed if each.kind == "range")
    where = f"mem://bucket/lake/{name}"
    storage.blocks.copy(where, where)
    storage.wait(DAY)
    storage.collect()
    assert name in storage.stored()


def test_a_run_can_be_undone_until_it_deletes(aged: tuple[Storage, str]) -> None:
    storage, old = aged
    run = storage.collect().run
    assert collect.undo(storage.opened, run).count == 1
    retention.set_rule(storage.opened, Retention(default_days=100))
    storage.wait(2 * DAY)
    assert storage.collected() == 0
    names.create_branch(storage.opened, "new", old)
    names.delete_branch(storage.opened, "new")
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.wait(9 * DAY)
    second = storage.collect().run
    storage.wait(DAY)
    assert len(storage.collect().deleted) == 1
    with pytest.raises(Conflict):
        collect.undo(storage.opened, second)
    with pytest.raises(NotFound):
        collect.undo(storage.opened, "run of garbage collection not found")
    states = [each.state for each in collect.list_runs(storage.opened)]
    assert states[:2] == [RunState.UNDONE, RunState.SWEPT]


def test_a_longer_rule_does_not_bring_back_what_is_gone(aged: tuple[Storage, str]) -> None:
    storage, old = aged
    storage.collected()
    retention.set_rule(storage.opened, Retention())
    fresh = storage.restarted()
    assert fresh.collected() == 0  # and does not stumble over it
    with pytest.raises(Gone):
        names.create_branch(fresh.opened, "new", old)


# ---- crashes and damage --------------------------------------------------------------------------


class Crash(Exception):
    """The process ends here."""


def test_a_sweep_that_was_cut_short_is_resumed(lost: tuple[Storage, str]) -> None:
    storage, _ = lost
    doomed = {each.address for each in storage.collect().condemned}
    storage.wait(DAY)
    deleted: list[str] = []

    def crashing(where: str, version: str = "") -> None:
        if deleted:
            raise Crash
        deleted.append(where)

    with pytest.raises(Crash):
        storage.with_blocks(delete=crashing).collect()
    fresh = storage.restarted()
    assert collect.list_runs(fresh.opened)[0].state is RunState.SWEEPING
    fresh.collect()
    assert not doomed & fresh.stored()
    assert collect.list_runs(fresh.opened)[0].state is RunState.SWEPT


def test_what_was_deleted_stands_in_the_log(aged: tuple[Storage, str]) -> None:
    storage, _ = aged
    first = storage.collect()
    storage.wait(DAY)
    storage.collect()
    page = storage.blocks.list(f"mem://bucket/lake/_graveler/gc/{first.run}/deleted-", "", 100)
    lines = [
        json.loads(line)
        for found in page.lines
        for line in b"".join(storage.blocks.get(found.address).chunks).splitlines()
    ]
    assert {line["address"] for line in lines} == {each.address for each in first.condemned}
    assert all(line["size"] >= 0 and line["reason"] == "expired" for line in lines)


def test_nothing_is_deleted_while_something_needed_cannot_be_read(
    aged: tuple[Storage, str],
) -> None:
    storage, _ = aged
    storage.collect()
    storage.wait(DAY)
    head = _log(storage)[0].commit.metarange
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{head}")
    before = storage.stored()
    with pytest.raises(Gone):
        storage.restarted().collect()
    assert storage.stored() == before


def test_nothing_is_deleted_if_most_of_what_is_used_is_not_listed(storage: Storage) -> None:
    for number in range(120):
        made = _upload(storage, f"k{number}")
        storage.blocks.delete(f"mem://bucket/lake/{made.address}")
    with pytest.raises(Corrupt, match="not found in storage"):
        storage.collect()


def test_a_list_that_names_foreign_files_is_refused(aged: tuple[Storage, str]) -> None:
    storage, _ = aged
    run = storage.collect().run
    where = f"mem://bucket/lake/_graveler/gc/{run}/condemned-00000.jsonl"
    line = {"address": "../x", "version": "1", "size": 1, "kind": "object", "reason": "unused"}
    storage.blocks.put(where, [json.dumps(line).encode()])
    storage.wait(DAY)
    with pytest.raises(Corrupt):
        storage.collect()


def test_waiting_less_than_operations_live_is_refused(storage: Storage) -> None:
    for settings in (CollectSettings(min_age_seconds=HOUR), CollectSettings(undo_seconds=HOUR)):
        with pytest.raises(Invalid):
            collect.collect(storage.opened, settings)


def test_a_repository_that_was_never_collected_costs_no_look(storage: Storage) -> None:
    storage.commit(a="x")
    assert not storage.repo.collected
    storage.wait(9 * DAY)
    storage.put(b="y")
    write.delete(storage.opened, "main", "b")
    storage.wait(2 * DAY)
    storage.collect()
    assert not repository.get(storage.restarted().ports, "lake").collected  # no commit condemned


def test_nothing_is_condemned_where_no_versions_are_kept(lost: tuple[Storage, str]) -> None:
    storage, _ = lost
    before = everything(storage)
    storage.blocks.keeps_versions = False
    for delete in (False, True):
        with pytest.raises(Unsupported):
            storage.collect(delete=delete)
    assert everything(storage) == before and collect.list_runs(storage.opened) == []


def test_what_was_stored_without_versions_goes_once_they_are_kept(storage: Storage) -> None:
    storage.blocks.keeps_versions = False
    storage.commit(a="kept")
    names.create_branch(storage.opened, "side", "main")
    storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    storage.blocks.keeps_versions = True
    storage.collect()
    storage.wait(8 * DAY)
    assert {each.version for each in storage.collect().condemned} == {"null"}
    storage.wait(DAY)
    assert storage.collect().deleted
    assert storage.read("main", "a") == b"kept"


def test_what_was_written_again_before_versions_were_kept_stays(storage: Storage) -> None:
    """Its version is the one that the list names."""
    storage.commit(a="kept")
    names.create_branch(storage.opened, "side", "main")
    storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    storage.blocks.keeps_versions = False
    for where in sorted(everything(storage)):
        storage.blocks.put(where, [storage.blocks.read(where, 0, 1_000_000)])
    storage.blocks.keeps_versions = True
    storage.collect()
    storage.wait(8 * DAY)
    again, *others = (f"mem://bucket/lake/{each.address}" for each in storage.collect().condemned)
    storage.wait(DAY)
    storage.blocks.keeps_versions = False
    fresh = storage.blocks.put(again, [storage.blocks.read(again, 0, 1_000_000)])
    storage.blocks.keeps_versions = True
    assert storage.collect().deleted and others
    assert storage.blocks.head(again).modified_ns == fresh.modified_ns
    assert not everything(storage) & set(others)


def everything(storage: Storage) -> set[str]:
    """Addresses below the namespace."""
    page = storage.blocks.list("mem://bucket/lake/", "", 10_000)
    return {line.address for line in page.lines}
