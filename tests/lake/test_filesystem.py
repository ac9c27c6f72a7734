"""The file system of fsspec: its own abstract tests, and what pandas and DuckDB do with it."""

import io
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas
import polars
import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

import graveler
from graveler import Branch, Lake
from graveler.lake.connections import Connections
from graveler.lake.filesystem import GravelerFileSystem
from graveler.lake.session import connect
from tests.cli.service import KEY, SECRET

_numbers = count()
# The abstract tests have fixtures of classes that pytest 9 warns of.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestRemovedIn10Warning")


class Fixtures(AbstractFixtures):
    """A branch for all abstract tests of a class."""

    @pytest.fixture(scope="class")
    def fs(self, served_lake: Lake) -> Any:
        return graveler.fs(lake=served_lake)

    @pytest.fixture
    def fs_path(self, served_lake: Lake) -> str:
        name = f"abstract-{next(_numbers)}"
        served_lake.create_repository(name)
        return f"{name}/main"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(AbstractCopyTests, Fixtures):
    pass


class TestGet(AbstractGetTests, Fixtures):
    pass


class TestPut(AbstractPutTests, Fixtures):
    pass


class TestOpen(AbstractOpenTests, Fixtures):
    pass


class TestPipe(AbstractPipeTests, Fixtures):
    pass


@pytest.fixture
def fs(lake: Lake) -> Iterator[Any]:
    yield graveler.fs(lake=lake)


def test_folders_objects_and_refs_are_listed(fs: Any, main: Branch) -> None:
    top = main.address
    fs.pipe({f"{top}/a/1": b"1", f"{top}/a/b/2": b"22", f"{top}/c": b"333"})
    assert fs.ls(top, detail=False) == [f"{top}/a", f"{top}/c"]
    assert fs.find(top) == [f"{top}/a/1", f"{top}/a/b/2", f"{top}/c"]
    assert fs.glob(f"{top}/a/**/2") == [f"{top}/a/b/2"]
    assert [name for _, _, names in fs.walk(f"graveler://{top}") for name in names]
    assert fs.isdir(f"{top}/a") and fs.isfile(f"{top}/c") and not fs.exists(f"{top}/none")
    assert fs.info(f"{top}/a/b/2")["size"] == 2 and fs.du(top) == 6
    assert top in fs.ls(main.repository.name, detail=False)
    assert main.repository.name in fs.ls("", detail=False)
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{top}/none")
    assert fs.cat_file(f"{top}/c", start=-2) == b"33"
    assert fs.cat_ranges([f"{top}/c", f"{top}/a/b/2"], [0, 1], [2, 2]) == [b"33", b"2"]
    assert fs.checksum(f"{top}/c") != fs.checksum(f"{top}/a/1")
    assert fs.modified(f"{top}/c").tzinfo is not None
    with fs.open(f"{top}/c", "ab") as file:
        file.write(b"4")
    assert fs.cat_file(f"{top}/c") == b"3334"


def test_addresses_of_lakefs_are_ours_without_lakefs_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    for name, value in project["entry-points"]["fsspec.specs"].items():
        entry = EntryPoint(name, value, "fsspec.specs")
        assert issubclass(entry.load(), GravelerFileSystem) == (name == "graveler")
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "lakefs_spec", None)
            assert entry.load() is GravelerFileSystem and name in GravelerFileSystem.protocol


def test_lists_of_commits_are_kept_and_those_of_branches_are_not(served_lake: Lake) -> None:
    asked: list[str] = []
    pool = Connections(observer=lambda exchange: asked.append(exchange.url))
    main = served_lake.create_repository("kept-lists").branch("main")
    main.write_text("a/1", "1")
    commit = main.commit("one")
    fs = graveler.fs(Lake(connect(served_lake.url, KEY, SECRET, connections=pool)))
    for name in (commit.address, main.address):
        first = fs.ls(f"{name}/a")
        before = len(asked)
        assert fs.ls(f"{name}/a") == first
        assert (len(asked) == before) == (name == commit.address)
    fs.invalidate_cache()
    before = len(asked)
    assert fs.ls(f"{commit.address}/a") and len(asked) > before


