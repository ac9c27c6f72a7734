"""s3fs, and pandas on it, unmodified, on branches."""

import urllib.request
from typing import Any

import pandas
import pytest

from tests.gateway.clients.elsewhere import ClientError, Elsewhere
from tests.gateway.lake import MANY, REGION, Lake

MIB = 1 << 20
NAMES = ["a b", "a+b", "a%2Fb", "a%b", "a&b", "ü", "😀", "q\"'<>", "=;@:$,", "a", "b\\c", "cr\r"]
FRAME = pandas.DataFrame({"id": range(3_000), "day": [each % 3 for each in range(3_000)]})


def options(there: Lake, **more: Any) -> dict[str, Any]:
    """What s3fs is made with, as `storage_options` of pandas too."""
    key = more.pop("key", there.key)
    return {
        "key": key.access_key_id,
        "secret": key.secret_access_key,
        "endpoint_url": more.pop("url", there.url),
        "client_kwargs": {"region_name": REGION, **more},
        "use_listings_cache": False,
    }


class Files:
    """A file system of s3fs in the other process."""

    def __init__(self, away: Elsewhere, name: str, given: dict[str, Any]) -> None:
        self._away, self._name = away, name
        away.keep(name, "s3fs:S3FileSystem", **given)

    def __getattr__(self, method: str) -> Any:
        return lambda *given, **named: self._away(f"@{self._name}.{method}", *given, **named)

    def open(self, path: str, mode: str, **named: Any) -> "Files":
        """A file that is open, as a thing of its own."""
        opened = object.__new__(Files)
        opened._away, opened._name = self._away, f"file of {self._name}"
        self._away.keep(opened._name, f"@{self._name}.open", path, mode, **named)
        return opened


@pytest.fixture(scope="module")
def fs(there: Lake, away: Elsewhere) -> Files:
    return Files(away, "fs", options(there))


def test_s3fs_writes_and_reads(fs: Files, place: str) -> None:
    fs.pipe_file(f"{place}/a", b"0123456789")
    assert fs.cat_file(f"{place}/a") == b"0123456789"
    assert fs.info(f"{place}/a")["size"] == fs.size(f"{place}/a") == 10
    assert [fs.exists(f"{place}/{name}") for name in ("a", "none")] == [True, False]
    with pytest.raises(ClientError, match="FileNotFoundError"):
        fs.cat_file(f"{place}/none")
    fs.touch(f"{place}/empty")
    assert fs.cat_file(f"{place}/empty") == b""


def test_s3fs_reads_ranges(fs: Files, place: str) -> None:
    """Of a file that is open, with the ETag that it had as a condition."""
    fs.pipe_file(f"{place}/a", b"0123456789")
    assert fs.cat_file(f"{place}/a", start=3, end=6) == b"345"
    assert fs.cat_file(f"{place}/a", start=-3) == b"789"
    assert fs.cat_ranges([f"{place}/a"] * 2, [0, 8], [2, 10]) == [b"01", b"89"]
    file = fs.open(f"{place}/a", "rb", block_size=4, cache_type="none")
    file.seek(5)
    assert (file.read(3), file.tell()) == (b"567", 8)
    fs.pipe_file(f"{place}/a", b"changed..")
    file.seek(0)
    with pytest.raises(ClientError, match=r"FileExpired|pre-conditions"):
        file.read(4)


def test_s3fs_uses_odd_names(fs: Files, place: str) -> None:
    for name in NAMES:
        fs.pipe_file(f"{place}/{name}", name.encode())
        assert fs.cat_file(f"{place}/{name}") == name.encode()
        assert fs.info(f"{place}/{name}")["size"] == len(name.encode())
    assert fs.ls(place) == [f"{place}/{name}" for name in sorted(NAMES, key=str.encode)]
    fs.rm(place, recursive=True)
    assert fs.find(place) == []


