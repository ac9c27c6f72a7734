"""Objects of a branch: read, write, list, copy, delete."""

import gc
import hashlib
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pandas
import pytest

import graveler
from graveler import Branch, Lake
from graveler.lake.answers import moment
from graveler.lake.errors import AlreadyExists, Invalid, NotFound, PreconditionFailed, Unsupported
from graveler.lake.records import Entry
from tests.http_server import QuietHandler, http_server


def test_what_was_written_is_read(main: Branch) -> None:
    entry = main.write_text("2026/orders.csv", "id\n1\n", metadata={"run": "7"})
    assert (entry.path, entry.size, entry.name) == ("2026/orders.csv", 5, "orders.csv")
    assert main.read_text("2026/orders.csv") == "id\n1\n"
    known = main.stat("2026/orders.csv")
    assert known.metadata == {"run": "7"} and known.content_type == "text/plain"
    assert known.modified is not None
    assert abs(datetime.now(UTC) - known.modified) < timedelta(hours=1)
    assert main.read_bytes("2026/orders.csv", start=1, end=3) == b"d\n"
    assert main.read_bytes("2026/orders.csv", start=3) == b"1\n"
    assert main.read_bytes("2026/orders.csv", start=2, end=2) == b""


@pytest.mark.parametrize("name", ["naïve 'q' %20#?&.txt", "a b/+c", "日本/語", "x\\y"])
def test_names_with_odd_characters_are_kept(main: Branch, name: str) -> None:
    main.write_bytes(name, b"odd")
    assert main.read_bytes(name) == b"odd"
    assert [entry.path for entry in main.list()] == [name]


def test_an_object_that_is_missing_is_a_file_not_found(main: Branch) -> None:
    with pytest.raises(FileNotFoundError, match=r"shop-\d+/main/nope") as caught:
        main.read_bytes("nope")
    error = caught.value
    assert isinstance(error, NotFound)
    assert error.kind == "not_found" and error.request_id
    with pytest.raises(FileNotFoundError):
        main.open("nope")
    with pytest.raises(FileNotFoundError):
        main.stat("nope")
    assert not main.exists("nope") and not main.exists("nope/")


def test_create_only_refuses_a_second_object(main: Branch) -> None:
    main.write_text("a", "1", overwrite=False)
    with pytest.raises(FileExistsError, match="/main/a") as caught:
        main.write_text("a", "2", overwrite=False)
    assert isinstance(caught.value, PreconditionFailed)
    with pytest.raises(FileExistsError), main.open("a", "x") as file:
        file.write("3")
    assert main.read_text("a") == "1"


def test_listings_by_prefix_folder_and_glob(main: Branch) -> None:
    for path in ("a/1.csv", "a/b/2.csv", "a/b/3.txt", "top.csv", "a-b.csv"):
        main.write_bytes(path, b"x")
    assert [entry.path for entry in main.list("a/")] == ["a/1.csv", "a/b/2.csv", "a/b/3.txt"]
    assert main.folders().all() == ["a/"] and main.folders("a/").all() == ["a/b/"]

    def found(pattern: str) -> list[str]:
        return [entry.path for entry in main.glob(pattern)]

    assert found("*.csv") == ["a-b.csv", "top.csv"]
    assert found("a/*.csv") == ["a/1.csv"]
    assert found("**/*.csv") == ["a-b.csv", "a/1.csv", "a/b/2.csv", "top.csv"]
    assert found("a/b/[!2].???") == ["a/b/3.txt"]
    assert found("a.b.csv") == []
    main.commit("load")
    summary = main.summary("a/")
    assert (summary.objects, summary.size) == (3, 3)
    assert main.list("none/").first() is None and not main.list("none/")
    assert len(main.list(limit=2).all()) == 2


def test_a_list_of_one_level_has_its_folders(main: Branch) -> None:
    for path in ("a/1.csv", "a/b/2.csv", "top.csv"):
        main.write_bytes(path, b"x")
    folder, top = main.list(recursive=False)
    assert (folder.path, folder.size, folder.modified) == ("a/", 0, None)
    assert folder.is_folder and not top.is_folder and top.modified is not None
    assert [entry.path for entry in main.list("a/", recursive=False)] == ["a/1.csv", "a/b/"]
    assert [entry.path for entry in main.list(after="a/1.csv")] == ["a/b/2.csv", "top.csv"]
    assert main.list("a/").all() == [main.stat("a/1.csv"), main.stat("a/b/2.csv")]


