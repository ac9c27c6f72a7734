"""pandas, polars, DuckDB and PyArrow read and write tables through `lakefs-spec`, unmodified."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import duckdb
import lakefs
import pandas
import polars
import pyarrow
import pytest
from lakefs.client import Client
from lakefs_spec import LakeFSFileSystem
from pyarrow import csv as arrow_csv
from pyarrow import dataset, parquet
from pyarrow.fs import FSSpecHandler, PyFileSystem

from tests.cli.service import KEY, SECRET, serving

pytestmark = pytest.mark.slow

ROOT = "lakefs://lake/main"
ROWS = pandas.DataFrame({"id": range(20_000), "text": [f"row {each}" for each in range(20_000)]})


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeFSFileSystem]:
    store = tmp_path_factory.mktemp("frames") / "store"
    with serving(store) as service, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client = Client(host=service.url, username=KEY, password=SECRET)
        lakefs.Repository("lake", client).create("local://lake/x")
        yield LakeFSFileSystem(host=service.url, username=KEY, password=SECRET)


def test_pandas(fs: LakeFSFileSystem) -> None:
    options = fs.storage_options
    for name, write, read in (
        ("rows.parquet", ROWS.to_parquet, pandas.read_parquet),
        ("rows.json", ROWS.to_json, pandas.read_json),
        ("rows.pickle", ROWS.to_pickle, pandas.read_pickle),
    ):
        write(f"{ROOT}/pandas/{name}", storage_options=options)
        found = read(f"{ROOT}/pandas/{name}", storage_options=options)
        pandas.testing.assert_frame_equal(found, ROWS, check_dtype=False)
    ROWS.to_csv(f"{ROOT}/pandas/rows.csv", index=False, storage_options=options)
    pieces = pandas.read_csv(f"{ROOT}/pandas/rows.csv", chunksize=7_000, storage_options=options)
    found = pandas.concat(pieces)
    pandas.testing.assert_frame_equal(found, ROWS, check_dtype=False)
    some = pandas.read_parquet(
        f"{ROOT}/pandas/rows.parquet", columns=["id"], filters=[("id", "<", 3)], filesystem=fs
    )
    assert list(some["id"]) == [0, 1, 2]


def test_pandas_in_a_transaction(fs: LakeFSFileSystem) -> None:
    lakefs.Branch("lake", "kept", fs.client).create("main")
    with fs.transaction("lake", "kept") as transaction:
        where = f"lakefs://lake/{transaction.branch.id}/kept.parquet"
        ROWS.to_parquet(where, storage_options=fs.storage_options)
        transaction.commit("rows")
        assert not fs.exists("lakefs://lake/kept/kept.parquet")
    found = pandas.read_parquet("lakefs://lake/kept/kept.parquet", filesystem=fs)
    pandas.testing.assert_frame_equal(found, ROWS, check_dtype=False)


def test_polars(fs: LakeFSFileSystem) -> None:
    rows = polars.from_pandas(ROWS)
    with fs.open(f"{ROOT}/polars/rows.parquet", "wb") as file:
        rows.write_parquet(file)
    with fs.open(f"{ROOT}/polars/rows.csv", "wb") as file:
        rows.write_csv(file)
    with fs.open(f"{ROOT}/polars/rows.parquet", "rb") as file:
        assert polars.read_parquet(file).equals(rows)
    with fs.open(f"{ROOT}/polars/rows.csv", "rb") as file:
        assert polars.read_csv(file).equals(rows)
    table = dataset.dataset(f"{ROOT}/polars/rows.parquet", filesystem=fs)
    lazy = polars.scan_pyarrow_dataset(table).filter(polars.col("id") < 3).select("text")
    assert lazy.collect()["text"].to_list() == ["row 0", "row 1", "row 2"]


def test_duckdb(fs: LakeFSFileSystem) -> None:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register_filesystem(fs)
        connection.register("rows", ROWS)
        for name, options in (("rows.parquet", "FORMAT PARQUET"), ("rows.csv", "HEADER")):
            where = f"{ROOT}/duckdb/{name}"
            connection.execute(f"COPY rows TO '{where}' ({options})")
            found = connection.execute(f"SELECT count(*), sum(id) FROM '{where}'").fetchone()
            assert found == (20_000, sum(range(20_000)))
        query = f"SELECT text FROM read_parquet('{ROOT}/duckdb/*.parquet') WHERE id = 7"
        assert connection.execute(query).fetchall() == [("row 7",)]


def test_pyarrow(fs: LakeFSFileSystem, tmp_path: Path) -> None:
    table = pyarrow.Table.from_pandas(ROWS)
    system = PyFileSystem(FSSpecHandler(fs))
    parquet.write_table(table, "lake/main/arrow/rows.parquet", filesystem=system)
    assert parquet.read_table("lake/main/arrow/rows.parquet", filesystem=system).equals(table)
    with system.open_output_stream("lake/main/arrow/rows.csv") as file:
        arrow_csv.write_csv(table, file)
    with system.open_input_stream("lake/main/arrow/rows.csv") as file:
        assert arrow_csv.read_csv(file).num_rows == 20_000
    parts = table.append_column("part", pyarrow.array([each % 3 for each in range(20_000)]))
    dataset.write_dataset(
        parts,
        "lake/main/arrow/parts",
        format="parquet",
        partitioning=["part"],
        partitioning_flavor="hive",
        filesystem=system,
    )
    found = dataset.dataset("lake/main/arrow/parts", partitioning="hive", filesystem=system)
    assert len(found.files) == 3
    assert found.count_rows(filter=dataset.field("part") == 1) == 6_667