def test_s3fs_lists_and_globs(fs: Files, there: Lake, place: str) -> None:
    for name in ("a.csv", "b.csv", "x/c.csv", "x/y/d.csv", "x/e"):
        fs.pipe_file(f"{place}/{name}", b"x")
    found = {each["name"].removeprefix(place): each["type"] for each in fs.ls(place, detail=True)}
    assert found == {"/a.csv": "file", "/b.csv": "file", "/x": "directory"}
    assert fs.find(f"{place}/x") == [f"{place}/x/{name}" for name in ("c.csv", "e", "y/d.csv")]
    assert fs.glob(f"{place}/**/*.csv") == [
        f"{place}/{name}" for name in ("a.csv", "b.csv", "x/c.csv", "x/y/d.csv")
    ]
    assert fs.glob(f"{place}/?.csv") == [f"{place}/a.csv", f"{place}/b.csv"]
    assert (fs.isdir(f"{place}/x"), fs.isfile(f"{place}/x"), fs.du(place)) == (True, False, 5)
    many = f"{there.repo}/main/many"
    assert fs.find(many) == [f"{there.repo}/main/{path}" for path in MANY]
    branches = fs.ls(there.repo)
    assert [name.removeprefix(there.repo) for name in branches] == ["/main", "/other", "/protected"]
    assert there.repo in fs.ls("")


def test_s3fs_copies_moves_and_deletes(fs: Files, place: str) -> None:
    fs.pipe_file(f"{place}/a b+", b"x")
    fs.copy(f"{place}/a b+", f"{place}/ü&%")
    fs.mv(f"{place}/ü&%", f"{place}/moved")
    fs.copy(f"{place}/", f"{place}-2/", recursive=True)
    fs.rm(place, recursive=True)
    assert fs.find(place) == []
    assert fs.find(f"{place}-2") == [f"{place}-2/a b+", f"{place}-2/moved"]
    fs.rm_file(f"{place}-2/moved")
    assert fs.cat(f"{place}-2/*") == {f"{place}-2/a b+": b"x"}
    fs.rm(f"{place}-2/*")
    assert fs.exists(f"{place}-2") is False


def test_s3fs_writes_in_parts(fs: Files, there: Lake, place: str) -> None:
    body = bytes(range(256)) * (5 * 4096 + 1)
    file = fs.open(f"{place}/a", "wb", block_size=5 * MIB)
    for start in range(0, len(body), MIB):
        file.write(body[start : start + MIB])
    assert fs.exists(f"{place}/a") is False  # until it is complete
    file.close()
    assert fs.cat_file(f"{place}/a") == body
    fs.copy(f"{place}/a", f"{place}/b")
    appended = fs.open(f"{place}/b", "ab")
    appended.write(b"more")
    appended.close()
    assert fs.cat_file(f"{place}/b", start=-6) == body[-2:] + b"more"
    assert fs.info(f"{place}/b")["ETag"].strip('"').endswith("-2")
    given_up = fs.open(f"{place}/c", "wb", block_size=5 * MIB)
    given_up.write(body)
    given_up.discard()
    uploads = there.boto().list_multipart_uploads(Bucket=there.repo)
    assert (fs.exists(f"{place}/c"), uploads.get("Uploads", [])) == (False, [])


def test_s3fs_writes_on_conditions(fs: Files, place: str) -> None:
    fs.pipe_file(f"{place}/a", b"1", mode="create")
    with pytest.raises(ClientError, match="pre-conditions you specified did not hold"):
        fs.pipe_file(f"{place}/a", b"2", mode="create")
    file = fs.open(f"{place}/a", "xb")
    file.write(b"3")
    with pytest.raises(ClientError, match=r"FileExistsError|pre-conditions"):
        file.close()
    file.discard()
    assert fs.cat_file(f"{place}/a") == b"1"