def test_an_entry_has_all_that_the_server_told(main: Branch) -> None:
    main.write_bytes("a", b"x", metadata={"k": "v"})
    told = main.stat("a").answer
    assert (told["path_type"], told["metadata"]) == ("object", {"k": "v"})
    assert main.list().all()[0].answer == told
    assert Entry("mine", 1).answer == {} and not Entry("mine", 1).is_folder


def test_the_length_of_a_listing_is_not_known(main: Branch) -> None:
    main.write_bytes("a", b"x")
    with pytest.raises(TypeError, match=r"len\(listing\.all\(\)\)"):
        len(main.list())  # type: ignore[arg-type]
    assert len(main.list().all()) == len(list(main.list())) == 1


def test_a_time_that_no_calendar_has_is_none() -> None:
    for seconds in (1e300, 10**20, -(10**20), None):
        assert moment(seconds) is None


def test_copies_moves_and_deletions(main: Branch) -> None:
    main.write_text("a", "1")
    assert main.copy("a", "b/c").path == "b/c"
    main.move("a", "b/d")
    assert [entry.path for entry in main.list()] == ["b/c", "b/d"]
    main.set_metadata("b/c", {"k": "v"})
    assert main.stat("b/c").metadata == {"k": "v"}
    main.commit("copies")
    dev = main.create_branch("dev")
    dev.write_text("only-here", "2")
    assert main.copy("only-here", "taken", ref=dev).size == 1
    elsewhere = main.repository.lake.repository("other").branch("dev")
    with pytest.raises(Invalid, match="other/dev is not in"):
        main.copy("only-here", "taken", ref=elsewhere)
    for paths in (("b",), ("taken", "b")):
        with pytest.raises(ValueError, match="b is a folder") as raised:
            main.delete(*paths)
        assert raised.value.remedy == 'delete("b/")'  # type: ignore[attr-defined]
    assert main.exists("taken") and main.exists("b/c")
    assert main.delete("not-there") == main.delete() == 0
    assert main.delete("b/", "taken", "not-there") == 3
    assert main.list().all() == []
    with pytest.raises(ValueError, match="path missing"):
        main.delete("")


def test_objects_are_written_and_read_in_pieces(main: Branch) -> None:
    entry = main.write_stream(
        "a", iter([b"12", b"", b"3"]), content_type="text/x", metadata={"k": "v"}
    )
    assert (entry.size, b"".join(main.stream("a"))) == (3, b"123")
    assert main.stat("a").content_type == "text/x" and main.stat("a").metadata == {"k": "v"}
    with pytest.raises(FileExistsError):
        main.write_stream("a", [b"4"], overwrite=False)
    for length in (1, 3):  # of two bytes
        with pytest.raises(Invalid, match="changed while it was uploaded"):
            main.write_stream("b", [b"12"], length=length)
    assert not main.exists("b")
    with pytest.raises(FileNotFoundError, match="/main/b"):
        next(main.stream("b"))


def test_deletions_of_objects_tell_what_failed(main: Branch) -> None:
    for path in ("dir/", "dir/a", "b"):
        main.write_text(path, "1")
    assert main.delete_objects(["dir/", "b", "none"]) == {}
    assert [entry.path for entry in main.list()] == ["dir/a"]
    main.repository.delete()
    failed = main.delete_objects(["a", "b"])
    assert {*failed} == {"a", "b"} and isinstance(failed["a"], NotFound)


def test_an_object_outside_is_staged_where_it_is(tmp_path: Path) -> None:
    source, when = tmp_path / "source" / "a.csv", datetime(2026, 1, 2, tzinfo=UTC)
    source.parent.mkdir()
    source.write_bytes(b"id\n1\n")
    told = {"size": 5, "checksum": hashlib.md5(b"id\n1\n").hexdigest()}
    with graveler.open(tmp_path / "store", import_roots=[source.parent]) as lake:
        main = lake.create_repository("shop").branch("main")
        staged = main.stage(
            "raw/a.csv", f"local://{source}", **told, modified=when, metadata={"from": "crm"}
        )
        assert (staged.path, staged.size, staged.modified) == ("raw/a.csv", 5, when)
        assert main.stat("raw/a.csv").metadata == {"from": "crm"}
        assert main.read_text("raw/a.csv") == "id\n1\n"
        with pytest.raises(Invalid):
            main.stage("raw/b.csv", f"local://{tmp_path}/elsewhere", **told)


