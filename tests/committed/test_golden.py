"""Constants of the format, and files that lakeFS wrote."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graveler.committed import reader, seal, writer
from graveler.committed.cache import BudgetedCache
from graveler.committed.ranges import (
    EMPTY_METARANGE,
    METARANGE_PROPERTIES,
    RANGE_PROPERTIES,
    Keyspace,
)
from graveler.committed.table import SortedTable
from graveler.committed.table_end import properties_of
from graveler.core import identity, limits, wire
from graveler.core.ids import CommitId, MetarangeId
from graveler.core.records import AddressType, BreakParameters, Commit, Record
from tests.committed.files import BytesFile
from tests.committed.stores import memory_blocks, sst_store

FILES = Path(__file__).parents[1] / "data" / "lakefs-written"
NAMESPACE = "mem://lakefs/written"
HASHED = ("type", "entity", "schema_name", "schema_definition")


@pytest.fixture(scope="module")
def expected() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((FILES / "expected.json").read_text())
    return found


@pytest.fixture
def space(tmp_path: Path) -> Keyspace:
    blocks = memory_blocks()
    for path in (FILES / "_lakefs").iterdir():
        blocks.put(f"{NAMESPACE}/_lakefs/{path.name}", [path.read_bytes()])
    breaks = BreakParameters(raggedness=limits.range_raggedness_unrecorded)  # those of lakeFS
    return Keyspace(sst_store(tmp_path, blocks), NAMESPACE, breaks)


def test_id_of_one_raw_record() -> None:
    found = seal.file_id([(b"key", b"value")], {})
    assert (found[:8], found[-7:]) == ("1f60902c", "5fe60b8")


def test_id_of_the_empty_metarange() -> None:
    assert seal.file_id([], METARANGE_PROPERTIES) == EMPTY_METARANGE


def test_joined_hashing_agrees_with_the_rule() -> None:
    records: list[Record] = [(b"%06d" % at, b"v" * (at % 300)) for at in range(3_000)]
    records.append((b"z", b"w" * 100_000))
    for properties in (RANGE_PROPERTIES, METARANGE_PROPERTIES, {"type": "x", "entity": "é"}):
        assert seal.file_id(records, properties) == identity.file_id(records, properties)


def test_the_pieces_of_many_records_follow_the_rule() -> None:
    keys, values = [b"%06d" % at for at in range(3_000)], [b"v" * (at % 300) for at in range(3_000)]
    rule = (b"%d%b|%d%b|" % (len(k), k, len(v), v) for k, v in zip(keys, values, strict=True))
    pieces = list(seal.joined(keys, values))
    assert len(pieces) > 1 and b"".join(pieces) == b"".join(rule)


@pytest.mark.parametrize("path", sorted((FILES / "_lakefs").iterdir()), ids=lambda p: p.name[:8])
def test_ids_of_lakefs_files_come_out_of_their_records(path: Path) -> None:
    table = SortedTable(BytesFile(path.read_bytes()), BudgetedCache(0))
    records = [record for chunk in table.chunks() for record in chunk.records()]
    properties = {
        name: text.decode()
        for name, text in properties_of(table.stored_properties).items()
        if name in HASHED
    }
    assert len(records) == table.count
    assert seal.file_id(records, properties) == path.name
    assert [table.get(key) for key, _ in records] == [found for _, found in records]


@pytest.mark.parametrize("ref", ["main", "dev", "v0"])
def test_lakefs_trees_list_as_its_api_listed_them(
    ref: str, space: Keyspace, expected: Mapping[str, Any]
) -> None:
    commits = {commit["id"]: commit for commit in expected["commits"]}
    tip = expected["branches"].get(ref) or expected["tags"][ref]
    metarange = MetarangeId(commits[tip]["meta_range_id"])
    found = [_listed(key, framed) for key, framed in reader.scan(space, metarange)]
    assert found == [_normal(line) for line in expected["listings"][ref]]
    assert not list(reader.metarange_damages(space, metarange))


def _listed(key: bytes, framed: bytes) -> dict[str, Any]:
    entry = wire.decode_entry(framed)
    assert entry.address_type is AddressType.RELATIVE
    assert identity.entry_identity(entry) == identity.identity_of(framed)
    return {
        "path": key.decode(),
        "physical_address": entry.address,
        "size_bytes": entry.size,
        "checksum": entry.checksum,
        "mtime": entry.modified_ns // 1_000_000_000,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
    }


def _normal(line: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: line[name] for name in line if name not in ("path_type", "metadata")}
    return {**kept, "metadata": line.get("metadata") or {}}


def test_lakefs_commit_ids_come_out_of_their_records(expected: Mapping[str, Any]) -> None:
    for recorded in expected["commits"]:
        commit = Commit(
            committer=recorded["committer"],
            message=recorded["message"],
            created_ns=recorded["creation_date"] * 1_000_000_000,
            metarange=MetarangeId(recorded["meta_range_id"]),
            metadata=recorded["metadata"],
            parents=tuple(CommitId(parent) for parent in recorded["parents"]),
        )
        assert identity.commit_id(commit) == recorded["id"]


def test_dumped_refs_open_as_metaranges(space: Keyspace, expected: Mapping[str, Any]) -> None:
    dump = expected["refs_dump"]
    found = {name: [key for key, _ in reader.scan(space, MetarangeId(dump[name]))] for name in dump}
    assert found["branches_meta_range_id"] == sorted(name.encode() for name in expected["branches"])
    assert found["tags_meta_range_id"] == sorted(name.encode() for name in expected["tags"])
    assert found["commits_meta_range_id"] == sorted(
        commit["id"].encode() for commit in expected["commits"]
    )


def test_our_files_of_the_same_tree_have_the_ids_that_lakefs_gave(
    space: Keyspace, expected: Mapping[str, Any]
) -> None:
    for commit in expected["commits"][:-1]:
        theirs = MetarangeId(commit["meta_range_id"])
        ours = writer.write(space, reader.scan(space, theirs))
        assert [ref.id for ref in reader.ranges(space, ours)] == [
            ref.id for ref in reader.ranges(space, theirs)
        ]
