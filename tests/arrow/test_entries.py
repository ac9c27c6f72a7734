"""`read_entries` returns what a listing does: all of it, by prefix, by column, from any store."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import graveler
from graveler.arrow import COLUMNS, Server, decode
from graveler.committed.ranges import Table
from graveler.core.errors import Gone, Invalid, NotFound
from graveler.core.ids import RangeId
from graveler.engine.commits import heads
from graveler.engine.gc import retention
from graveler.engine.objects import read, write
from graveler.engine.ports import Ports, keyspace
from graveler.lake.session import Session, connect
from graveler.refs.garbage import Retention
from tests.api.serving import ADMINISTRATOR, served
from tests.api.serving import Served as Live
from tests.architecture.source import ROOT
from tests.engine.lake import Lake, new_lake
from tests.engine.overridden import Overridden
from tests.engine.storage import DAY, Storage, new_storage

PATHS = [f"in/{number:03}" for number in range(40)] + ["in!", "inn", "out/a", "é/世"]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A repository of many small ranges, which are files in memory."""
    return new_storage(tmp_path)


def rows(
    ports: Ports | Server, ref: str = "main", columns: Sequence[str] = COLUMNS, **how: str
) -> list[dict[str, Any]]:
    batches = list(graveler.read_entries(ports, how.pop("name", "lake"), ref, columns, **how))
    assert all(batch.schema.names == list(columns) and batch.num_rows for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def filled(storage: Storage) -> None:
    for number, path in enumerate(PATHS):
        metadata = {"n": str(number), "é": "世"} if number % 3 else {}
        upload = write.Upload([path.encode()], "text/csv" if number % 2 else "", metadata)
        write.upload(storage.opened, "main", path, upload)
    storage.commit(last="1")


def test_the_entries_are_those_of_the_listing(storage: Storage) -> None:
    filled(storage)
    storage.put(staged="is no part of it")
    query = read.ListQuery(amount=1_000)
    lines = read.list_objects(storage.opened, "main@", query).lines
    found = rows(storage.ports)
    assert [row["path"] for row in found] == sorted([*PATHS, "last"], key=str.encode)
    assert len(found) == len(lines)
    for row, (path, entry) in zip(found, lines, strict=True):
        assert row["path"] == path
        assert row["size"] == entry.size and row["checksum"] == entry.checksum
        assert dict(row["metadata"]) == dict(entry.metadata)
        assert row["content_type"] == entry.content_type
        assert int(row["mtime"].timestamp() * 1e6) == entry.modified_ns // 1_000
        assert row["address"] == read.physical_address(storage.repo, entry)
        assert len(row["identity"]) == 32


@pytest.mark.parametrize("prefix", ["", "in", "in/", "in/01", "in/039", "inn", "é", "zz", "a"])
def test_a_prefix_selects_paths(storage: Storage, prefix: str) -> None:
    filled(storage)
    found = [row["path"] for row in rows(storage.ports, columns=["path"], prefix=prefix)]
    expected = [path for path in [*PATHS, "last"] if path.startswith(prefix)]
    assert found == sorted(expected, key=str.encode)


def test_a_prefix_opens_only_the_ranges_that_may_hold_it(storage: Storage) -> None:
    filled(storage)
    opened: list[str] = []

    def open_range(namespace: str, range_id: RangeId) -> Table:
        opened.append(range_id)
        return storage.ports.ranges.open_range(namespace, range_id)

    space = keyspace(storage.opened)
    refs = space.metarange(heads.head_of(storage.opened, "main").commit.metarange).ranges
    held = [ref.id for ref in refs if ref.min_key < b"in/02" and ref.max_key >= b"in/01"]
    ranges: Any = Overridden(storage.ports.ranges, open_range=open_range)
    ports = replace(storage.ports, ranges=ranges)
    list(graveler.read_entries(ports, "lake", "main", ["path"], prefix="in/01"))
    assert opened == held and 0 < len(held) < len(refs) / 2


def test_columns_come_in_the_wanted_order(storage: Storage) -> None:
    filled(storage)
    for columns in (["size", "path"], ["identity"], ["mtime", "address", "metadata"]):
        whole = [{name: row[name] for name in columns} for row in rows(storage.ports)]
        assert rows(storage.ports, columns=columns) == whole
    assert tuple(decode.COLUMNS) == COLUMNS


@pytest.mark.parametrize("columns", [[], ["path", "owner"]])
def test_an_unknown_column_is_refused(storage: Storage, columns: list[str]) -> None:
    with pytest.raises(Invalid, match="columns must be some of path,address"):
        graveler.read_entries(storage.ports, "lake", "main", columns)


def test_an_empty_repository_has_no_entries(storage: Storage) -> None:
    assert rows(storage.ports) == []


def test_a_ref_is_resolved_by_the_call(storage: Storage) -> None:
    first = storage.commit(a="1")
    later = graveler.read_entries(storage.ports, "lake", "main", ["path"])
    storage.commit(b="2")
    assert [row for batch in later for row in batch.to_pylist()] == [{"path": "a"}]
    assert len(rows(storage.ports)) == 2
    assert rows(storage.ports, "main~1") == rows(storage.ports, first) == rows(storage.ports)[:1]
    with pytest.raises(NotFound):
        graveler.read_entries(storage.ports, "lake", "nothing")
    with pytest.raises(NotFound):
        graveler.read_entries(storage.ports, "no-lake", "main")


def test_expired_content_is_gone(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=7))
    old = storage.commit(a="old")
    storage.commit(a="new")
    storage.wait(8 * DAY)
    storage.collect()
    with pytest.raises(Gone):
        graveler.read_entries(storage.ports, "lake", old)