def test_s3fs_makes_no_directories_and_no_repositories(fs: Files, place: str) -> None:
    """It marks no directories, and it makes buckets."""
    fs.makedirs(f"{place}/one/two", exist_ok=True)
    assert fs.exists(f"{place}/one/two") is False
    with pytest.raises(ClientError, match="needs a storage namespace"):
        fs.mkdir("none-of-these")


def test_s3fs_presigns_reads(fs: Files, place: str) -> None:
    fs.pipe_file(f"{place}/a b+", b"signed")
    with urllib.request.urlopen(fs.sign(f"{place}/a b+")) as answer:
        assert answer.read() == b"signed"


def test_s3fs_copies_folders_of_this_machine(fs: Files, place: str, tmp_path: Any) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "x").mkdir(parents=True)
    (source / "a").write_bytes(b"1")
    (source / "x" / "b c").write_bytes(b"2")
    fs.put(f"{source}/", place, recursive=True)
    fs.get(f"{place}/", str(back), recursive=True)
    assert [(back / name).read_bytes() for name in ("a", "x/b c")] == [b"1", b"2"]


def test_s3fs_reads_commits(fs: Files, there: Lake) -> None:
    for ref, body in (("v1", b"before"), (there.commit, b"before"), ("main", b"after")):
        assert fs.cat_file(f"{there.repo}/{ref}/kept/a") == body
        assert fs.ls(f"{there.repo}/{ref}/kept") == [f"{there.repo}/{ref}/kept/a"]
    with pytest.raises(ClientError, match="OSError"):
        fs.pipe_file(f"{there.repo}/v1/kept/a", b"x")


def test_s3fs_writes_over_https(there: Lake, away: Elsewhere, place: str) -> None:
    given = options(there, url=there.tls.url, verify=str(there.tls.certificate))
    fs = Files(away, "secured", given)
    fs.pipe_file(f"{place}/a", b"secret" * 1000)
    assert fs.cat_file(f"{place}/a") == b"secret" * 1000


def test_s3fs_is_told_what_is_denied(fs: Files, there: Lake, away: Elsewhere) -> None:
    with pytest.raises(ClientError, match=r"OSError.*ErrWriteToProtectedBranch"):
        fs.pipe_file(f"{there.repo}/protected/a", b"x")
    there.may_read("kept")
    few = Files(away, "few", options(there, key=there.somebodys_key))
    assert few.cat_file(f"{there.repo}/main/kept/a") == b"after"
    for call in (
        lambda: few.pipe_file(f"{there.repo}/main/kept/a", b"x"),
        lambda: few.cat_file(f"{there.repo}/main/many/0001"),
        lambda: few.rm(f"{there.repo}/main/kept/a"),
    ):
        with pytest.raises(ClientError, match="PermissionError"):
            call()
    assert fs.cat_file(f"{there.repo}/main/kept/a") == b"after"


def test_pandas_reads_and_writes_through_s3fs(there: Lake, away: Elsewhere, place: str) -> None:
    given = {"storage_options": options(there)}
    away.keep("frame", "pandas:DataFrame", FRAME.to_dict("list"))
    away("@frame.to_parquet", f"s3://{place}/a b.parquet", **given)
    found = away("pandas:read_parquet", f"s3://{place}/a b.parquet", **given)
    assert found.equals(FRAME)
    some = {"columns": ["id"], "filters": [("id", "<", 3)]}
    found = away("pandas:read_parquet", f"s3://{place}/a b.parquet", **some, **given)
    assert found.to_dict("list") == {"id": [0, 1, 2]}
    away("@frame.to_parquet", f"s3://{place}/days", partition_cols=["day"], **given)
    found = away("pandas:read_parquet", f"s3://{place}/days", filters=[("day", "==", 1)], **given)
    assert list(found["id"]) == list(range(1, 3_000, 3))
    away("@frame.to_csv", f"s3://{place}/a.csv", index=False, **given)
    assert away("pandas:read_csv", f"s3://{place}/a.csv", **given).equals(FRAME)