def test_objects_are_touched_copied_and_told_apart(fs: Any, lake: Lake, main: Branch) -> None:
    top = main.address
    fs.touch(f"{top}/a")
    with pytest.raises(NotImplementedError):
        fs.touch(f"{top}/a", truncate=False)
    fs.pipe_file(f"{top}/b", b"12")
    other = lake.create_repository(f"{main.repository.name}-other")
    fs.cp_file(f"{top}/b", f"{other.name}/main/b")  # the bytes move: their objects are apart
    assert other.branch("main").read_text("b") == "12"
    assert fs.ukey(f"{top}/b") != fs.ukey(f"{top}/a")
    assert fs.created(f"{top}/b") == fs.modified(f"{top}/b")
    with pytest.raises(ValueError, match="signs no URLs"):
        fs.sign(f"{top}/b")
    with pytest.raises(ValueError, match="REPOSITORY/REF/PATH"):
        fs.cat_file(top)
    for missing in ("no-such-repository", f"{main.repository.name}/none", f"{top}/none"):
        with pytest.raises(FileNotFoundError):
            fs.info(missing)
    assert fs.info(top)["type"] == "directory"
    with fs.open(f"{top}/new", "ab") as file:
        file.write(b"1")
    assert fs.cat_file(f"{top}/new") == b"1"
    assert fs != "another thing" and fs.unstrip_protocol(f"{top}/b") == f"graveler://{top}/b"
    main.commit("all of it")
    with pytest.raises(ValueError, match="one branch"), fs.transaction:
        fs.pipe_file(f"{top}/c", b"1")
        fs.pipe_file(f"{other.name}/main/c", b"1")


def test_deletions_need_to_be_meant(fs: Any, main: Branch) -> None:
    top = main.address
    fs.pipe({f"{top}/a/1": b"1", f"{top}/a/2": b"2"})
    with pytest.raises(ValueError, match="recursive"):
        fs.rm(f"{top}/a")
    with pytest.raises(ValueError, match="deletes no refs"):
        fs.rm(top, recursive=True)
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{top}/none")
    fs.rm(f"{top}/a", recursive=True)
    assert fs.find(top) == []


def test_what_may_not_be_deleted_is_an_error(served_lake: Lake) -> None:
    name = f"guarded-{next(_numbers)}"
    main = served_lake.create_repository(name).branch("main")
    main.write_text("a", "1")
    admin = served_lake.admin
    admin.create_user(name)
    admin.attach("FSReadAll", user=name)
    key = admin.create_key(name)
    reader = graveler.connect(served_lake.url, key.id, key.secret)
    fs = graveler.fs(reader)
    for delete in (fs.rm, fs.rm_file):
        with pytest.raises(PermissionError):
            delete(f"{main.address}/a")
    with pytest.raises(PermissionError):
        reader.repository(name).branch("main").delete("a")
    assert main.exists("a")


def test_a_file_system_has_the_rights_of_its_lake(served_lake: Lake) -> None:
    stranger = graveler.connect(served_lake.url, "STRANGER", "no-key-of-this-server")
    ours, theirs = graveler.fs(served_lake), graveler.fs(stranger)
    assert isinstance(ours.ls(""), list) and ours != theirs
    with pytest.raises(PermissionError):
        theirs.ls("")
    assert ours == graveler.fs(served_lake) and hash(ours) == hash(graveler.fs(served_lake))


def test_a_file_system_is_of_the_lake_that_is_open(tmp_path: Path) -> None:
    for _ in range(2):
        with graveler.open(tmp_path / "store") as lake:
            assert graveler.fs(lake).ls("") == []


def test_no_name_of_an_object_leads_out_of_a_folder(fs: Any, main: Branch, tmp_path: Path) -> None:
    """Whoever may write to the lake chooses names."""
    main.write_text("a/1", "1")
    main.write_text("a/../../out", "2")
    (tmp_path / "in" / "a").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"\.\."):
        fs.get(f"{main.address}/a/", f"{tmp_path}/in/a/", recursive=True)
    with pytest.raises(ValueError, match=r"\.\."):  # old versions of fsspec copy one by one
        fs.get_file(f"{main.address}/a/../../out", f"{tmp_path}/in/a/../../out")
    assert not [*tmp_path.rglob("out")]
    assert fs.cat_file(f"{main.address}/a/../../out") == b"2"


def test_a_transaction_is_one_commit(fs: Any, main: Branch) -> None:
    top, before = main.address, main.pin()
    with fs.transaction:
        fs.pipe_file(f"{top}/a", b"1")
        with fs.open(f"{top}/b", "wb") as file:
            file.write(b"2")
        assert not main.exists("a")
    assert main.read_text("a") + main.read_text("b") == "12"
    assert main.pin().parents[0] == before
    with pytest.raises(KeyError), fs.transaction:
        fs.pipe_file(f"{top}/c", b"1")
        raise KeyError
    assert not main.exists("c") and len(main.repository.branches().all()) == 1


