"""Dumps of refs: what stands in them, lakeFS's own come out alike, collection keeps them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from graveler.block.memory import MemoryBlocks
from graveler.committed import reader
from graveler.committed.dumps import DumpTables
from graveler.committed.ranges import Keyspace
from graveler.core import wire_dumps
from graveler.core import wire_pb2 as pb
from graveler.core.errors import Corrupt, Invalid
from graveler.core.identity import body_of, identity_of
from graveler.core.ids import BranchId, CommitId, MetarangeId, StagingToken, TagId
from graveler.core.records import ABSENT, Branch, BranchState, Commit
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine import dump, names
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.dump import RefsDump
from graveler.engine.gc import root_pages
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs import branches, commits, tags
from tests.engine.storage import DAY, Storage

NAMESPACE = "mem://bucket/lake"
LAKEFS = Path(__file__).parents[2] / "data" / "lakefs-written"


def space(blocks: MemoryBlocks, marks: Mapping[str, str], namespace: str = NAMESPACE) -> Keyspace:
    return Keyspace(DumpTables(blocks, marks), namespace, repository.NewRepository("", "").breaks)


def records(
    storage: Storage, id: MetarangeId, namespace: str = NAMESPACE
) -> list[tuple[str, str, bytes]]:
    """Key, identity and body of each record; every id follows from them."""
    found = space(storage.restarted().blocks, {}, namespace)
    assert not list(reader.metarange_damages(found, id))
    return [
        (key.decode(), identity_of(value).decode(), body_of(value))
        for key, value in reader.scan(found, id)
    ]


def dumped(storage: Storage) -> RefsDump:
    return dump.dump(storage.opened)


# ---- what stands in them -------------------------------------------------------------------------


def test_branches_tags_and_all_their_commits_are_dumped(storage: Storage) -> None:
    repo = storage.opened
    first = storage.commit(a="1")
    names.create_tag(repo, "v1", first)
    names.create_tag(repo, "v2", first)
    names.delete_tag(repo, "v2")
    for name in ("hidden", "gone"):
        names.create_branch(repo, name, "main", hidden=name == "hidden")
    gone = storage.commit("gone", b="2")
    names.delete_branch(repo, "gone")
    head = storage.commit(a="3")
    storage.put(a="staged")
    made = dumped(storage)
    found = [pb.BranchData.FromString(body) for _, _, body in records(storage, made.branches)]
    assert [(each.id, each.commit_id, each.hidden) for each in found] == [
        ("hidden", first, True),
        ("main", head, False),
    ]
    assert not any(each.staging_token or each.sealed_tokens for each in found)
    assert [line[:2] for line in records(storage, made.tags)] == [("v1", first)]
    stored = {entry.id: entry.commit for entry in commits.list_all(repo.kv, repo.record)}
    assert {first, gone, head} < set(stored)
    lines = records(storage, made.commits)
    assert [line[:2] for line in lines] == [(id, id) for id in sorted(stored)]
    for id, _, body in lines:
        said, record = pb.CommitData.FromString(body), stored[CommitId(id)]
        created_ns = said.creation_date.seconds * 10**9 + said.creation_date.nanos
        assert (said.id, said.committer, said.message) == (id, record.committer, record.message)
        assert (created_ns, said.meta_range_id) == (record.created_ns, record.metarange)
        assert (said.generation, said.version) == (record.generation, record.version)
        assert tuple(said.parents) == record.parents and dict(said.metadata) == record.metadata


def test_many_refs_take_many_ranges_and_pages(storage: Storage) -> None:
    repo = storage.opened
    head = storage.commit(a="1")
    for number in range(1_203):
        names.create_tag(repo, f"v{number:04}", head)
    made = dumped(storage)
    assert len(records(storage, made.tags)) == 1_203
    assert len(space(storage.blocks, {}).metarange(made.tags).ranges) > 100
    assert dumped(storage)[:3] == made[:3]


def test_nothing_is_dumped_as_three_empty_metaranges(storage: Storage) -> None:
    new = repository.NewRepository("bare", "mem://bucket/bare", bare=True)
    repo = repository.create(storage.ports, new)
    made = dump.dump(open_repository(storage.ports, repo))
    assert len(set(made[:3])) == 3  # what they say of themselves differs
    for id in made[:3]:
        assert records(storage, id, repo.namespace) == []


def test_the_manifest_names_every_file(storage: Storage) -> None:
    storage.commit(a="1")
    before = storage.stored()
    made = dumped(storage)
    manifest = json.loads(b"".join(storage.blocks.get(made.manifest).chunks))
    assert manifest["repository"] == "lake" and manifest["creation_date"] > 10**9
    for kind in ("commits", "tags", "branches"):
        assert manifest[f"{kind}_meta_range_id"] == getattr(made, kind)
    assert {f"_lakefs/{id}" for id in manifest["files"]} == storage.stored() - before


def test_a_dump_costs_a_scan_a_kind_and_a_put_a_file(storage: Storage) -> None:
    storage.commit(a="1")
    kv, blocks = Counts(), Counts()
    ports = storage.ports
    counted = replace(
        ports, kv=counted_store(ports.kv, kv), blocks=counted_blocks(ports.blocks, blocks)
    )
    dump.dump(open_repository(counted, storage.repo))
    files = len(dump.files_in_use(open_repository(ports, storage.repo)))
    assert kv.snapshot() == {"scan": 3} and blocks.snapshot() == {"put": files + 1}


def test_a_dump_is_no_content_of_a_commit(storage: Storage) -> None:
    storage.commit(a="1")
    request = CommitRequest("m", "me", source_metarange=dumped(storage).branches)
    with pytest.raises(Invalid, match="dumped refs"):
        commit(storage.opened, "main", request)


# ---- lakeFS's own --------------------------------------------------------------------------------


@pytest.fixture
def theirs() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((LAKEFS / "expected.json").read_text())
    return found


def copied(blocks: MemoryBlocks) -> None:
    """The files that lakeFS wrote."""
    for path in (LAKEFS / "_lakefs").iterdir():
        blocks.put(f"{NAMESPACE}/_lakefs/{path.name}", [path.read_bytes()])


def test_the_same_refs_give_the_tables_that_lakefs_wrote(
    storage: Storage, theirs: dict[str, Any]
) -> None:
    ports = storage.ports
    copied(storage.blocks)
    repo = repository.create(ports, repository.NewRepository("bare", "mem://other/x", bare=True))
    for name, head in theirs["branches"].items():
        new = Branch(1, BranchState.LIVE, StagingToken(f"t-{name}"), (), CommitId(head))
        stamp = ports.ids.stamp()
        assert branches.swap(ports.kv, repo, BranchId(name), ABSENT, new, stamp) is not ABSENT
    for name, tagged in theirs["tags"].items():
        tags.create(ports.kv, repo, TagId(name), CommitId(tagged), ports.ids)
    lakefs = theirs["refs_dump"]
    recorded = {
        id: pb.CommitData.FromString(body)
        for id, _, body in records(storage, lakefs["commits_meta_range_id"])
    }
    for id, said in recorded.items():
        record = Commit(
            said.committer,
            said.message,
            said.creation_date.seconds * 10**9 + said.creation_date.nanos,
            MetarangeId(said.meta_range_id),
            dict(said.metadata),
            tuple(map(CommitId, said.parents)),
            said.generation,
            version=said.version,
        )
        commits.put(ports.kv, repo, CommitId(id), record, ports.ids.stamp())
    made = dump.dump(open_repository(ports, repo))
    seen = Keyspace(DumpTables(storage.blocks, {}), "mem://other/x", repo.breaks)
    for kind, marks in (("branches", wire_dumps.BRANCHES), ("tags", wire_dumps.TAGS)):
        their_space = space(storage.blocks, marks)
        [their_range] = their_space.metarange(lakefs[f"{kind}_meta_range_id"]).ranges
        [our_range] = seen.metarange(getattr(made, kind)).ranges
        assert our_range.id == their_range.id
        assert dict(their_space.open(their_range).marks) == dict(marks)
        assert dict(seen.open(our_range).marks) == dict(marks)
    # lakeFS writes the pairs of a commit's metadata in any order, so bytes may differ
    ours = {
        key.decode(): pb.CommitData.FromString(body_of(value))
        for key, value in reader.scan(seen, made.commits)
    }
    assert ours == recorded


def test_rocksdb_reads_the_tables(storage: Storage, tmp_path: Path) -> None:
    storage.commit(a="1")
    made = dumped(storage)
    options = rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(str(tmp_path / "db"), options)
    [ref] = space(storage.blocks, {}).metarange(made.branches).ranges
    (tmp_path / "one.sst").write_bytes(
        b"".join(storage.blocks.get(f"{NAMESPACE}/_lakefs/{ref.id}").chunks)
    )
    database.ingest_external_file([str(tmp_path / "one.sst")])
    assert [key for key, _ in database.items()] == [b"main"]
    database.close()


# ---- collection ----------------------------------------------------------------------------------


def test_collection_keeps_a_dump_as_long_as_its_manifest_is_there(storage: Storage) -> None:
    storage.commit(a="1")
    made = dumped(storage)
    storage.blocks.put(f"{NAMESPACE}/_graveler/dumps/notes.txt", [b"somebody's own"])
    files = {f"_lakefs/{id}" for id in dump.files_in_use(storage.opened)}
    page = root_pages.page(storage.opened, "", 1_000)
    shown = {root.name for root in page.roots}
    while page.following:
        page = root_pages.page(storage.opened, page.following, 1_000)
        shown |= {root.name for root in page.roots}
    assert files <= shown
    storage.commit(a="2")
    storage.wait(3 * DAY)
    assert storage.collected() == 0 and files <= storage.stored()
    assert records(storage, made.commits)
    storage.blocks.delete(made.manifest)
    storage.wait(3 * DAY)
    assert storage.collected() == len(files) and not files & storage.stored()
    assert storage.restarted().read("main", "a") == b"2"


def test_a_dump_that_comes_again_is_kept_although_it_was_condemned(storage: Storage) -> None:
    storage.commit(a="1")
    storage.blocks.delete(dumped(storage).manifest)
    storage.wait(3 * DAY)
    run = storage.collect()
    assert run.condemned
    storage.wait(DAY)
    again = dumped(storage)
    storage.collect()
    assert records(storage, again.commits) and records(storage, again.branches)


def test_dumps_of_another_system_are_no_entries(storage: Storage, theirs: dict[str, Any]) -> None:
    storage.commit(a="1")
    before = storage.stored()
    copied(storage.blocks)
    found, dumps = space(storage.blocks, {}), theirs["refs_dump"].values()
    keep = {*dumps, *(ref.id for id in dumps for ref in found.metarange(id).ranges)}
    for name in storage.stored() - before - {f"_lakefs/{id}" for id in keep}:
        storage.blocks.delete(f"{NAMESPACE}/{name}")
    storage.wait(3 * DAY)
    assert storage.collected() == len(keep) == 6  # no manifest of ours names them
    assert storage.restarted().read("main", "a") == b"1"


@pytest.mark.parametrize("said", [b"", b"[]", b'{"files": [1]}', b'{"files": ["../x"]}'])
def test_a_manifest_that_cannot_be_read_stops_collection(storage: Storage, said: bytes) -> None:
    storage.commit(a="1")
    made = dumped(storage)
    storage.blocks.put(made.manifest, [said])
    storage.wait(3 * DAY)
    before = storage.stored()
    with pytest.raises(Corrupt, match="manifest of a dump"):
        storage.collect()
    assert storage.stored() == before
