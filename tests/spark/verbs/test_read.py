"""Tables are read as they were at a ref, from physical files whatever they are called."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from graveler.core.errors import Invalid, NotFound, Unsupported
from graveler.lake.session import below
from graveler.spark import Lake, entries, import_
from graveler.spark.reads import Split, read, shared
from tests.spark.lakes import frame
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture


def put(lake: Lake, bucket: str, files: Mapping[str, pa.Table | bytes], target: str) -> str:
    """Objects with names that mean nothing, in a bucket beside the lake's, linked under the logical
    paths `files` below the target; the commit."""
    rows = []
    for number, (path, content) in enumerate(sorted(files.items())):
        out = io.BytesIO()
        if isinstance(content, bytes):
            out.write(content)
        else:
            pq.write_table(content, out, row_group_size=40)
        name = f"_o[{number}]-{len(path)}"
        file = Path(lake.store, "objects", bucket, f"{name}%")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(out.getvalue())
        address = f"local://{bucket}/{name}"
        rows.append((path, address, out.tell(), f"c{number}", 1_700_000_000_000_000, None, None))
    return import_(lake, frame(lake.spark, rows), target, "merge").commit


def table(begin: int, end: int) -> pa.Table:
    numbers = list(range(begin, end))
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{at}" for at in numbers]})


def sorted_rows(df: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.select(*names).collect()), key=repr)


def test_a_partitioned_table_comes_back_with_its_columns(lake: Lake, repository: str) -> None:
    files = {
        "t/year=2023/city=S%C3%A3o%20Paulo/a.parquet": table(0, 100),
        "t/year=2024/city=__HIVE_DEFAULT_PARTITION__/b.parquet": table(100, 130),
        "t/year=2024/city=x%3Dy/[c] {d}.parquet": table(130, 131),
        "t/_SUCCESS": b"",
        "t/.hidden/year=1/x.parquet": b"no parquet",
        "tables/other.parquet": b"no parquet",
    }
    put(lake, repository + "-a", files, f"{repository}/main")
    df = read(lake, f"{repository}/main/t")
    assert df.columns == ["id", "name", "year", "city"]
    kinds = [each.dataType for each in df.schema.fields]
    assert kinds == [T.LongType(), T.StringType(), T.IntegerType(), T.StringType()]
    expected = [(at, f"n{at}", 2023, "São Paulo") for at in range(100)]
    expected += [(at, f"n{at}", 2024, None) for at in range(100, 130)]
    expected += [(130, "n130", 2024, "x=y")]
    assert sorted_rows(df, "id", "name", "year", "city") == sorted(expected, key=repr)

    some = read(lake, f"{repository}/main/t/", columns=["year", "id"], partitions={"year": 2024})
    assert some.columns == ["year", "id"]
    assert sorted_rows(some, "year", "id") == [(2024, at) for at in range(100, 131)]
    none = read(lake, f"{repository}/main/t/", columns=["city"], partitions={"city": None})
    assert [row["city"] for row in none.collect()] == [None] * 30
    single = read(lake, f"{repository}/main/t/year=2024/city=x%3Dy/[c] {{d}}.parquet")
    assert sorted_rows(single, "id", "name") == [(130, "n130")]


@pytest.mark.one_version
def test_time_travel_by_commit_tag_and_distance(lake: Lake, repository: str) -> None:
    first = put(lake, repository + "-a", {"t/a": table(0, 10)}, f"{repository}/main")
    tag = {"id": "v1", "ref": first}
    lake.session.call("POST", below("repositories", repository, "tags"), tag)
    put(lake, repository + "-b", {"t/b": table(10, 25)}, f"{repository}/main")
    before = read(lake, f"{repository}/main/t")
    put(lake, repository + "-c", {"t/a": table(90, 91)}, f"{repository}/main")
    # A DataFrame stays at the commit that the branch had when it was made.
    assert before.count() == 25 and read(lake, f"{repository}/main/t").count() == 16
    for ref in (first, "v1", "main~2"):
        found = read(lake, f"lakefs://{repository}/{ref}/t")
        assert sorted_rows(found, "id") == [(at,) for at in range(10)]


def test_files_that_differ_meet_in_one_schema(lake: Lake, repository: str) -> None:
    """Columns that a file lacks are null; numbers may be narrower; a schema of one's own names
    what is wanted."""
    small = pa.table({"id": pa.array([7], pa.int32()), "more": [True]})
    files = {"t/p=01/a": table(0, 2), "t/p=02.5/b": small}
    put(lake, repository + "-a", files, f"{repository}/main")
    df = read(lake, f"{repository}/main/t")
    expected = [(0, "n0", None, 1.0), (1, "n1", None, 1.0), (7, None, True, 2.5)]
    assert sorted_rows(df, "id", "name", "more", "p") == expected
    assert df.columns == ["id", "name", "more", "p"]
    fields = [("id", T.LongType()), ("more", T.BooleanType()), ("p", T.StringType())]
    schema = T.StructType([T.StructField(*field) for field in fields])
    df = read(lake, f"{repository}/main/t", schema=schema)
    assert sorted_rows(df, "id", "more", "p") == [
        (0, None, "01"),
        (1, None, "01"),
        (7, True, "02.5"),
    ]


def test_damage_is_an_error_and_never_fewer_rows(lake: Lake, repository: str) -> None:
    bucket = repository + "-a"
    put(lake, bucket, {"t/a": table(0, 10), "t/b": table(10, 20)}, f"{repository}/main")
    df = read(lake, f"{repository}/main/t")
    address = [
        row["address"] for row in entries(lake, f"{repository}/main", prefix="t/b").collect()
    ]
    file = Path(lake.store, "objects", bucket, address[0].rpartition("/")[2] + "%")
    raw = file.read_bytes()
    for damaged in (raw[: len(raw) // 2], b"", b"x" * len(raw)):
        file.write_bytes(damaged)
        with pytest.raises(PySparkException, match=r"graveler\.core\.errors\."):
            df.collect()


def test_partition_values_that_no_file_has_give_no_rows(lake: Lake, repository: str) -> None:
    files = {f"t/p={at}/a": table(at, at + 1) for at in range(4)}
    put(lake, repository + "-a", files, f"{repository}/main")
    where = f"{repository}/main/t"
    none = read(lake, where, partitions={"p": 9})
    assert (none.columns, none.collect()) == (["id", "name", "p"], [])
    some = read(lake, where, partitions={"p": [1, 3, 9]}, columns="id")
    assert sorted_rows(some, "id") == [(1,), (3,)]
    text = read(lake, where, schema="id string, p bigint")
    assert text.dtypes == [("id", "string"), ("p", "bigint")] and text.count() == 4


def test_files_whose_types_do_not_fit_are_named(lake: Lake, repository: str) -> None:
    """Whatever the names of the files are; times of old writers have no zone, and mean UTC."""
    texts = pa.table({"id": ["x"], "name": ["y"]})
    put(lake, repository + "-a", {"t/b": table(0, 2), "t/a": texts}, f"{repository}/main")
    where = f"{repository}/main/t"
    with pytest.raises(Invalid, match="column=id string in 't/a' and bigint in 't/b'"):
        read(lake, where)
    assert read(lake, where, schema="name string").count() == 3
    out = io.BytesIO()
    moment = pa.array([0], pa.timestamp("us"))
    pq.write_table(pa.table({"at": moment}), out, use_deprecated_int96_timestamps=True)
    new = pa.table({"at": pa.array([1], pa.timestamp("us", "UTC"))})
    put(lake, repository + "-b", {"u/old": out.getvalue(), "u/new": new}, f"{repository}/main")
    df = read(lake, f"{repository}/main/u")
    assert df.dtypes == [("at", "timestamp")]
    assert sorted(row[0] for row in df.selectExpr("unix_micros(at)").collect()) == [0, 1]


@pytest.fixture(scope="module")
def two_tables(lake: Lake) -> str:
    """A repository with a table and with a file that is none."""
    body = {"name": "two-tables", "storage_namespace": "local://lake/two-tables"}
    lake.session.call("POST", "/repositories", body)
    put(lake, "two-tables-a", {"t/p=1/a": table(0, 1), "u/b": b"?"}, "two-tables/main")
    return "two-tables"


@pytest.mark.parametrize(
    ("where", "options", "kind", "says"),
    [
        ("main/nothing", {}, NotFound, "no data files"),
        ("nowhere/t", {}, NotFound, "ref: not found"),
        ("main/t", {"format": "avro"}, Unsupported, "format='avro'"),
        ("main/t", {"columns": ["idd"]}, Invalid, "unknown columns: idd of=id,name,p"),
        ("main/t", {"partitions": {"q": 1}}, Invalid, "unknown partition columns: q of=p"),
        ("main", {}, Invalid, "different columns: p and none"),
    ],
)
@pytest.mark.one_version
def test_what_cannot_be_read_is_refused(
    lake: Lake,
    two_tables: str,
    where: str,
    options: Mapping[str, Sequence[str]],
    kind: type[Exception],
    says: str,
) -> None:
    with pytest.raises(kind, match=says):
        read(lake, f"{two_tables}/{where}", **options)  # type: ignore[arg-type]


def test_small_files_share_a_task_and_large_splits_do_not() -> None:
    def sizes(*wanted: int) -> list[list[int]]:
        splits = [Split("", size, 0, 128 << 20, []) for size in wanted]
        return [[each.size for each in group] for group in shared(splits)]

    assert sizes() == []
    assert [len(group) for group in sizes(*[0] * 70)] == [32, 32, 6]
    assert [len(group) for group in sizes(*[60 << 20] * 4)] == [2, 2]
    assert sizes(128 << 20, 1, 300 << 20, 2, 3) == [[128 << 20], [1], [300 << 20], [2, 3]]
    halves = [Split("", 130 << 20, at << 20, (at + 128) << 20, []) for at in (0, 128)]
    assert shared(halves) == [halves[:1], halves[1:]]