def test_a_file_is_read_by_ranges(main: Branch) -> None:
    content = os.urandom(3 << 20)
    main.write_bytes("big", content)
    with main.open("big", "rb") as file:
        assert file.seek(-10, os.SEEK_END) == len(content) - 10
        assert file.read() == content[-10:]
        file.seek(1 << 20)
        assert file.read(1000) == content[1 << 20 : (1 << 20) + 1000]
        file.seek(0)
        assert file.read() == content and file.read() == b""
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)


def test_a_file_that_was_read_to_its_end_holds_no_connection(served_lake: Lake) -> None:
    """Who wraps it, as `gzip` does, may not close it."""
    main = served_lake.create_repository("held-connections").branch("main")
    main.write_bytes("a", b"1" * 1_000)
    held, counts = [], set()
    for _ in range(4):
        held.append(main.open("a", "rb"))
        assert len(held[-1].read()) == 1_000
        counts.add(len(os.listdir("/proc/self/fd")))
    assert len(counts) == 1


def test_a_range_beyond_the_end_has_no_bytes(main: Branch) -> None:
    """As that of a slice."""
    main.write_bytes("empty", b"")
    main.write_bytes("short", b"12")
    assert main.read_bytes("empty", end=4) == main.read_bytes("empty", start=1) == b""
    assert main.read_bytes("short", start=2) == main.read_bytes("short", start=7, end=9) == b""
    assert main.read_bytes("short", start=1, end=9) == b"2"
    fs = graveler.fs(main.repository.lake)
    assert fs.cat_file(f"{main.address}/empty", end=4) == b""
    assert fs.cat_ranges([f"{main.address}/empty"], [0], [4]) == [b""]
    with main.open("empty", "rb") as file:
        assert file.read() == b"" and file.read(4) == b""
    with pytest.raises(FileNotFoundError):
        main.read_bytes("none", end=4)


def test_a_file_that_is_open_is_read_as_it_was_opened(main: Branch) -> None:
    old, new = os.urandom(1 << 20), os.urandom(1 << 20)
    main.write_bytes("a", old)
    with main.open("a", "rb") as file:
        assert file.read(10) == old[:10]
        main.write_bytes("a", new)
        file.seek(900_000)
        try:
            rest = file.read()
        except FileExistsError:
            return  # the path has other bytes now: an error, and never a mixture
        assert rest == old[900_000:]


