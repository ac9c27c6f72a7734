"""DuckDB's extension httpfs, unmodified, on branches."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.clients.elsewhere import ClientError, Elsewhere, program
from tests.gateway.lake import MANY, REGION, Lake

MIB = 1 << 20
NAMES = ["a b", "a+b", "a%2Fb", "a%b", "a&b", "ü", "😀", 'q"<>', "=;@:$,", "!~()", "b\\c"]


_EXTENSION = "lib/*/site-packages/duckdb_extension_httpfs/extensions/*/httpfs.duckdb_extension"


def extension() -> Path:
    """The file of the extension httpfs."""
    found = sorted(Path(program("python")).parents[1].glob(_EXTENSION))
    assert found, "no extension httpfs in the environment of the clients: `make setup`"
    return found[-1]


class Database:
    """A database in the other process, with the extension and a secret."""

    def __init__(self, away: Elsewhere, name: str, there: Lake, **more: Any) -> None:
        self._away, self._name = away, name
        key = more.pop("key", there.key)
        url = urlsplit(more.pop("url", there.url))
        away.keep(name, "duckdb:connect")
        self(f"LOAD '{extension()}'")
        for setting, value in more.items():
            self(f"SET {setting} = '{value}'")
        self(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key.access_key_id}', "
            f"SECRET '{key.secret_access_key}', REGION '{REGION}', ENDPOINT '{url.netloc}', "
            f"URL_STYLE 'path', USE_SSL {url.scheme == 'https'})"
        )

    def __call__(self, statement: str) -> Any:
        """The rows that a statement returns."""
        self._away.keep("rows", f"@{self._name}.execute", statement)
        return self._away("@rows.fetchall")


@pytest.fixture(scope="module")
def db(there: Lake, away: Elsewhere) -> Database:
    return Database(away, "db", there)


@pytest.fixture
def uri(place: str) -> str:
    return f"s3://{place}"


def test_duckdb_writes_and_reads_tables(db: Database, uri: str) -> None:
    table = "SELECT range AS id, range % 3 AS day FROM range(3000)"
    for kind in ("parquet", "csv", "json"):
        db(f"COPY ({table}) TO '{uri}/t.{kind}'")
        assert db(f"SELECT count(*), max(id), sum(day) FROM '{uri}/t.{kind}'") == [
            (3_000, 2_999, 3_000)
        ]
    assert db(f"SELECT size FROM read_blob('{uri}/t.csv')")[0][0] > 3_000
    db(f"COPY (SELECT 1 AS id) TO '{uri}/t.parquet'")
    assert db(f"SELECT * FROM '{uri}/t.parquet'") == [(1,)]


def test_duckdb_reads_ranges(db: Database, uri: str) -> None:
    """Of a file with 49 row groups it reads those that the filter leaves."""
    table = "SELECT range AS id, md5(range::VARCHAR) AS text FROM range(100_000)"
    db(f"COPY ({table}) TO '{uri}/r.parquet' (ROW_GROUP_SIZE 2048)")
    found = db(f"SELECT count(*), min(id) FROM '{uri}/r.parquet' WHERE id BETWEEN 50000 AND 50010")
    assert found == [(11, 50_000)]
    plan = db(f"EXPLAIN ANALYZE SELECT sum(id) FROM '{uri}/r.parquet' WHERE id < 10")[0][1]
    kibibytes = re.search(r"in: ([\d.]+) KiB", plan)
    assert kibibytes and float(kibibytes[1]) < 200
    assert db(f"SELECT size > 3_000_000 FROM read_blob('{uri}/r.parquet')") == [(True,)]


def test_duckdb_uses_odd_names(db: Database, there: Lake, uri: str) -> None:
    for name in NAMES:
        db(f"COPY (SELECT '{name}' AS name) TO '{uri}/{name}.parquet'")
        if "\\" not in name:  # it reads that name as a pattern
            assert db(f"SELECT name FROM '{uri}/{name}.parquet'") == [(name,)]
    found = db(f"SELECT name FROM '{uri}/*.parquet' ORDER BY filename")
    assert [name for (name,) in found] == sorted(NAMES, key=str.encode)


def test_duckdb_uses_patterns(db: Database, there: Lake, uri: str) -> None:
    (found,) = db(f"SELECT list(file) FROM glob('s3://{there.repo}/main/many/*')")[0]
    assert found == [f"s3://{there.repo}/main/{path}" for path in MANY]
    texts = db(f"SELECT content FROM read_text('s3://{there.repo}/main/many/*0[03]')")
    expected = [path for path in MANY if path.endswith(("00", "03"))]
    assert [text for (text,) in texts] == expected
    assert db(f"SELECT file FROM glob('{uri}/none/*')") == []


def test_duckdb_writes_partitions(db: Database, uri: str) -> None:
    """And writes them over: it deletes what was there."""
    table = "SELECT range AS id, range % 3 AS day FROM range(3000)"
    partitions = "FORMAT parquet, PARTITION_BY (day)"
    db(f"COPY ({table}) TO '{uri}/days' ({partitions})")
    files = [f"{uri}/days/day={day}/data_0.parquet" for day in range(3)]
    assert db(f"SELECT file FROM glob('{uri}/days/**')") == [(file,) for file in files]
    days = f"read_parquet('{uri}/days/**/*.parquet', hive_partitioning = true)"
    assert db(f"SELECT count(*), max(id) FROM {days} WHERE day = 1") == [(1_000, 2_998)]
    with pytest.raises(ClientError, match="not empty"):
        db(f"COPY ({table}) TO '{uri}/days' ({partitions})")
    db(f"COPY (SELECT 1 AS id, 7 AS day) TO '{uri}/days' ({partitions}, OVERWRITE)")
    assert db(f"SELECT id, day FROM {days}") == [(1, 7)]


def test_duckdb_writes_in_parts(db: Database, there: Lake, uri: str) -> None:
    """Its parts have 5 MiB at least, and more if the largest file is said to be larger."""
    db("SET s3_uploader_max_filesize = '50GB'")
    rows = 5 * MIB * 2 // 33 + 1_000
    db(f"COPY (SELECT md5(range::VARCHAR) AS x FROM range({rows})) TO '{uri}/a.csv' (HEADER false)")
    found = db(f"SELECT count(*), max(x) FROM read_csv('{uri}/a.csv', header = false, names=['x'])")
    assert found == db(f"SELECT count(*), max(md5(range::VARCHAR)) FROM range({rows})")
    name = f"{uri}/a.csv".removeprefix(f"s3://{there.repo}/")
    head = there.boto().head_object(Bucket=there.repo, Key=name)
    assert head["ContentLength"] == 33 * rows
    assert int(head["ETag"].strip('"').partition("-")[2]) > 1


def test_duckdb_reads_commits(db: Database, there: Lake) -> None:
    for ref, body in (("v1", "before"), (there.commit, "before"), ("main", "after")):
        where = f"s3://{there.repo}/{ref}/kept/a"
        assert db(f"SELECT content FROM read_text('{where}')") == [(body,)]
    with pytest.raises(ClientError, match="404"):
        db(f"SELECT * FROM 's3://{there.repo}/main/none.parquet'")
    with pytest.raises(ClientError, match="405"):
        db(f"COPY (SELECT 1) TO 's3://{there.repo}/v1/a.parquet'")


def test_duckdb_writes_over_https(there: Lake, away: Elsewhere, uri: str) -> None:
    given = {"url": there.tls.url, "ca_cert_file": str(there.tls.certificate)}
    db = Database(away, "secured", there, **given)
    db(f"COPY (SELECT 1 AS id) TO '{uri}/a.parquet'")
    assert db(f"SELECT * FROM '{uri}/*.parquet'") == [(1,)]


def test_duckdb_is_told_what_is_denied(db: Database, there: Lake, away: Elsewhere) -> None:
    with pytest.raises(ClientError, match="ErrWriteToProtectedBranch"):
        db(f"COPY (SELECT 1) TO 's3://{there.repo}/protected/a.csv'")
    there.may_read("kept")
    few = Database(away, "few", there, key=there.somebodys_key)
    kept = f"s3://{there.repo}/main/kept"
    assert few(f"SELECT content FROM read_text('{kept}/a')") == [("after",)]
    with pytest.raises(ClientError, match="403"):
        few(f"COPY (SELECT 1) TO '{kept}/b.csv'")
    with pytest.raises(ClientError, match="403"):
        few(f"SELECT content FROM read_text('s3://{there.repo}/main/many/0001')")
