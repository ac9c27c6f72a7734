"""delta-rs (the package deltalake), unmodified: Delta tables on branches."""

import random
from typing import Any

import pyarrow
import pytest

from tests.gateway.clients.elsewhere import ClientError, Elsewhere
from tests.gateway.lake import EASY_NAMES, Lake

MIB = 1 << 20
FOLDERS = ["a b", "a+b", "a%b", "a&b", "ü", "😀", "q\"'<>"]  # those that its URLs can name
ROWS = pyarrow.table({"id": list(range(3_000)), "day": [each % 3 for each in range(3_000)]})


class Table:
    """A table that is open in the other process (delta_calls.py)."""

    def __init__(self, away: Elsewhere, name: str, uri: str, given: dict[str, str]) -> None:
        self._away, self._name = away, f"table {name}"
        away.keep(self._name, "delta_calls:Table", uri, given)

    def __getattr__(self, method: str) -> Any:
        return lambda *given, **named: self._away(f"@{self._name}.{method}", *given, **named)


class Tables:
    """Writes and opens tables with the settings of one caller."""

    def __init__(self, away: Elsewhere, given: dict[str, str]) -> None:
        self._away, self._given = away, given

    def write(self, uri: str, rows: pyarrow.Table, **more: Any) -> None:
        self._away("deltalake:write_deltalake", uri, rows, storage_options=self._given, **more)

    def open(self, uri: str, name: str = "one") -> Table:
        return Table(self._away, name, uri, self._given)


@pytest.fixture(scope="module")
def tables(there: Lake, away: Elsewhere) -> Tables:
    return Tables(away, there.storage_options())


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}"


def test_deltalake_writes_and_reads_tables(tables: Tables, uri: str) -> None:
    tables.write(uri, ROWS, partition_by=["day"])
    table = tables.open(uri)
    assert table.rows().select(["id", "day"]).equals(ROWS)
    some = table.rows(partitions=[("day", "=", 1)], columns=["id"])
    assert some.column("id").to_pylist() == list(range(1, 3_000, 3))
    tables.write(uri, ROWS.slice(0, 3), mode="overwrite")
    assert tables.open(uri).rows().num_rows == 3


def test_deltalake_changes_tables(tables: Tables, uri: str) -> None:
    """Its log grows by conditional PUTs; a checkpoint and a vacuum follow."""
    tables.write(uri, ROWS.slice(0, 2))
    table = tables.open(uri)
    table.append(ROWS.slice(2, 2))
    table.delete("id = 0")
    table.merge(pyarrow.table({"id": [1, 9], "day": [7, 7]}))
    table.compact()
    assert table.rows().to_pydict() == {"id": [1, 2, 3, 9], "day": [7, 2, 0, 7]}
    made = ["WRITE", "WRITE", "DELETE", "MERGE", "OPTIMIZE"]
    assert table.operations() == made
    assert table.vacuum()
    table.checkpoint()
    again = tables.open(uri)
    assert (again.rows().num_rows, len(again.files())) == (4, 1)


def test_deltalake_commits_once_when_two_write(tables: Tables, uri: str) -> None:
    """The second one has read the same version: its PUT of the next version is refused with 412,
    so it reads what the first one has committed and takes the version after it."""
    tables.write(uri, ROWS.slice(0, 1))
    first, second = tables.open(uri, "first"), tables.open(uri, "second")
    first.append(ROWS.slice(1, 1))
    second.append(ROWS.slice(2, 1))
    found = tables.open(uri)
    assert found.rows().column("id").to_pylist() == [0, 1, 2]
    assert found.operations() == ["WRITE"] * 3
    with pytest.raises(ClientError, match="already exists"):
        tables.write(uri, ROWS.slice(0, 1), mode="error")


def test_deltalake_uses_odd_names(tables: Tables, uri: str) -> None:
    """As folders of tables, and as values of partitions, which it encodes itself."""
    for name in FOLDERS:
        tables.write(f"{uri}/{name}", ROWS.slice(0, 1))
        assert tables.open(f"{uri}/{name}").rows().num_rows == 1
    rows = pyarrow.table({"id": list(range(len(EASY_NAMES))), "name": list(EASY_NAMES)})
    tables.write(f"{uri}/names", rows, partition_by=["name"])
    assert tables.open(f"{uri}/names").rows().select(["id", "name"]).equals(rows)


def test_deltalake_writes_in_parts(tables: Tables, uri: str) -> None:
    """64 MiB that do not compress."""
    body = random.Random(1).randbytes(MIB)
    rows = pyarrow.table({"id": list(range(64)), "body": [bytes((n,)) + body for n in range(64)]})
    tables.write(uri, rows)
    found = tables.open(uri).rows()
    assert found.column("body").to_pylist() == rows.column("body").to_pylist()


def test_deltalake_lists_more_than_one_page(tables: Tables, there: Lake, uri: str) -> None:
    """Vacuum deletes what it finds in the folder of a table and the log does not name."""
    tables.write(uri, ROWS.slice(0, 1))
    folder = uri.removeprefix(f"s3://{there.repo}/main/") + "/"
    stale = [f"{folder}{number:04}.parquet" for number in range(1_005)]
    there.stage(stale)
    deleted = tables.open(uri).vacuum()
    assert len(deleted) == len(stale)
    (only,) = tables.open(uri).files()
    left = there.boto().list_objects_v2(Bucket=there.repo, Prefix=f"main/{folder}")["Contents"]
    kept = [each["Key"] for each in left if "_delta_log" not in each["Key"]]
    assert kept == [only.removeprefix(f"s3://{there.repo}/")]


def test_deltalake_writes_over_https(there: Lake, away: Elsewhere, uri: str) -> None:
    more = {"aws_endpoint_url": there.tls.url, "allow_invalid_certificates": "true"}
    secured = Tables(away, there.storage_options(**more))
    secured.write(uri, ROWS)
    assert secured.open(uri).rows().equals(ROWS)


def test_deltalake_reads_commits(tables: Tables, there: Lake, folder: str) -> None:
    """A commit of Graveler has the table with the versions that it had then."""
    below, send = f"/repositories/{there.repo}", there.gateway.live.client.send
    path = "other/" + folder.partition("/")[2].rstrip("/")
    tables.write(f"s3://{there.repo}/{path}", ROWS.slice(0, 1))
    made = send("POST", f"{below}/branches/other/commits", body={"message": "one row"})
    assert made.status == 201
    tables.open(f"s3://{there.repo}/{path}").append(ROWS.slice(1, 1))
    for ref, count in (("other", 2), (made.json["id"], 1)):
        table = tables.open(f"s3://{there.repo}/{path.replace('other', ref, 1)}")
        assert table.rows().num_rows == count
    with pytest.raises(ClientError, match="405"):
        table.append(ROWS.slice(2, 1))


def test_deltalake_is_told_what_is_denied(tables: Tables, there: Lake, away: Elsewhere) -> None:
    with pytest.raises(ClientError, match=r"(?s)DeltaError.*ErrWriteToProtectedBranch"):
        tables.write(f"s3://{there.repo}/protected/table", ROWS)
    there.may_read("kept")
    few = Tables(away, there.storage_options(key=there.somebodys_key))
    with pytest.raises(ClientError, match=r"(?s)DeltaError.*AccessDenied"):
        few.write(f"s3://{there.repo}/main/kept/table", ROWS)