def test_a_file_appears_whole_when_it_is_closed(main: Branch) -> None:
    with main.open("a.txt", "w", content_type="text/x-mine") as file:
        file.write("first\n")
        assert not main.exists("a.txt")
        file.write("second\n")
    assert main.read_text("a.txt") == "first\nsecond\n"
    assert main.stat("a.txt").content_type == "text/x-mine"
    with main.open("a.txt") as file:
        assert list(file) == ["first\n", "second\n"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_block_that_raises_writes_nothing(main: Branch, mode: str) -> None:
    with pytest.raises(KeyError), main.open("a", mode) as file:  # type: ignore[arg-type]
        file.write("x" if mode == "w" else b"x")
        raise KeyError
    assert not main.exists("a")


def _write_text(main: Branch) -> None:
    pandas.DataFrame({"id": [1]}).to_csv(main.open("a", "w"))


def _write_bytes(main: Branch) -> None:
    pandas.DataFrame({"id": [1]}).to_parquet(main.open("a", "wb"))


def _write_compressed(main: Branch) -> None:
    files = graveler.fs(main.repository.lake)
    files.open(f"{main.address}/a", "wb", compression="gzip").write(b"1")


@pytest.mark.parametrize("write", [_write_text, _write_bytes, _write_compressed])
def test_what_nobody_closed_is_not_written_and_said(
    main: Branch, write: Callable[[Branch], None]
) -> None:
    with pytest.warns(RuntimeWarning, match=r"main/a was not closed, .*`with branch.open") as said:
        write(main)
        gc.collect()
    assert [Path(each.filename).name for each in said] == [Path(__file__).name]
    assert not main.exists("a")


def test_an_append_that_nobody_closed_says_nothing_of_what_was_there(main: Branch) -> None:
    main.write_text("a", "1")
    files = graveler.fs(main.repository.lake)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        files.open(f"{main.address}/a", "ab")
        gc.collect()
    assert [str(each.message) for each in said] == []
    with pytest.warns(RuntimeWarning, match="was not closed"):
        files.open(f"{main.address}/a", "ab").write(b"2")
        gc.collect()
    assert main.read_text("a") == "1"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_nothing_is_said_of_what_is_closed_discarded_or_empty(
    main: Branch, mode: Literal["w", "wb"]
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        main.open("empty", mode)
        file = main.open("a", mode)
        file.write("1" if mode == "w" else b"1")
        file.close()
        with suppress(KeyError), main.open("b", mode) as file:
            file.write("1" if mode == "w" else b"1")
            raise KeyError
        with suppress(LookupError):
            main.open("c", "w", encoding="none")
        del file
        gc.collect()
    assert [str(each.message) for each in said] == []
    assert [entry.path for entry in main.list()] == ["a"]


@pytest.mark.parametrize("scheme", ["graveler", "lakefs", "s3", "S3A"])
def test_an_address_where_a_path_belongs_is_refused(
    main: Branch, folder: Path, scheme: str
) -> None:
    address = f"{scheme}://{main.address}/raw/"
    calls: list[Callable[[], object]] = [
        lambda: main.upload(folder, address),
        lambda: main.download(address, folder),
        lambda: main.write_text(f"{address}a", "1"),
        lambda: main.write_stream(f"{address}a", [b"1"]),
        lambda: main.open(f"{address}a", "w"),
        lambda: main.copy("b", f"{address}a"),
        lambda: main.move("b", f"{address}a"),
        lambda: main.delete(f"{address}a"),
    ]
    main.write_text("b", "1")
    for call in calls:
        with pytest.raises(Invalid, match="relative to") as caught:
            call()
        assert caught.value.remedy in ('give "raw/"', 'give "raw/a"')
    with pytest.raises(NotFound) as missing:
        main.read_text(f"{address}a")
    assert missing.value.remedy == 'give "raw/a"'
    with pytest.raises(Invalid, match="relative to") as caught:
        main.write_text("graveler://other/main/a", "1")
    assert caught.value.remedy.startswith("lake.at(address)")
    with pytest.raises(Invalid, match="relative to") as caught:
        main.write_text("s3://bucket/a", "1")
    assert caught.value.remedy == ""
    assert [entry.path for entry in main.list()] == ["b"]


def test_wrong_arguments_are_value_errors(main: Branch) -> None:
    with pytest.raises(Invalid, match=r"limit must be a number; .*: log\(path='raw/'\)"):
        main.log("raw/")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode invalid"):
        main.open("a", "a")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="must not"):
        main.write_bytes("x", b"", metadata={"k": "line\nbreak"})
    with pytest.raises(Unsupported, match="signs no URLs"):
        main.url("x")
    with pytest.raises(TypeError, match="write_bytes"):
        main.write_text("x", b"1")  # type: ignore[arg-type]
    for name in ("x", "Shop", "-shop"):
        with pytest.raises(Invalid, match="3 to 63 characters"):
            main.repository.lake.create_repository(name)


def test_a_created_name_that_exists_is_a_file_exists(main: Branch) -> None:
    main.create_branch("dev")
    with pytest.raises(FileExistsError) as caught:
        main.create_branch("dev")
    assert isinstance(caught.value, AlreadyExists)
    assert main.repository.create_branch("dev", exist_ok=True).name == "dev"
    main.tag("v1")
    with pytest.raises(AlreadyExists):
        main.repository.create_branch("v1", exist_ok=True)


def test_a_server_that_ignores_ranges_is_read_by_ranges() -> None:
    class Whole(QuietHandler):
        def do_GET(self) -> None:
            is_config = self.path.endswith("/config")
            body = b'{"storage_config": {}}' if is_config else b"12345"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http_server(Whole) as url, graveler.connect(url, "KEY", "SECRET") as lake:
        main = lake.repository("shop").branch("main")
        assert main.read_bytes("a", end=2) + main.read_bytes("a", start=3, end=4) == b"124"
