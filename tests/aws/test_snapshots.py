"""Published snapshots: delta-rs, unmodified, reads tables of commits from the bucket."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graveler
from graveler import Branch, Repository
from graveler.api.local import open_service
from graveler.assembly.aws import StorageSigns, aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.auth import accounts
from graveler.core import limits
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.ids import RepositoryId
from graveler.core.settings import Deployment
from graveler.engine import snapshots
from graveler.engine.gc import retention
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.http.service import ServiceSettings
from graveler.lake import errors
from graveler.lake.connections import Connections, Request
from graveler.lake.snapshots import Snapshot
from graveler.refs import repositories
from tests.api.serving import ADMINISTRATOR, USER, listening
from tests.aws.buckets import create_bucket
from tests.aws.tables import new_table
from tests.draws import seed, seeds
from tests.gateway.clients.elsewhere import Elsewhere, elsewhere
from tests.support.clockwork import TickingClock

DAY = date(2026, 1, 1)


class Deployed(NamedTuple):
    """A repository on the engine, and the ports of its service."""

    repository: Repository
    ports: Ports


@pytest.fixture(scope="module")
def deployed(
    engine: str, session: AwsSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    name, ids = f"s{SystemIds().unique(20)}", SystemIds()
    create_bucket(session, name)
    new_table(session, name)
    folder = str(tmp_path_factory.mktemp("cache"))
    made = Deployment(name, "", (name,), cache_folder=folder, endpoint_url=engine)
    ports, secret = ports_of(aws_drivers(session, made, ids), bytes(32)), bytes(32)
    with suppress(errors.AlreadyExists):
        accounts.create(
            accounts.keeper(ports.kv, ports.clock, ids, secret), USER, "", ADMINISTRATOR
        )
    settings = ServiceSettings(blockstore_type="s3", presigns=True)
    with listening(open_service(ports, StorageSigns(), secret, settings)) as (client, _):
        key, secret_key = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        lake = graveler.connect(client.url, key, secret_key)
        repository = lake.create_repository("shop", namespace=f"s3://{name}/shop")
        yield Deployed(repository, ports)


@pytest.fixture
def main(deployed: Deployed) -> Branch:
    return deployed.repository.branch("main")


class Engines(NamedTuple):
    """The other process, which has no Graveler, and what it needs to open the bucket."""

    away: Elsewhere
    options: Mapping[str, str]

    def delta_rs(self, address: str, rest: str = "", **more: Any) -> pa.Table:
        statement = f"SELECT * FROM t {rest}"
        found: pa.Table = self.away("delta_calls:query", address, self.options, statement, **more)
        return found


@pytest.fixture(scope="module")
def engines(engine: str) -> Iterator[Engines]:
    options = {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_region": "us-east-1",
        "aws_endpoint_url": engine,
        "aws_allow_http": "true",
    }
    with elsewhere({}) as away:
        yield Engines(away, options)


def put(main: Branch, path: str, rows: pa.Table, **more: Any) -> None:
    with main.open(path, "wb") as file:
        pq.write_table(rows, file, **more)


def orders(main: Branch, folder: str) -> None:
    for day in range(3):
        rows = pa.table({"id": [10 * day + n for n in range(4)], "amount": [1.5, None, 2.5, 3.0]})
        put(main, f"{folder}/day=2026-01-0{day + 1}/part-0.parquet", rows)
    main.write_bytes(f"{folder}/_SUCCESS", b"")
    main.commit("orders")


def test_engines_without_graveler_read_a_table_of_a_commit(main: Branch, engines: Engines) -> None:
    orders(main, "first")
    commit = main.pin()
    made = commit.publish("first/")
    assert made.address.endswith(f"/_graveler/snapshots/{commit.id}/first") and not made.version
    main.delete("first/")
    main.commit("gone")
    wanted = sorted(10 * day + n for day in range(3) for n in range(4))
    found = engines.delta_rs(made.address)
    assert sorted(found.column("id").to_pylist()) == wanted
    assert set(found.column("day").to_pylist()) == {date(2026, 1, day) for day in (1, 2, 3)}
    one = engines.delta_rs(made.address, "WHERE day = '2026-01-02' AND id = 11")
    assert one.to_pylist() == [{"id": 11, "amount": None, "day": date(2026, 1, 2)}]
    pruned = engines.delta_rs(made.address, "WHERE day = '2026-01-03'")
    assert sorted(pruned.column("id").to_pylist()) == [20, 21, 22, 23]


def test_a_name_keeps_its_address_and_each_call_makes_a_version(
    main: Branch, engines: Engines
) -> None:
    orders(main, "daily")
    first = main.publish("daily/", name="prod/daily")
    assert main.publish("daily", name="prod/daily") == first  # nothing has changed
    main.delete("daily/day=2026-01-01/")
    put(main, "daily/day=2026-01-04/part-0.parquet", pa.table({"id": [40], "note": ["new"]}))
    main.commit("a day goes, a day comes")
    second = main.publish("daily/", name="prod/daily")
    assert (second.address, second.version) == (first.address, 1)
    found = engines.delta_rs(second.address)
    assert sorted(found.column("id").to_pylist()) == [10, 11, 12, 13, 20, 21, 22, 23, 40]
    assert [each for each in found.column("note").to_pylist() if each] == ["new"]
    assert engines.delta_rs(first.address, version=0).num_rows == 12
    listed = main.repository.snapshots("prod/").all()
    assert [(each.name, each.version) for each in listed] == [("prod/daily", 1)]


def opened(ports: Ports) -> OpenRepository:
    return open_repository(ports, repositories.get(ports.kv, RepositoryId("shop")))


COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "whole": (pa.int32(), lambda drawn: drawn.randint(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), lambda drawn: drawn.randint(-(2**63), 2**63 - 1)),
    "short": (pa.int16(), lambda drawn: drawn.randint(-(2**15), 2**15 - 1)),
    "fraction": (pa.float64(), lambda drawn: drawn.choice([-0.0, 1.5, float("inf"), 1e300])),
    "text": (pa.string(), lambda drawn: drawn.choice(["", "a", "ü" * 9, "😀", "x" * 90])),
    "truth": (pa.bool_(), lambda drawn: drawn.random() < 0.5),
    "bytes": (pa.binary(), lambda drawn: drawn.randbytes(3)),
    "date": (pa.date32(), lambda drawn: DAY + timedelta(drawn.randint(-40_000, 40_000))),
    "price": (pa.decimal128(12, 2), lambda drawn: Decimal(drawn.randint(-(10**9), 10**9)) / 100),
    "exact": (pa.decimal128(30, 4), lambda drawn: Decimal(drawn.randint(0, 10**25)) / 10_000),
    "at": (
        pa.timestamp("us", "UTC"),
        lambda drawn: (
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=drawn.randint(0, 10**12))
        ),
    ),
    "seen": (
        pa.timestamp("us"),
        lambda drawn: datetime(2026, 1, 1) + timedelta(microseconds=drawn.randint(0, 10**12)),
    ),
    "many": (pa.list_(pa.int64()), lambda drawn: [drawn.randint(0, 9) for _ in range(3)]),
    "pair": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda drawn: {"a": drawn.randint(0, 9), "b": "b"},
    ),
}
FOLDERS = (
    *("day=2026-01-01", "day=2026-01-02", "day=__HIVE_DEFAULT_PARTITION__"),
    *("number=007", "number=12", "name=S%C3%A3o", "name=a b", "name=100%25"),
    *("when=2026-01-01 10%3A00%3A00.5", "when=2026-01-02"),
)


def a_table(main: Branch, folder: str, drawn: random.Random) -> None:
    """Some files, some of which lack columns, in folders of one column or in none."""
    names = drawn.sample(sorted(COLUMNS), drawn.randint(1, 5))
    kind = drawn.choice(["day", "number", "name", "when", ""])
    below = [f"{each}/" for each in FOLDERS if kind and each.startswith(kind)] or [""]
    for number in range(drawn.randint(1, 4)):
        rows = drawn.choice([0, 1, 30])
        some = ["id", *(each for each in names if not number or drawn.random() < 0.8)]
        columns = {"id": pa.array(range(100 * number, 100 * number + rows), pa.int64())}
        for name in some[1:]:
            arrow, make = COLUMNS[name]
            values = [None if drawn.random() < 0.2 else make(drawn) for _ in range(rows)]
            columns[name] = pa.array(values, arrow)
        more = {"row_group_size": drawn.choice([7, 1_000])}
        put(main, f"{folder}/{drawn.choice(below)}part-{number}.parquet", pa.table(columns), **more)
    main.commit("a table")


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("number", seeds(6, 50))
def test_engines_find_the_rows_that_the_library_finds(
    main: Branch, engines: Engines, number: int
) -> None:
    drawn = random.Random(f"{seed()} {number}")
    folder = f"random/{number}"
    a_table(main, folder, drawn)
    table = main.publish(folder)
    away = {each.path: each for each in main.list(f"{folder}/")}
    wanted = []
    for path in away:
        with main.open(path, "rb") as file:
            wanted += pq.ParquetFile(file).read().to_pylist()
    found = engines.delta_rs(table.address)
    names = [name for name in found.column_names if name in COLUMNS or name == "id"]
    rows = [tuple(row.get(name) for name in names) for row in wanted]
    assert in_order([tuple(row[name] for name in names) for row in found.to_pylist()]) == in_order(
        rows
    )
    assert engines.delta_rs(table.address, "WHERE id >= 100").num_rows == sum(
        row[names.index("id")] >= 100 for row in rows
    )


def test_partitions_have_the_types_of_the_library(main: Branch, engines: Engines) -> None:
    for folder in FOLDERS:
        name = folder.partition("=")[0]
        put(main, f"typed/{name}/{folder}/part-0.parquet", pa.table({"id": [1]}))
    main.commit("tables")
    values = {
        name: set(engines.delta_rs(main.publish(f"typed/{name}").address).column(name).to_pylist())
        for name in ("day", "number", "name", "when")
    }
    assert values["day"] == {date(2026, 1, 1), date(2026, 1, 2), None}
    assert values["number"] == {7, 12}
    assert values["name"] == {"São", "a b", "100%"}
    assert values["when"] == {
        datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
    }


def test_a_stored_schema_says_the_types_and_the_columns(main: Branch, engines: Engines) -> None:
    """That of `graveler/spark/table_schema.py`: the folder's values look like numbers, and no file
    has the last column."""
    kinds = {"id": "long", "later": "date", "code": "string"}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    stored = {
        "version": 1,
        "format": "parquet",
        "partition_by": ["code"],
        "schema": {"type": "struct", "fields": fields},
    }
    put(main, "stored/code=007/part-0.parquet", pa.table({"id": [1]}))
    main.write_text("stored/_schema.json", json.dumps(stored))
    main.commit("a table")
    found = engines.delta_rs(main.publish("stored").address)
    assert found.to_pylist() == [{"id": 1, "later": None, "code": "007"}]
    main.write_text("stored/_schema.json", "[]")
    with pytest.raises(errors.Corrupt, match=r"_schema\.json"):
        main.commit("damage").publish("stored")


def test_addresses_of_imported_files_are_escaped(
    main: Branch, engines: Engines, session: AwsSession, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), file)
    bucket = urlsplit(main.repository.namespace).netloc
    client = session.client("s3", options={"s3": {"addressing_style": "path"}})
    key = "land ing/50%25=ü/a[1].parquet"
    client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
    checksum = client.head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
    client.close()
    size = file.stat().st_size
    main.stage("imported/a.parquet", f"s3://{bucket}/{key}", size=size, checksum=checksum)
    main.commit("imported")
    made = main.publish("imported")
    assert engines.delta_rs(made.address).num_rows == 2


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        (pa.table({"n": pa.array([1], pa.uint32())}), errors.Unsupported, "uint32"),
        (pa.table({"t": pa.array([1], pa.timestamp("ns"))}), errors.Unsupported, "timestamp"),
        (pa.table({"id": ["text"]}), errors.Invalid, "id long in"),
    ],
)
def test_what_delta_cannot_say_is_refused(
    main: Branch, rows: pa.Table, kind: type[Exception], text: str
) -> None:
    put(main, "refused/a.parquet", pa.table({"id": [1]}))
    put(main, "refused/b.parquet", rows)
    with pytest.raises(kind, match=text):
        main.commit("b").publish("refused/")
    main.delete("refused/")
    main.commit("gone")
    with pytest.raises(errors.NotFound, match="no data files"):
        main.publish("refused/")
    main.write_text("refused/c.csv", "id")
    with pytest.raises(errors.Corrupt, match=r"c\.csv"):
        main.commit("c").publish("refused/")
    assert not main.repository.snapshots(f"{main.head}/refused").all()
    main.delete("refused/")
    main.commit("gone")


def test_a_collection_keeps_what_is_published(deployed: Deployed, main: Branch) -> None:
    repository, ports = deployed
    orders(main, "kept")
    old = main.pin()
    main.delete("kept/")
    now = main.commit("gone")
    repo = opened(ports)
    assert old.id not in retention.list_refs(repo).heads.commits
    first = old.publish("kept/", name="kept")
    assert {old.id, now.id} <= retention.list_refs(repo).heads.commits
    orders(main, "kept")
    second = main.publish("kept/", name="kept")
    assert {old.id, second.commit} <= retention.list_refs(repo).heads.commits  # readers of both
    repository.withdraw("kept")
    assert old.id not in retention.list_refs(repo).heads.commits
    folder = f"{first.address}/_delta_log/"
    assert not ports.blocks.list(folder, "", 10).lines
    with pytest.raises(errors.NotFound):
        repository.withdraw("kept")


def test_a_publication_that_ended_early_goes_on(
    deployed: Deployed, main: Branch, engines: Engines
) -> None:
    """The version is claimed, and nobody puts its file: readers see the version before, whose files
    are kept, too."""
    orders(main, "early")
    first = main.publish("early/", name="early")
    put(main, "early/day=2026-01-09/part-0.parquet", pa.table({"id": [90]}))
    second = main.commit("more")
    repo = opened(deployed.ports)
    snapshots.begin(repo, "early", second.id, "early/", 1)
    assert engines.delta_rs(first.address).num_rows == 12
    assert {first.commit, second.id} <= retention.list_refs(repo).heads.commits
    put(main, "early/day=2026-01-10/part-0.parquet", pa.table({"id": [100]}))
    with pytest.raises(errors.Conflict, match="being published"):
        main.commit("even more").publish("early/", name="early")
    done: Snapshot = second.publish("early/", name="early")
    assert done.version == 1 and engines.delta_rs(done.address).num_rows == 13


def log_file(repo: OpenRepository, name: str, version: int) -> str:
    return f"{snapshots.table_address(repo, name)}/_delta_log/{version:020}.json"


def test_a_withdrawal_waits_until_nobody_can_put_the_file(deployed: Deployed, main: Branch) -> None:
    """A file that came after it would show a table whose files nothing keeps."""
    orders(main, "late")
    repo, repository = opened(deployed.ports), deployed.repository
    snapshots.begin(repo, "late", "main", "late/", 0)
    with pytest.raises(errors.Conflict, match="being published"):
        repository.withdraw("late")
    assert [each.name for each in repository.snapshots("late").all()] == ["late"]
    repo.blocks.put(log_file(repo, "late", 0), [b"{}"])
    repository.withdraw("late")
    snapshots.begin(repo, "late", "main", "late/", 0)  # and dies
    an_hour_later = TickingClock(repo.clock.now_ns() + 3_600 * limits.SECOND_NS)
    snapshots.withdraw(replace(repo, clock=an_hour_later), "late")
    assert not repository.snapshots("late").all()


def test_a_log_without_a_record_is_withdrawn_before_the_name_is_used(
    deployed: Deployed, main: Branch
) -> None:
    """A withdrawal that died has left it, or the repository that was restored."""
    orders(main, "left")
    repo, repository = opened(deployed.ports), deployed.repository
    for version in (0, 1):
        repo.blocks.put(log_file(repo, "left", version), [b"{}"])
    repo.blocks.delete(log_file(repo, "left", 0))
    with pytest.raises(errors.Conflict, match="log without a record"):
        main.publish("left", name="left")
    assert not repository.snapshots("left").all()
    repository.withdraw("left")
    assert main.publish("left", name="left").version == 0
    assert [each.name for each in repository.snapshots("left").all()] == ["left"]


def test_of_two_that_publish_one_version_one_is_told(deployed: Deployed, main: Branch) -> None:
    orders(main, "two")
    repo = opened(deployed.ports)
    begun = snapshots.begin(repo, "two", "main", "two/", 0)
    deployed.ports.blocks.put(log_file(repo, "two", 0), [b"{}"])
    assert snapshots.begin(repo, "two", "main", "two/", 0).url == ""
    later = main.commit("another", allow_empty=True)
    with pytest.raises(errors.PreconditionFailed, match="other versions"):
        repository = deployed.repository
        body = {"name": "two", "ref": later.id, "path": "two/", "version": 0}
        repository._call("POST", "snapshots", body=body)
    assert begun.url and limits.presign_seconds_max


def test_a_store_that_refuses_the_log_is_unavailable(
    main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders(main, "refusing")
    send = Connections.send

    def refusing(self: Connections, request: Request) -> Any:
        if request.method == "PUT" and "_delta_log" in request.url:
            request = replace(request, url=f"{main.repository.lake.url}/api/v1/nothing")
        return send(self, request)

    monkeypatch.setattr(Connections, "send", refusing)
    with pytest.raises(errors.Unavailable, match="refused the log: status=4"):
        main.publish("refusing/", name="refusing")


@pytest.mark.parametrize("name", ["../up", "/a", "a//b", "a b", "ü", "", ".a", "a/_delta_log/b"])
def test_names_that_are_no_places_are_refused(main: Branch, name: str) -> None:
    body = {"name": name, "ref": "main", "path": "", "version": 0}
    with pytest.raises(errors.Invalid, match="name of a snapshot"):
        main.repository._call("POST", "snapshots", body=body)