@pytest.mark.parametrize("mode", ["w", "wb", "xt"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_block_that_raises_writes_nothing(fs: Any, main: Branch, mode: str, name: str) -> None:
    path = f"{main.address}/{name}"
    text: Any = b"id\n1\n" if mode == "wb" else "id\n1\n"
    with pytest.raises(KeyError), fs.open(path, mode, compression="infer") as file:
        file.write(text)
        raise KeyError
    assert not main.exists(name)
    with fs.open(path, mode, compression="infer") as file:
        file.write(text)
    assert file.closed
    with fs.open(path, "rb" if mode == "wb" else "r", compression="infer") as file:
        assert file.read() == text
    assert (main.read_bytes(name) == b"id\n1\n") == (name == "a.csv")
    with main.open(name, "rb") as raw:
        frame = pandas.read_csv(raw, compression="gzip" if "gz" in name else None)
    assert frame["id"].tolist() == [1]


def test_text_has_the_encoding_and_the_ends_of_lines_that_are_asked_for(
    fs: Any, main: Branch
) -> None:
    with fs.open(f"{main.address}/a", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("é\n")
    assert main.read_bytes("a") == b"\xe9\r\n"
    file = fs.open(f"{main.address}/b.gz", "wb", compression="gzip")
    file.write(b"1")
    file.close()
    file.close()
    assert main.stat("b.gz").size > 1


def test_pandas_polars_and_duckdb_read_and_write(
    served_lake: Lake,
) -> None:
    lake = served_lake
    main = lake.create_repository("frames").branch("main")
    session = lake.session
    options = {
        "endpoint_url": lake.url,
        "key": session.access_key_id,
        "secret": session.secret_access_key,
    }
    frame = pandas.DataFrame({"id": range(1_000), "day": ["mon", "tue"] * 500})
    url = f"graveler://{main.address}/orders/x.parquet"
    frame.to_parquet(url, storage_options=options)
    assert pandas.read_parquet(url, storage_options=options).equals(frame)
    with fsspec.open(url, "rb", **options) as file:
        assert polars.read_parquet(file).height == 1_000
    connection = duckdb.connect()
    connection.register_filesystem(graveler.fs(lake=lake))
    rows = connection.execute(f"select sum(id) from read_parquet('{url}')").fetchall()
    assert rows == [(sum(range(1_000)),)]


# ---- datasets ------------------------------------------------------------------------------------


def test_a_dataset_is_of_one_commit(main: Branch) -> None:
    for day in ("mon", "tue"):
        frame = pandas.DataFrame({"id": range(100)})
        with main.open(f"orders/day={day}/part.parquet", "wb") as file:
            frame.to_parquet(file)
    main.write_text("orders/_SUCCESS", "no data")
    for day in ("mon", "tue"):
        with main.open(f"more/_day={day}/part.parquet", "wb") as file:
            pandas.DataFrame({"id": range(5)}).to_parquet(file)
    main.write_text("more/_day=tue/_metadata", "no data")
    main.commit("load")
    for prefix in ("more/", "more"):  # the name of a partition column may begin with `_`
        assert main.dataset(prefix).to_table().column_names == ["id", "_day"]
        assert main.dataset(prefix).count_rows() == 10
    data = main.dataset("orders/")
    assert data.schema.names == ["id", "day"] and data.count_rows() == 200
    with main.open("orders/day=wed/part.parquet", "wb") as file:
        pandas.DataFrame({"id": range(100)}).to_parquet(file)
    main.commit("more")
    import pyarrow.dataset as pads

    some = data.to_table(columns=["id"], filter=pads.field("day") == "mon")
    assert (some.num_rows, some.column_names) == (100, ["id"])
    assert len(data.to_pandas()) == 200 and sum(batch.num_rows for batch in data) == 200
    assert data.head(3).num_rows == 3
    assert len(data.files) == 2 and main.dataset("orders/").count_rows() == 300
    main.write_text("raw/orders.csv", "id\n1\n")
    with pytest.raises(FileNotFoundError, match="only what is committed"):
        main.dataset("raw/", format="csv").count_rows()
    main.commit("one file")
    for prefix in ("raw/orders.csv", "raw/orders", "raw/"):
        assert main.dataset(prefix, format="csv").count_rows() == 1
    with pytest.raises(FileNotFoundError, match="no data files"):
        main.dataset("none/").schema  # noqa: B018


def test_a_dataset_of_a_store_in_this_process_reads_the_files_themselves(
    embedded_lake: Lake,
) -> None:
    main = embedded_lake.create_repository("files").branch("main")
    frame = pandas.DataFrame({"id": range(100_000)})
    with main.open("orders/a.parquet", "wb") as file:
        frame.to_parquet(file)
    main.write_text("orders/small.csv", "id\n1\n")
    main.commit("load")
    data = main.dataset("orders/a.parquet")
    assert data.to_table().num_rows == 100_000
    with data.arrow.filesystem.open_input_file("orders/a.parquet") as opened:
        address = main.stat("orders/a.parquet").address
        files = [each for each in Path(embedded_lake.url).rglob("*") if each.is_file()]
        (stored,) = (each for each in files if str(each).endswith(address.rpartition("/")[2]))
        stored.unlink()  # as a collection of garbage does
        content = opened.read()
    assert pandas.read_parquet(io.BytesIO(content)).equals(frame)
    with pytest.raises(FileNotFoundError, match="not in the object store"):
        main.pin().dataset("orders/a.parquet").to_table()
    assert main.dataset("orders/small.csv", format="csv").count_rows() == 1