def test_ranges_in_memory_are_read_too() -> None:
    lake: Lake = new_lake()
    lake.commit_of(a="1", b="2")
    found = rows(lake.ports, name=lake.repo.id)
    assert {row["path"]: row["checksum"] for row in found} == lake.tree()


# ---- beside a server -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with served(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


@pytest.fixture
def session(live: Live) -> Session:
    return connect(live.client.url, ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)


def test_a_server_names_what_this_process_reads(live: Live, session: Session) -> None:
    repo = live.fresh_repository()
    source = Server(session, f"local:{live.store}/objects")
    assert rows(source, name=repo) == []
    for path in ("a/1", "a/2", "b/1"):
        live.client.upload(repo, path, path.encode())
    assert (
        live.client.send(
            "POST", f"/repositories/{repo}/branches/main/commits", body={"message": "m"}
        ).status
        == 201
    )
    live.client.upload(repo, "staged", b"")
    found = rows(source, name=repo, prefix="a/")
    assert [row["path"] for row in found] == ["a/1", "a/2"]
    assert [row["size"] for row in found] == [3, 3]
    with pytest.raises(NotFound):
        graveler.read_entries(source, repo, "nothing")
    with pytest.raises(NotFound):
        graveler.read_entries(source, "no-such-lake", "main")


# ---- without pyarrow -----------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["{package}"] = None
import graveler
reader = graveler.read_entries
assert "graveler.arrow.entries" not in sys.modules
try:
    reader(None, "lake", "main")
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["pyarrow", "numpy"])
def test_a_missing_package_is_named_with_its_extra(package: str) -> None:
    script = WITHOUT.format(package=package)
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == (
        f"package {package} is not installed: it comes with pip install 'graveler[arrow]'"
    )


def test_naming_the_reader_loads_no_dependency() -> None:
    script = "import sys, graveler; graveler.read_entries; print(chr(10).join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"pyarrow", "numpy", "rocksdict", "botocore"} & set(ran.stdout.split()) == set()
    with pytest.raises(AttributeError, match="no attribute 'write_entries'"):
        graveler.write_entries  # noqa: B018


def test_the_batches_are_arrow(storage: Storage) -> None:
    filled(storage)
    table = pa.Table.from_batches(graveler.read_entries(storage.ports, "lake", "main"))
    assert table.num_rows == len(PATHS) + 1
    assert str(table.schema.field("metadata").type) == "map<string, string>"
