"""Random tables are the same for us, for Spark alone and for DuckDB, over the same files."""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from graveler.spark import Lake, Table
from tests.draws import seed, seeds
from tests.spark.plain import plain
from tests.spark.programs import ROOT, WAIT_SECONDS
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture
pytestmark = pytest.mark.one_version  # values pass through Spark in `files/test_partitions.py`
Draw = Callable[[random.Random], Any]

DAY, TIME = date(2026, 1, 1), datetime(2026, 1, 1, 10, tzinfo=UTC)
COLUMNS: Mapping[str, tuple[str, Draw]] = {
    "whole": ("int", lambda drawn: drawn.randint(-(2**31), 2**31 - 1)),
    "long": ("bigint", lambda drawn: drawn.randint(-(2**63), 2**63 - 1)),
    "short": ("smallint", lambda drawn: drawn.randint(-(2**15), 2**15 - 1)),
    "fraction": ("double", lambda drawn: drawn.choice([-0.5, 1.5, float("inf"), 1e300])),
    "single": ("float", lambda drawn: drawn.choice([-0.5, 1.5, 2.0**100])),
    "text": ("string", lambda drawn: drawn.choice(["", "a", "ü" * 9, "😀", "x" * 90, "null"])),
    "truth": ("boolean", lambda drawn: drawn.random() < 0.5),
    "bytes": ("binary", lambda drawn: bytearray(drawn.randbytes(3))),
    "date": ("date", lambda drawn: DAY + timedelta(drawn.randint(-40_000, 40_000))),
    "price": ("decimal(12,2)", lambda drawn: Decimal(drawn.randint(-(10**9), 10**9)) / 100),
    "exact": ("decimal(30,4)", lambda drawn: Decimal(drawn.randint(0, 10**25)) / 10_000),
    "at": (
        "timestamp",
        lambda drawn: TIME + timedelta(microseconds=drawn.randint(0, 10**12)),
    ),
    "seen": (
        "timestamp_ntz",
        lambda drawn: (TIME + timedelta(microseconds=drawn.randint(0, 10**12))).replace(
            tzinfo=None
        ),
    ),
    "many": ("array<bigint>", lambda drawn: [drawn.randint(0, 9) for _ in range(3)]),
    "pair": ("struct<a:int,b:string>", lambda drawn: (drawn.randint(0, 9), "b")),
}
FOLDERS: Mapping[str, tuple[str, Draw]] = {
    "day": ("date", lambda drawn: DAY + timedelta(drawn.randint(0, 2))),
    "number": ("int", lambda drawn: drawn.choice([-7, 0, 12])),
    "name": ("string", lambda drawn: drawn.choice(["São", "a b", "100%", "a/b=c", "007"])),
    "flag": ("boolean", lambda drawn: drawn.random() < 0.5),
}
# Rows of a folder of Parquet files, in the order of their ids, as JSON.
DUCKDB = """
import sys, duckdb
from tests.spark.plain import plain
folder, kinds, columns = sys.argv[1:]
duckdb.sql("SET TimeZone = 'UTC'")
files = f"read_parquet('{folder}/**/*.parquet', union_by_name = true, hive_partitioning = true"
files += f", hive_types = {kinds})" if kinds != "{}" else ")"
rows = duckdb.sql(f"SELECT {columns} FROM {files} ORDER BY id").to_arrow_table().to_pylist()
print(plain(row.values() for row in rows))
"""


@pytest.mark.parametrize("number", seeds(3, 50))
def test_all_engines_find_the_same_rows(
    lake: Lake, repository: str, tmp_path: Path, number: int
) -> None:
    drawn = random.Random(f"{seed()} {number}")
    table = lake.repository(repository).branch("main").table("t")
    rows = dict(append_some(lake, table, drawn))
    files = copied(lake, table, tmp_path / "files")
    schema = table.schema
    wanted = [[row.get(name) for name in schema.names] for _, row in sorted(rows.items())]
    ours = table.read()
    assert ours.schema == schema.struct
    alone = lake.spark.read.schema(schema.struct).parquet(str(files))
    expected = plain(wanted)
    assert in_order(ours) == expected
    assert in_order(alone) == expected
    assert of_duckdb(files, schema) == expected
    some = ours.where("id >= 100")
    assert in_order(table.read(where="id >= 100")) == in_order(some)


def append_some(
    lake: Lake, table: Table, drawn: random.Random
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Append rows some times: columns come later, or are missing.  Yields the rows by their
    ids."""
    by = drawn.sample(sorted(FOLDERS), drawn.randint(0, 2))
    names = drawn.sample(sorted(COLUMNS), drawn.randint(1, 6))
    known = drawn.sample(names, drawn.randint(1, len(names)))
    for time in range(drawn.randint(1, 3)):
        chosen = [name for name in known if drawn.random() < 0.8] if time else known
        kinds = {name: (COLUMNS | FOLDERS)[name] for name in (*chosen, *by)}
        count = drawn.choice([1, 30])
        rows = [
            {
                "id": 100 * time + at,
                **{
                    name: None if drawn.random() < 0.2 else make(drawn)
                    for name, (_, make) in kinds.items()
                },
            }
            for at in range(count)
        ]
        words = ", ".join(["id bigint", *(f"{name} {kind}" for name, (kind, _) in kinds.items())])
        df = lake.spark.createDataFrame([tuple(row.values()) for row in rows], words)
        table.append(df.repartition(2), partition_by=by or None, merge_schema=True)
        yield from ((row["id"], row) for row in rows)
        known = names


def copied(lake: Lake, table: Table, folder: Path) -> Path:
    """The data files of the table under the names that they have on the branch."""
    for file in table.files():
        to = folder / file.path.removeprefix("t/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(lake.store, "objects", file.address.removeprefix("local://")), to)
    return folder


def in_order(df: DataFrame) -> str:
    """A time as its microseconds: Python would get it in the zone of this machine."""
    columns = [
        F.unix_micros(each.name) if isinstance(each.dataType, T.TimestampType) else each.name
        for each in df.schema
    ]
    return plain(tuple(row) for row in df.orderBy("id").select(*columns).collect())


def of_duckdb(folder: Path, schema: Any) -> str:
    """DuckDB is in another environment."""
    kinds = {name: FOLDERS[name][0] for name in schema.partition_by}
    words = "{" + ", ".join(f"'{name}': {kind}" for name, kind in kinds.items()) + "}"
    columns = ", ".join(f'"{name}"' for name in schema.names)
    ran = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "python"), "-c", DUCKDB, str(folder), words, columns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    return ran.stdout.strip()
