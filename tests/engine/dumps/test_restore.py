"""Restores of refs: what stands afterwards, what is refused, and what faults leave behind."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from graveler.committed import dumps
from graveler.committed.dumps import DumpTables
from graveler.core import limits, wire_dumps
from graveler.core import wire_pb2 as pb
from graveler.core.errors import (
    Code,
    Conflict,
    Contended,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    StorageFull,
    Unavailable,
    Unsupported,
)
from graveler.core.identity import commit_id, frame
from graveler.core.ids import BranchId, CommitId, MetarangeId, RangeId, TagId
from graveler.core.records import ABSENT, BreakParameters, Commit, JobState, Record
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine import dump, names, restore
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.bulk.streams import Batch
from graveler.engine.commits import log, merge
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.gc import cluster, collect, retention, root_pages
from graveler.engine.gc import notes as lost_content
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import purge, repository
from graveler.engine.repositories.repository import NewRepository
from graveler.engine.restore import Attempt
from graveler.refs import branches, commits, garbage, tags
from graveler.refs.cache import RefCache
from graveler.refs.garbage import DeletedContent, Retention
from graveler.refs.lifecycle import DumpIds
from tests.engine.bulk_world import finish, write
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script

NAMESPACE = "mem://bucket/copy"
LAKEFS = Path(__file__).parents[2] / "data" / "lakefs-written"
DUMMY = b"this is dummy data - created by lakeFS to check accessibility"
FAULTS = [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]


def grown(storage: Storage) -> DumpIds:
    """A history with a merge, branches and tags; its dump."""
    repo = storage.opened
    first = storage.commit(a="1")
    names.create_branch(repo, "side", "main")
    names.create_branch(repo, "hidden", "main", hidden=True)
    storage.commit("side", b="2")
    storage.commit(c="3")
    merge.merge(repo, "side", "main", merge.MergeRequest("tester"))
    names.create_tag(repo, "v1", first)
    names.create_tag(repo, "v2", "side")
    for number in range(9):
        storage.commit(a=f"later {number}")
    storage.put(d="staged")
    return DumpIds(*dump.dump(repo)[:3])


def copied(storage: Storage, namespace: str = NAMESPACE) -> None:
    """The files of the repository, in another namespace: all but the claim."""
    for line in storage.blocks.list("mem://bucket/lake/", "", 10_000).lines:
        name = line.address.removeprefix("mem://bucket/lake/")
        if name != "_lakefs/dummy":
            storage.blocks.copy(line.address, f"{namespace}/{name}")


def bare(storage: Storage, name: str = "copy", **more: Any) -> OpenRepository:
    new = NewRepository(name, f"mem://bucket/{name}", bare=True, **more)
    return open_repository(storage.ports, repository.create(storage.ports, new))


def shown(repo: OpenRepository) -> dict[str, Any]:
    """Refs and commits, as they are recorded; tokens and times left out."""
    named = {
        each.id: (each.branch.commit, each.branch.hidden, len(each.branch.sealed))
        for each in branches.every(repo.kv, repo.record)
    }
    tagged = {each.id: each.tag.commit for each in tags.every(repo.kv, repo.record)}
    stored = {entry.id: entry.commit for entry in commits.list_all(repo.kv, repo.record)}
    return {"branches": named, "tags": tagged, "commits": stored}


@pytest.fixture
def source(storage: Storage) -> tuple[Storage, DumpIds]:
    ids = grown(storage)
    copied(storage)
    return storage, ids


# ---- what stands afterwards ----------------------------------------------------------------------


def test_a_dump_of_ours_restores_refs_history_and_content(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage, breaks=storage.repo.breaks)
    restore.restore(copy, ids)
    assert shown(copy) == shown(storage.opened)  # the place of each commit in the graph as well
    assert dump.dump(copy)[:3] == ids
    ours, _ = log.log(copy, "main", log.LogRequest(amount=100))
    theirs, _ = log.log(storage.opened, "main", log.LogRequest(amount=100))
    assert [entry.id for entry in ours] == [entry.id for entry in theirs]
    page = read.list_objects(copy, "main", read.ListQuery())
    assert [path for path, _ in page.lines] == ["a", "b", "c"]
    commit(copy, "side", CommitRequest("on", "tester", allow_empty=True))


def test_batches_that_had_landed_do_not_land_again(storage: Storage) -> None:
    def begin(lake: Lake, number: int, stream: str = "s") -> Bulk:
        new = NewBulk(Mode.SPLICE, "t/", batch=Batch(stream, number))
        return bulk.begin(lake.opened, "main", new)

    def land(lake: Lake, number: int) -> str:
        return finish(lake, begin(lake, number), write(lake, {f"t/{number}": "1"}))

    made = land(Lake(storage.ports, storage.repo), 3)
    storage.commit(a="since")
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    repo = bare(storage)
    restore.restore(repo, ids)
    copy = Lake(storage.ports, repo.record)
    assert begin(copy, 3).job.commit == begin(copy, 2).job.commit == made
    assert land(copy, 4) == copy.head() == begin(copy, 4).job.commit
    assert begin(copy, 0, "other").job.state is JobState.RUNNING


def test_a_dump_that_lakefs_wrote_restores(storage: Storage) -> None:
    expected = json.loads((LAKEFS / "expected.json").read_text())
    for path in (LAKEFS / "_lakefs").iterdir():
        storage.blocks.put(f"{NAMESPACE}/_lakefs/{path.name}", [path.read_bytes()])
    storage.blocks.put(f"{NAMESPACE}/_lakefs/dummy", [DUMMY])
    copy = bare(storage)
    theirs = expected["refs_dump"]
    ids = restore.parse_ids(*(theirs[f"{kind}_meta_range_id"] for kind in DumpIds._fields))
    restore.restore(copy, ids)
    there = shown(copy)
    assert {name: head for name, (head, *_) in there["branches"].items()} == expected["branches"]
    assert there["tags"] == expected["tags"]
    assert set(there["commits"]) == {each["id"] for each in expected["commits"]}
    generations = {each["id"]: each["generation"] for each in expected["commits"]}
    assert {id: made.generation for id, made in there["commits"].items()} == generations
    entries, _ = log.log(copy, "main", log.LogRequest(amount=100))
    assert len(entries) == len(expected["commits"])


def test_no_tags_at_all_may_be_the_empty_id(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    restore.restore(copy, ids._replace(tags=MetarangeId("")))
    assert shown(copy) == shown(storage.opened) | {"tags": {}}


def test_only_a_bare_repository_takes_over_a_namespace_of_lakefs(storage: Storage) -> None:
    storage.blocks.put(f"{NAMESPACE}/_lakefs/dummy", [DUMMY])
    with pytest.raises(Invalid) as refused:
        repository.create(storage.ports, NewRepository("copy", NAMESPACE))
    assert refused.value.code is Code.NAMESPACE_IN_USE
    other = "mem://bucket/other/_lakefs/dummy"
    storage.blocks.put(other, [b"something else"])
    with pytest.raises(Invalid, match=f"in use: .* delete the object {other}") as refused:
        bare(storage, "other")
    assert refused.value.code is Code.NAMESPACE_CLAIMED
    copy = bare(storage)
    claim = b"".join(storage.blocks.get(f"{NAMESPACE}/_lakefs/dummy").chunks)
    assert claim.split() == [b"copy", copy.record.uid.encode()]
    with pytest.raises(Invalid, match="in use"):
        repository.create(storage.ports, NewRepository("third", NAMESPACE, bare=True))


def test_the_commits_of_a_restore_are_stored_after_their_parents(
    source: tuple[Storage, DumpIds],
) -> None:
    storage, ids = source
    storage.change_settings(restore_batch_count=2)
    copy = bare(storage)
    written: list[CommitId] = []
    notes: list[int] = []
    script = Script()
    kv = InterposedStore(copy.kv, script)

    def look() -> None:
        stored = {
            entry.id: entry.commit for entry in commits.list_all(storage.ports.kv, copy.record)
        }
        written.extend(id for id in stored if id not in written)
        for id in stored:
            assert set(stored[id].parents) <= stored.keys()

    for number in range(1, 15):  # a batch of two rows: a commit, and its line in the table
        script.after("set_many", look, number)
    restore.restore(replace(copy, kv=kv), ids, Attempt(note=notes.append))
    assert len(written) == 14 and notes[:7] == [2, 4, 6, 8, 10, 12, 14]


def test_a_restore_costs_a_row_for_each_ref_and_a_batch_of_commits(
    source: tuple[Storage, DumpIds],
) -> None:
    storage, ids = source
    kv, blocks = Counts(), Counts()
    copy = bare(storage)
    counted = replace(
        copy, kv=counted_store(copy.kv, kv), blocks=counted_blocks(copy.blocks, blocks)
    )
    restore.restore(counted, ids)
    # the bare check: 2 gets and 2 scans; the record; 2 tags; 3 branches, each 2 gets and a swap
    assert kv.snapshot() == {"get": 2 + 2 * 3, "scan": 2, "set_if": 1 + 2 + 3, "set_many": 1}
    assert set(blocks.snapshot()) == {"read", "list"}  # the notes of collections


# ---- after collections ---------------------------------------------------------------------------


def expired(storage: Storage) -> tuple[str, str]:
    """A commit that lost its objects, and one without a ref that lost everything."""
    retention.set_rule(storage.opened, Retention(default_days=1, unreachable_days=1))
    old = storage.commit(a="old")
    names.create_branch(storage.opened, "side", "main")
    lost = storage.commit("side", b="lost")
    names.delete_branch(storage.opened, "side")
    storage.commit(a="new")
    for _ in range(4):
        storage.wait(3 * DAY)
        storage.collect()
    return old, lost


def test_a_commit_that_lost_its_content_is_restored_as_such(storage: Storage) -> None:
    """Marks are rows, and go with the repository: without them a collection would read what is
    gone, and a branch from such a commit would have holes."""
    old, lost = expired(storage)
    repo = storage.opened
    before = marks_of(repo)
    assert before == {old: DeletedContent.OBJECTS, lost: DeletedContent.ALL}
    ids = DumpIds(*dump.dump(repo)[:3])
    copied(storage)
    copy = bare(storage, breaks=storage.repo.breaks)
    restore.restore(copy, ids)
    copy = open_repository(storage.ports, repository.get(storage.ports, "copy"))
    assert marks_of(copy) == before
    for id in (old, lost):
        with pytest.raises(Gone):
            names.create_branch(copy, "late", id)
    content = log.get_commit(copy, old).commit.metarange
    with pytest.raises(Gone):
        commit(copy, "main", CommitRequest("given", "tester", source_metarange=content))
    stored = {each.address for each in storage.blocks.list(f"{NAMESPACE}/", "", 10_000).lines}
    for _ in range(3):
        storage.wait(2 * DAY)
        collect.collect(copy, delete=True)
    left = {each.address for each in storage.blocks.list(f"{NAMESPACE}/", "", 10_000).lines}
    assert {each for each in stored - left if "/_graveler/" not in each} == set()
    assert content_of(copy, "main") == {"a": "new"}
    assert marks_of(copy).items() >= before.items()


def test_a_commit_without_a_ref_whose_content_is_nowhere_is_restored_as_gone(
    storage: Storage,
) -> None:
    """As in a dump of lakeFS, or if the notes of collections were not copied."""
    old, lost = expired(storage)
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    for line in storage.blocks.list(f"{NAMESPACE}/_graveler/gc/", "", 1_000).lines:
        storage.blocks.delete(line.address)
    copy = bare(storage, breaks=storage.repo.breaks)
    restore.restore(copy, ids)
    copy = open_repository(storage.ports, repository.get(storage.ports, "copy"))
    assert marks_of(copy) == {lost: DeletedContent.ALL}
    collect.collect(copy, delete=True)
    assert content_of(copy, "main") == {"a": "new"}
    with pytest.raises(Gone):
        names.create_branch(copy, "late", lost)
    names.create_branch(copy, "late", old)  # nobody knows that it has holes


def test_a_commit_that_was_noted_and_then_kept_is_restored_as_whole(storage: Storage) -> None:
    """A collection ends behind its note; then the rule keeps the commit for ever."""
    retention.set_rule(storage.opened, Retention(default_days=1))
    old = storage.commit(a="old")
    storage.commit(a="new")
    storage.wait(2 * DAY)
    storage.collect()
    assert garbage.find_mark(storage.ports.kv, storage.repo, old) is not ABSENT
    storage.wait(2 * DAY)
    with pytest.raises(Conflict):
        collect.collect(storage.with_kv(set_many=dies).opened, delete=True)
    assert old in lost_content.read_lost(storage.opened)
    retention.set_rule(storage.opened, Retention())
    storage.collect()
    assert lost_content.read_lost(storage.opened) == {}
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    copy = bare(storage, breaks=storage.repo.breaks)
    restore.restore(copy, ids)
    assert marks_of(copy) == {}
    assert content_of(copy, old) == {"a": "old"}


def dies(*_: object) -> None:
    raise Conflict("the collector ends here")


def test_no_run_takes_the_marks_of_a_restore_away(storage: Storage) -> None:
    expired(storage)
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    copy = bare(storage, breaks=storage.repo.breaks)
    restore.restore(copy, ids)
    copy = open_repository(storage.ports, repository.get(storage.ports, "copy"))
    before = dict(garbage.list_marks(copy.kv, copy.record))
    storage.wait(2 * DAY)
    cluster.begin_turn(copy, "T1")
    cluster.condemn_page(copy, cluster.DeletionOrder("R1", 0, 0, "T1"), "", 1_000)
    collect.undo(copy, "R1")
    assert dict(garbage.list_marks(copy.kv, copy.record)) == before
    with pytest.raises(Invalid, match="letters and digits"):
        cluster.condemn_page(copy, cluster.DeletionOrder(garbage.RESTORED, 0, 0, "T1"), "", 1_000)


def test_a_restore_that_is_continued_has_all_marks(storage: Storage) -> None:
    expired(storage)
    before = marks_of(storage.opened)
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    copy = bare(storage, breaks=storage.repo.breaks)
    batches = count()

    def without_commits(_number: int, verb: str) -> Fault:
        return Fault.DROPPED if verb == "set_many" and next(batches) == 1 else Fault.NONE

    faulty = FaultyStore(copy.kv, without_commits)
    with pytest.raises(OutcomeUnknown):
        restore.restore(replace(copy, kv=faulty), ids)
    assert marks_of(copy) == before and shown(copy)["branches"] == {}
    restore.restore(copy, ids, Attempt(stored=1))
    copy = open_repository(storage.ports, repository.get(storage.ports, "copy"))
    assert marks_of(copy) == before and copy.record.collected


def test_a_note_that_cannot_be_read_restores_nothing(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    storage.blocks.put(f"{NAMESPACE}/_graveler/gc/lost/x.txt", [b"nonsense"])
    copy = bare(storage, breaks=storage.repo.breaks)
    with pytest.raises(Invalid, match="note of lost content"):
        restore.restore(copy, ids)
    assert shown(copy) == {"branches": {}, "tags": {}, "commits": {}}


def marks_of(repo: OpenRepository) -> dict[str, DeletedContent]:
    return {id: mark.spent for id, mark in garbage.list_marks(repo.kv, repo.record) if mark.spent}


def content_of(repo: OpenRepository, ref: str) -> dict[str, str]:
    page = read.list_objects(repo, ref, read.ListQuery())
    bodies = {path: read.open_body(repo, entry) for path, entry in page.lines}
    return {path: b"".join(body.chunks).decode() for path, body in bodies.items()}


# ---- what is refused -----------------------------------------------------------------------------


def test_only_a_bare_repository_is_restored_into(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    with pytest.raises(Invalid) as refused:
        restore.restore(storage.opened, ids)
    assert refused.value.code is Code.NOT_BARE
    copy = bare(storage)
    restore.restore(copy, ids)
    with pytest.raises(Invalid, match="bare"):
        restore.restore(copy, ids)
    with pytest.raises(Invalid, match="bare"):
        restore.check_bare(copy, ids)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_repository_with_refs_of_its_own_is_not_bare(
    source: tuple[Storage, DumpIds], kind: str
) -> None:
    storage, ids = source
    copy = bare(storage)
    first = Commit("", "mine", 1)
    id = commit_id(first)
    commits.put(copy.kv, copy.record, id, first, copy.ids.stamp())
    if kind == "branch":
        names.create_branch(copy, "own", id)
    else:
        names.create_tag(copy, "own", id)
    with pytest.raises(Invalid, match="bare"):
        restore.restore(copy, ids)


def test_a_read_only_repository_needs_force(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage, read_only=True)
    with pytest.raises(Refused):
        restore.restore(copy, ids)
    restore.restore(copy, ids, force=True)
    assert shown(copy) == shown(storage.opened)


@pytest.mark.parametrize("field", DumpIds._fields)
def test_ids_are_ids(field: str) -> None:
    texts = dict.fromkeys(DumpIds._fields, "0" * 64)
    with pytest.raises(Invalid, match=field):
        restore.parse_ids(**{**texts, field: "../../../etc"})


@pytest.mark.parametrize("field", DumpIds._fields)
def test_a_table_that_is_not_there_is_not_found(
    source: tuple[Storage, DumpIds], field: str
) -> None:
    storage, ids = source
    copy = bare(storage)
    with pytest.raises(NotFound, match="not found in the repository's namespace"):
        restore.restore(copy, ids._replace(**{field: MetarangeId("0" * 64)}))
    assert shown(copy) == {"branches": {}, "tags": {}, "commits": {}}


@pytest.mark.parametrize(
    "mixed",
    [
        lambda ids: ids._replace(commits=ids.tags),
        lambda ids: ids._replace(tags=ids.branches),
        lambda ids: ids._replace(branches=ids.commits),
    ],
)
def test_a_table_of_another_kind_is_refused(
    source: tuple[Storage, DumpIds], mixed: Callable[[DumpIds], DumpIds]
) -> None:
    storage, ids = source
    with pytest.raises(Invalid, match="another kind"):
        restore.restore(bare(storage), mixed(ids))


def test_content_of_another_repository_is_not_reached(source: tuple[Storage, DumpIds]) -> None:
    """The dump is in the namespace, and the content that it names is not."""
    storage, ids = source
    copy = bare(storage, "empty")
    for id in ids:
        refs = tables(storage).read_metarange(NAMESPACE, id).ranges
        for name in (id, *(ref.id for ref in refs)):
            storage.blocks.copy(f"{NAMESPACE}/_lakefs/{name}", f"{copy.namespace}/_lakefs/{name}")
    with pytest.raises(Invalid, match="content of a ref"):
        restore.restore(copy, ids)
    assert shown(copy) == {"branches": {}, "tags": {}, "commits": {}}


def tables(storage: Storage, marks: Any = None) -> DumpTables:
    return DumpTables(storage.blocks, marks or {})


def made(storage: Storage, marks: Any, lines: Sequence[Record]) -> MetarangeId:
    """A table of a dump with these records, whatever they say."""
    breaks = BreakParameters()
    return dumps.write(storage.blocks, NAMESPACE, breaks, marks, sorted(lines)).id


def forged(storage: Storage, ids: DumpIds, kind: str, *lines: Record) -> DumpIds:
    marks = getattr(wire_dumps, kind.upper())
    return ids._replace(**{kind: made(storage, marks, lines)})


def commit_line(id: str | None = None, key: str | None = None, **more: Any) -> Record:
    """The record of a commit that says something unusual of itself."""
    created = pb.Timestamp(seconds=more.pop("seconds", 5), nanos=more.pop("nanos", 0))
    fields = {"generation": 1, "version": 1, "message": "forged", **more}
    record = Commit(
        fields.get("committer", ""),
        fields["message"],
        created.seconds * 10**9 + created.nanos,
        MetarangeId(fields.get("meta_range_id", "")),
        fields.get("metadata", {}),
        tuple(fields.get("parents", ())),
    )
    name = id or (commit_id(record) if -(1 << 63) <= created.seconds < 1 << 63 else "0" * 64)
    body = pb.CommitData(id=name, creation_date=created, **fields).SerializeToString()
    return (key or name).encode(), frame(name.encode(), body)


def branch_line(name: str, commit: str) -> tuple[str, Record]:
    line = wire_dumps.branch_record(BranchId(name), CommitId(commit), hidden=False)
    return "branches", line


def tag_line(name: str) -> tuple[str, Record]:
    return "tags", wire_dumps.tag_record(TagId(name), CommitId(OTHER))


OTHER = "1" * 64
FORGERIES: dict[str, tuple[Callable[[], tuple[str, Record]], str]] = {
    "id": (lambda: ("commits", commit_line(id=OTHER)), "does not hash to its id"),
    "key": (lambda: ("commits", commit_line(key=OTHER)), "contradicts itself"),
    "parent": (lambda: ("commits", commit_line(parents=[OTHER], generation=2)), "not in the dump"),
    "generation": (lambda: ("commits", commit_line(generation=7)), "wrong generation"),
    "parent id": (lambda: ("commits", commit_line(parents=["../x"])), "is invalid"),
    "metarange": (lambda: ("commits", commit_line(meta_range_id="x")), "is invalid"),
    "time before": (lambda: ("commits", commit_line(seconds=-5)), "is invalid"),
    "time behind": (lambda: ("commits", commit_line(seconds=1 << 40)), "is invalid"),
    "parents": (
        lambda: ("commits", commit_line(parents=[f"{n:064x}" for n in range(1_001)])),
        "too many parents",
    ),
    "message": (lambda: ("commits", commit_line(message="x" * 70_000)), "message is too long"),
    "metadata": (lambda: ("commits", commit_line(metadata={"": "x"})), "metadata has an empty key"),
    "garbage": (lambda: ("commits", (b"0" * 64, frame(b"0" * 64, b"\xff\xff"))), "does not decode"),
    "branch name": (lambda: branch_line("a/../b", OTHER), "branch name invalid"),
    "tag name": (lambda: tag_line("a b"), "tag name invalid"),
    "tag": (lambda: tag_line("v9"), "lacks a commit"),
    "no default": (lambda: branch_line("x", OTHER), "no branch with the name"),
    "no commit id": (lambda: branch_line("main", "main"), "contradicts itself"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_dump_does_not_verify_and_leaves_nothing(
    source: tuple[Storage, DumpIds], name: str
) -> None:
    storage, ids = source
    copy = bare(storage)
    make, text = FORGERIES[name]
    kind, line = make()
    with pytest.raises(Invalid, match=text):
        restore.restore(copy, forged(storage, ids, kind, line))
    assert shown(copy) == {"branches": {}, "tags": {}, "commits": {}}
    restore.restore(copy, ids)  # nothing stands in the way of the right one


def test_a_damaged_range_does_not_verify(source: tuple[Storage, DumpIds]) -> None:
    """Another range under the name of one: the records are sound, and are not those."""
    storage, ids = source
    lines = list(dumps.read(storage.blocks, NAMESPACE, ids.tags, wire_dumps.TAGS))
    [ref] = tables(storage).read_metarange(NAMESPACE, ids.tags).ranges[:1]
    other = tables(storage, wire_dumps.TAGS)
    side = names.get_branch(storage.opened, "side").branch.commit
    swapped = wire_dumps.tag_record(TagId("v1"), side)
    assert swapped not in lines
    forged_ref = other.write_range(NAMESPACE, [swapped, *lines[1 : ref.count]])
    storage.blocks.copy(f"{NAMESPACE}/_lakefs/{forged_ref.id}", f"{NAMESPACE}/_lakefs/{ref.id}")
    with pytest.raises(Invalid, match="does not hash to its id"):
        restore.restore(bare(storage), ids)


def test_a_range_outside_the_namespace_is_not_named(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    [ref] = tables(storage).read_metarange(NAMESPACE, ids.branches).ranges[-1:]
    other = tables(storage, wire_dumps.BRANCHES)
    outside = replace(ref, id=RangeId(f"../../lake/_lakefs/{ref.id}"))
    id = other.write_metarange(NAMESPACE, [outside])
    with pytest.raises(Invalid, match="not an id"):
        restore.restore(bare(storage), ids._replace(branches=id))


@pytest.mark.parametrize("limit", ["restore_records_max", "restore_bytes_max"])
def test_a_dump_that_is_too_large_is_refused(source: tuple[Storage, DumpIds], limit: str) -> None:
    storage, ids = source
    storage.change_settings(**{limit: 5})
    with pytest.raises(Unsupported, match="too large"):
        restore.restore(bare(storage), ids)


# ---- faults, and others who act meanwhile --------------------------------------------------------


def test_two_dumps_do_not_mix(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    later = forged(storage, ids, "tags")
    copy = bare(storage)
    script = Script()
    script.before("set_many", lambda: stop())
    with pytest.raises(Unavailable):
        restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    with pytest.raises(Conflict, match="another dump"):
        restore.restore(copy, later)
    restore.restore(copy, ids)
    assert shown(copy) == shown(storage.opened)


def test_a_restore_for_which_there_is_no_room_says_so(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    full = FaultyStore(copy.kv, lambda _, verb: Fault.FULL if "set" in verb else Fault.NONE)
    with pytest.raises(StorageFull):
        restore.restore(replace(copy, kv=full), ids)
    restore.restore(copy, ids)
    assert shown(copy) == shown(storage.opened)


def stop() -> None:
    raise Unavailable("gone")


def test_of_two_dumps_at_the_same_time_one_is_restored(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    later = forged(storage, ids, "tags")
    copy = bare(storage)
    script = Script()
    script.before("set_if", lambda: restore.restore(copy, later))
    with pytest.raises(Conflict, match="another dump"):
        restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    assert shown(copy)["tags"] == {}


@pytest.mark.parametrize("number", range(1, 7))
def test_the_same_restore_twice_at_the_same_time_is_one(
    source: tuple[Storage, DumpIds], number: int
) -> None:
    storage, ids = source
    copy = bare(storage)
    script = Script()
    script.before("set_if", lambda: restore.restore(copy, ids), number)
    restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    assert script.finished and shown(copy) == shown(storage.opened)


def test_another_attempt_of_a_job_finds_what_was_done(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    assert not restore.is_complete(copy, ids)
    restore.restore(copy, ids, Attempt(begun=True))
    assert restore.is_complete(copy, ids)
    restore.restore(copy, ids, Attempt(stored=14, begun=True))


def test_a_later_attempt_stores_only_the_commits_that_are_missing(
    source: tuple[Storage, DumpIds],
) -> None:
    storage, ids = source
    copy = bare(storage)
    notes: list[int] = []
    restore.restore(copy, ids, Attempt(stored=4, begun=True, note=notes.append))
    assert notes[0] == 14 and len(shown(copy)["commits"]) == 10


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_ref_that_points_elsewhere_is_left_alone(
    source: tuple[Storage, DumpIds], kind: str
) -> None:
    storage, ids = source
    copy = bare(storage)
    script = Script()

    def rival() -> None:
        mine = Commit("", "mine", 1)
        id = commit_id(mine)
        commits.put(storage.ports.kv, copy.record, id, mine, copy.ids.stamp())
        if kind == "branch":
            names.create_branch(copy, "side", id)
        else:
            names.create_tag(copy, "v1", id)

    script.after("set_many", rival)
    with pytest.raises(Conflict, match=f"{kind} exists already, at another commit"):
        restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    assert "main" not in shown(copy)["branches"]


def test_a_branch_that_has_moved_on_is_as_restored(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    script = Script()
    script.before("get", stop, 7)  # the default branch, after all others
    with pytest.raises(OutcomeUnknown):
        restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    moved = commit(copy, "side", CommitRequest("on", "tester", allow_empty=True)).id
    names.delete_branch(copy, "hidden")
    restore.restore(copy, ids)
    there = shown(copy)["branches"]
    assert there["side"][0] == moved and set(there) == {"hidden", "main", "side"}


def test_a_branch_whose_record_keeps_changing(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    script = Script()

    def lose() -> None:
        raise OutcomeUnknown("no answer")

    for round in range(limits.conditional_round_count_max):
        script.before("set_if", lose, 4 + round)
    with pytest.raises(Contended):
        restore.restore(replace(copy, kv=InterposedStore(copy.kv, script)), ids)
    restore.restore(copy, ids)
    assert shown(copy) == shown(storage.opened)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_fails_in_turn_and_the_same_call_ends_well(
    tmp_path: Path, fault: Fault
) -> None:
    for number in range(1, 40):
        storage = new_storage(tmp_path)
        ids = grown(storage)
        copied(storage)
        copy = bare(storage)
        store = FaultyStore(copy.kv, nth({number: fault}))
        broken = replace(copy, kv=store, cache=RefCache(copy.clock))
        answered = attempted(broken, ids)
        if store.requests < number:
            assert answered
            return
        default = shown(copy)["branches"].get("main")
        assert answered == (default is not None) or fault in (Fault.LOST, Fault.LATE)
        if default is not None:  # it comes last: everything else is there
            assert shown(copy) == shown(storage.opened)
        store.land()
        if "main" not in shown(copy)["branches"]:
            restore.restore(copy, ids)
        assert shown(copy) == shown(storage.opened)
    raise AssertionError("a restore of that many requests is none of ours")


def attempted(repo: OpenRepository, ids: DumpIds) -> bool:
    try:
        restore.restore(repo, ids)
    except Unavailable:
        return False
    return True


# ---- collection and purge ------------------------------------------------------------------------


def test_a_bare_repository_is_not_collected(source: tuple[Storage, DumpIds]) -> None:
    storage, ids = source
    copy = bare(storage)
    storage.wait(3 * DAY)
    before = files(storage)
    with pytest.raises(Conflict, match="restore its refs first"):
        collect.collect(copy, delete=True)
    with pytest.raises(Conflict, match="restore its refs first"):
        every_root(copy)
    restore.restore(copy, ids)
    collect.collect(copy, delete=True)
    storage.wait(DAY)
    collect.collect(copy, delete=True)
    lost = {name for name in before - files(storage) if "/data/" in name}
    assert len(lost) == 1  # what was staged: uncommitted changes are not restored
    assert shown(copy) == shown(storage.opened)


def every_root(repo: OpenRepository) -> None:
    page = root_pages.page(repo, "", 10)
    while page.following:
        page = root_pages.page(repo, page.following, 10)


def files(storage: Storage) -> set[str]:
    return {line.address for line in storage.blocks.list(f"{NAMESPACE}/", "", 10_000).lines}


def test_a_deleted_repository_leaves_the_files_that_are_older(
    source: tuple[Storage, DumpIds],
) -> None:
    """A bare repository on a namespace of lakeFS, deleted before or after the restore."""
    storage, ids = source
    before = files(storage)
    copy = bare(storage)
    restore.restore(copy, ids)
    commit(copy, "main", CommitRequest("on", "tester", allow_empty=True))
    dump.dump(copy)
    assert files(storage) > before
    repository.delete(copy)
    storage.clock.sleep(2 * DAY)
    for gone in purge.list_due(storage.ports):
        assert purge.purge(storage.ports, gone)
    assert files(storage) == before
