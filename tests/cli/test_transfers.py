"""Uploads and downloads: continued, verified, interrupted, and never outside their folder."""

import fcntl
import json
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import google_crc32c
import pytest

from graveler.cli import files, profiles
from graveler.cli.profiles import Profile, Profiles
from graveler.cli.progress import per_second
from graveler.cli.tally import Tally
from graveler.cli.transfer import Transfer
from graveler.cli.transfer_tasks import PendingItem, Split, Task, Tasks
from graveler.client import connect
from graveler.client.checksums import CRC32C_BYTES_MIN, CRC32C_HEADER
from graveler.client.objects import Stats
from graveler.clock import Clock, SystemClock
from graveler.errors import Contended, Corrupt, Invalid, NotFound, Unauthenticated
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.block.test_file_checksums import kept_attributes
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted
from tests.gateway.tls import secured
from tests.http_server import QuietHandler, http_server
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, until


def tree(folder: Path, contents: dict[str, bytes]) -> Path:
    for path, content in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


TREE = {"a.csv": b"a", "empty": b"", "more/b c+d.bin": bytes(700_000), "more/e/é%.txt": b"e"}


def test_a_folder_goes_up_and_comes_down(lake: Lake, tmp_path: Path) -> None:
    source = str(tree(tmp_path / "in", TREE))
    up = lake.user.run("upload", "-r", source, f"{lake.name}/main/x", "--json")
    assert json.loads(up.out)["graveler"] == {
        "objects": 4,
        "size_bytes": 700_002,
        "same": 0,
        "deleted": 0,
        "failed": [],
    }
    down = tmp_path / "out"
    assert lake.user.run("download", "-r", f"{lake.name}/main/x/", str(down)).code == 0
    assert content(down) == TREE
    again = lake.user.run("download", "-r", f"{lake.name}/main/x/", str(down), "--json")
    assert json.loads(again.out)["graveler"]["same"] == 4
    (tmp_path / "in/a.csv").write_bytes(b"b")  # of equal size
    again = lake.user.run("upload", "-r", source, f"{lake.name}/main/x", "--json")
    record = json.loads(again.out)["graveler"]
    assert (record["objects"], record["same"]) == (1, 3)
    assert lake.user.run("cat", f"{lake.name}/main/x/a.csv").out == "b"


def test_names_metadata_and_types(lake: Lake, tmp_path: Path) -> None:
    file = tree(tmp_path, {"a.csv": b"a"}) / "a.csv"
    meta = ("--meta", "Owner=ann", "--meta", "city=Łódź é")
    assert lake.user.run("upload", str(file), f"{lake.name}/main/", *meta).code == 0
    assert (
        lake.user.run("upload", str(file), f"{lake.name}/main/d/", "--content-type", "x/y").code
        == 0
    )
    stats = lake.user.read(dict[str, object], "stat", f"{lake.name}/main/a.csv")
    assert (stats["content_type"], stats["metadata"]) == (
        "text/csv",
        {"owner": "ann", "city": "Łódź é"},
    )
    for wrong in ("a=1\n2", "a=1\r\n 2", "a:b=1", "é=1", "a=\udcff"):
        refused = lake.user.run("upload", str(file), f"{lake.name}/main/", "--meta", wrong)
        assert refused.code == 1 and "metadata" in refused.err, refused
    stats = lake.user.read(dict[str, object], "stat", f"{lake.name}/main/d/a.csv")
    assert stats["content_type"] == "x/y"
    refused = lake.user.run("upload", str(file), f"{lake.name}/main/", "--no-clobber")
    assert refused.code == 5 and "path already exists" in refused.err
    assert lake.user.run("upload", str(tmp_path / "none"), f"{lake.name}/main/").code == 3
    assert lake.user.run("upload", "-r", str(file), f"{lake.name}/main/").code == 2


def test_the_standard_input(lake: Lake) -> None:
    address = f"{lake.name}/main/in"
    assert lake.user.run("upload", "-", address, input=b"streamed").code == 0
    assert lake.user.run("cat", address).out == "streamed"
    assert lake.user.run("upload", "-", f"{lake.name}/main/").code == 2


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("public") / "store", public=True) as running:
        yield running


def test_the_standard_output_is_that_of_cat(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-` would be a file that few commands can name; `./-` asks for it."""
    lake.put("a")
    monkeypatch.chdir(tmp_path)
    result = lake.user.run("download", f"{lake.name}/main/a", "-")
    assert result.code == 2 and f"graveler cat {lake.name}/main/a" in result.err
    assert lake.user.run("download", f"{lake.name}/main/a", "./-").code == 0
    assert (tmp_path / "-").exists()


def test_contents_go_by_signed_urls(public: Served, user: Client, tmp_path: Path) -> None:
    user.know(public.client.url)
    name = public.fresh_repository()
    source = str(tree(tmp_path / "in", TREE))
    up = user.run("-v", "upload", "-r", source, f"{name}/main/x")
    assert up.code == 0 and up.err.count("/_presigned/") == 1  # the others are small
    assert up.err.count("staging/backing") == 2 and "signature" not in up.err
    down = user.run("-v", "download", "-r", f"{name}/main/x", str(tmp_path / "out"))
    assert down.code == 0 and down.err.count("/_presigned/") == 4 and "signature" not in down.err
    assert content(tmp_path / "out") == TREE
    big = str(tmp_path / "in/more/b c+d.bin")
    again = user.run("upload", big, f"{name}/main/x/more/", "--no-clobber")
    assert again.code == 5
    url = user.run("presign", f"{name}/main/x/a.csv").out.strip()
    assert url.startswith(f"{public.client.url}/_presigned/")


def test_one_failure_stops_no_other(lake: Lake, tmp_path: Path) -> None:
    lake.put("x/good", b"1")
    lake.put("x/a", b"2")
    lake.put("x/b", b"3")
    folder = tree(tmp_path, {"a/in-the-way": b""})
    result = lake.user.run("download", "-r", f"{lake.name}/main/x/", str(folder))
    assert result.code == 8
    assert result.err.splitlines()[0] == "graveler: 1 object of 3 not downloaded:"
    assert result.err.splitlines()[1].startswith("  x/a: ")
    assert (folder / "good").read_bytes() == b"1" and (folder / "b").read_bytes() == b"3"
    assert {file.name for file in folder.iterdir()} >= {"good", "b", "a"}


@pytest.mark.parametrize("is_public", [False, True])
def test_an_object_with_a_file_of_another_size_is_not_downloaded(
    lake: Lake, public: Served, user: Client, tmp_path: Path, is_public: bool
) -> None:
    """Nor by signed URLs."""
    live, name = (public, public.fresh_repository()) if is_public else (lake.live, lake.name)
    user.know(live.client.url)
    live.client.upload(name, "x", b"0123456789")
    stat = f"/repositories/{name}/refs/main/objects/stat"
    stats = live.client.send("GET", stat, {"path": "x"}).json
    (file,) = live.store.rglob(stats["physical_address"].rpartition("/")[2])
    for content in (b"", b"012345678", b"0123456789a"):
        file.write_bytes(content)
        result = user.run("download", f"{name}/main/x", f"{tmp_path}/x")
        assert result.code == 1 and f"size={len(content)} expected=10" in result.err
        assert user.run("cat", f"{name}/main/x").out == ""
        assert not (tmp_path / "x").exists()


def test_no_object_is_written_outside_the_folder(lake: Lake, tmp_path: Path) -> None:
    for path in ("x/../../evil", "x/a//b", "x/link/evil", "x/fine", "x//abs"):
        lake.put(path)
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    result = lake.user.run("download", "-r", f"{lake.name}/main/x/", str(folder))
    assert result.code == 8 and "not downloaded" in result.err
    assert list(outside.iterdir()) == [] and (folder / "fine").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["fine", "link"]
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/a", "a/", "a//b", "a\0b"])
def test_paths_that_no_file_can_have(tmp_path: Path, path: str) -> None:
    with pytest.raises(Invalid, match="cannot be a file"):
        files.Destination(tmp_path).file(path)


def test_what_no_branch_can_have_is_reported_and_the_rest_is_uploaded(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tree(tmp_path / "in", {"a": b"1", "z": b"2"})
    (folder / "file").symlink_to("/etc/hostname")
    (folder / "folder").symlink_to("/etc")
    (folder / os.fsdecode(b"\xff")).write_bytes(b"3")
    result = lake.user.run("upload", "-r", str(folder), f"{lake.name}/main/")
    assert result.code == 8 and result.err.splitlines()[1:] == [
        f"  {folder}/file: symbolic links cannot be uploaded",
        f"  {folder}/folder: symbolic links cannot be uploaded",
        f"  {folder}/\\xff: the name is no UTF-8",
    ]
    listed = lake.user.run("ls", "-r", f"{lake.name}/main/").out
    assert [line.split()[-1] for line in listed.splitlines()] == ["a", "z"]


def test_a_folder_is_not_copied_into_itself(lake: Lake) -> None:
    lake.put("a/1")
    refused = lake.user.run(
        "cp", "-r", f"lakefs://{lake.name}/main/a/", f"lakefs://{lake.name}/main/a/z/"
    )
    assert refused.code == 2 and "below SRC" in refused.err
    beside = lake.user.run(
        "cp", "-r", f"lakefs://{lake.name}/main/a", f"lakefs://{lake.name}/main/a2"
    )
    assert beside.code == 0
    assert lake.user.run("cat", f"{lake.name}/main/a2/1").out == "x"


def test_the_deletion_of_nothing_is_an_error(lake: Lake) -> None:
    assert lake.user.run("rm", "-r", f"{lake.name}/main/none/", "--yes").code == 3


def listed(more: bool, *paths: str) -> Said:
    """A page of objects."""
    results = [{"path": path, "path_type": "object", "checksum": "", "mtime": 1} for path in paths]
    pagination = {"has_more": more, "next_offset": paths[-1] if paths else ""}
    return Said(200, json.dumps({"results": results, "pagination": pagination}).encode())


DELETED = Said(200, b'{"errors": []}')


def test_a_deletion_lists_again_until_nothing_is_left(user: Client) -> None:
    """What a writer adds before the page that is being deleted is deleted, too."""
    first = [f"x/{number:04}" for number in range(1_000)]
    answers = [listed(True, *first), DELETED, listed(False, "x/1000"), DELETED]
    with scripted([*answers, listed(False, "x/0"), DELETED, listed(False)]) as server:
        user.know(server.url)
        result = user.run("rm", "-r", "lake/main/x/", "--yes")
        lists = [asked.path for asked in server.asked if asked.method == "GET"]
    assert result.code == 0 and "deleted 1,002 objects" in result.err
    assert len(lists) == 4 and ["after=x%2F0999" in each for each in lists] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_a_deletion_ends_though_objects_still_arrive(user: Client, ends: bool) -> None:
    rounds = [listed(False, "x/0"), DELETED] * 10
    with scripted([*rounds, listed(False, *([] if ends else ["x/0"]))]) as server:
        user.know(server.url)
        result = user.run("rm", "-r", "lake/main/x/", "--yes")
        assert server.answers == []
    assert result.code == (0 if ends else 8)
    assert ends or "objects still arrive below lake/main/x/: 10 objects deleted" in result.err


def test_a_copy_does_not_follow_the_server_elsewhere(user: Client) -> None:
    """What another address answers must not be uploaded."""
    stats = {"path": "a", "path_type": "object", "checksum": "", "mtime": 1, "size_bytes": 6}
    with scripted([Said(200, b"secret")]) as inside:
        there = Said(302, b"", (("Location", f"{inside.url}/latest"),))
        with scripted([Said(200, json.dumps(stats).encode()), there]) as server:
            user.know(server.url)
            copied = user.run("cp", "lakefs://one/main/a", "lakefs://two/main/a")
            assert copied.code != 0 and [asked.method for asked in server.asked] == ["GET", "GET"]
        assert inside.asked == []


def test_a_copy_between_repositories_is_compared_with_what_was_stored(user: Client) -> None:
    """And not with the checksum of the source: that of an imported object may be the ETag of
    encrypted bytes, which looks like an MD5 and is none."""
    right, etag = md5(b"abcd").hexdigest(), "e" * 32
    stats = {"path": "a", "path_type": "object", "checksum": etag, "mtime": 1, "size_bytes": 4}
    known = Said(200, json.dumps(stats).encode())
    for checksum, code in ((right, 0), ("0" * 32, 1)):
        created = Said(201, json.dumps(stats | {"checksum": checksum}).encode())
        with scripted([known, Said(200, b"abcd"), created]) as server:
            user.know(server.url)
            copied = user.run("cp", "lakefs://one/main/a", "lakefs://two/main/a")
        assert copied.code == code and (not code or right in copied.err), copied


@pytest.mark.parametrize("source", ["a", "-"])
def test_an_upload_that_was_stored_otherwise_fails(
    user: Client, tmp_path: Path, source: str
) -> None:
    (tmp_path / "a").write_bytes(b"abcd")
    stats = {"path": "a", "path_type": "object", "checksum": "0" * 32, "mtime": 1}
    created = Said(201, json.dumps(stats).encode())
    with scripted([created] if source == "-" else [Said(200), created]) as server:
        user.know(server.url)
        file = source if source == "-" else str(tmp_path / source)
        result = user.run("upload", file, "lake/main/a", input=b"abcd")
        assert server.asked[-1].body == b"abcd"
    assert (result.code, result.out) == (1, "")
    assert "path=a" in result.err and "upload it again" in result.err
    assert md5(b"abcd").hexdigest() in result.err and "0" * 32 in result.err


# ---- one download, byte by byte ------------------------------------------------------------------

BODY = bytes(range(256)) * 8
CHECKSUM = md5(BODY).hexdigest()
OTHER = "0" * 32  # no MD5 of the body


def order(url: str, file: Path, checksum: str = CHECKSUM, size: int = len(BODY)) -> files.Download:
    stats = Stats(
        path="a",
        path_type="object",
        physical_address="",
        checksum=checksum,
        mtime=1,
        size_bytes=size,
    )
    return files.Download(connect(url, "KEY", "secret"), "lake", "main", stats, file, False)


def part(file: Path, checksum: str = CHECKSUM) -> Path:
    return file.with_name(f".{file.name}.{checksum}.part")


def test_a_download_that_broke_off_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cut = Said(200, BODY[:1000], (("Content-Length", str(len(BODY))),))
    with scripted([cut, Said(206, BODY[1000:])]) as server:
        with pytest.raises(Exception, match="answer was lost"):
            files.download(order(server.url, file), Tally())
        assert not file.exists() and part(file).read_bytes() == BODY[:1000]
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY and not part(file).exists()
    assert int(file.stat().st_mtime) == 1


def test_a_part_of_another_object_is_not_continued(tmp_path: Path) -> None:
    file = tmp_path / "a"
    part(file, "0" * 32).write_bytes(b"of the object that was there before")
    with scripted([Said(200, BODY)]) as server:
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY


def test_a_whole_part_is_only_renamed(tmp_path: Path) -> None:
    file = tmp_path / "a"
    part(file).write_bytes(BODY)
    with scripted([]) as server:
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY


def told_crc32c(body: bytes, etag: str = CHECKSUM) -> tuple[tuple[str, str], ...]:
    value = b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()
    return (CRC32C_HEADER, value), ("ETag", f'"{etag}"')


def test_a_download_is_verified_by_its_crc32c(tmp_path: Path) -> None:
    """Also an object whose checksum is no MD5 of its bytes."""
    for checksum in (CHECKSUM, OTHER, f"{OTHER}-7"):
        file = tmp_path / checksum
        with scripted([Said(200, BODY, told_crc32c(BODY, checksum))]) as server:
            files.download(order(server.url, file, checksum), Tally())
        assert file.read_bytes() == BODY


def test_an_object_that_was_replaced_meanwhile_is_not_taken_for_the_other(tmp_path: Path) -> None:
    """It has the same size, and a CRC32C that is right."""
    file, new = tmp_path / "a", b"\xff" + BODY[1:]
    answer = Said(200, new, told_crc32c(new, md5(new).hexdigest()))
    with scripted([answer]) as server, pytest.raises(Corrupt, match="wrong content"):
        files.download(order(server.url, file), Tally())
    assert not file.exists()


def test_a_crc32c_that_is_wrong_itself_loses_no_download(tmp_path: Path) -> None:
    """The server keeps it beside the object; the MD5 decides."""
    file, wrong = tmp_path / "a", b"\xff" + BODY[1:]
    with scripted([Said(200, BODY, told_crc32c(wrong))]) as server:
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY
    with (
        scripted([Said(200, wrong, told_crc32c(BODY))]) as server,
        pytest.raises(Corrupt, match="wrong content"),
    ):
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY and not part(file).exists()


def test_a_download_that_broke_off_before_its_crc32c_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cut = Said(200, BODY[:1000], (("Content-Length", str(len(BODY))), *told_crc32c(BODY)))
    with scripted([cut, Said(206, BODY[1000:])]) as server:
        with pytest.raises(Exception, match="answer was lost"):
            files.download(order(server.url, file), Tally())
        assert part(file).read_bytes() == BODY[:1000]
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY


def test_a_download_onto_a_full_disk_leaves_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is in another thread than the reception."""
    body, file = os.urandom(CRC32C_BYTES_MIN + 1), tmp_path / "a"
    checksum = md5(body).hexdigest()

    class Full(files.FileIO):
        def write(self, piece: Any) -> int:
            if self.tell() > 1 << 20:
                raise OSError(28, "No space left on device")
            return super().write(piece)

    monkeypatch.setattr(files, "FileIO", Full)
    with scripted([Said(200, body, told_crc32c(body, checksum))]) as server:
        with pytest.raises(OSError, match="No space left"):
            files.download(order(server.url, file, checksum, len(body)), Tally())
        kept = part(file, checksum)
        assert body.startswith(kept.read_bytes()) and kept.stat().st_size > 1 << 20
    assert not file.exists()


def test_large_transfers_find_bytes_that_changed_on_the_disk(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a real server, by the CRC32C; the MD5 is computed only when that differs."""
    kept_attributes(tmp_path, monkeypatch)
    looked: list[str] = []
    by_crc32c, checksum = files._by_crc32c, files.checksum
    monkeypatch.setattr(
        files, "_by_crc32c", lambda *order: (looked.append("crc32c"), by_crc32c(*order))[1]
    )
    monkeypatch.setattr(files, "checksum", lambda file: (looked.append("md5"), checksum(file))[1])
    body = os.urandom(CRC32C_BYTES_MIN + 1)
    (tmp_path / "a").write_bytes(body)
    before = set(lake.live.store.rglob("*"))
    assert lake.user.run("upload", str(tmp_path / "a"), f"{lake.name}/main/a").code == 0
    assert lake.user.run("download", f"{lake.name}/main/a", str(tmp_path / "b")).code == 0
    assert (tmp_path / "b").read_bytes() == body
    assert looked == ["crc32c"]
    [stored] = [
        file
        for file in set(lake.live.store.rglob("*")) - before
        if file.is_file() and file.stat().st_size == len(body)
    ]
    stored.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    result = lake.user.run("download", f"{lake.name}/main/a", str(tmp_path / "c"))
    assert result.code == 1 and "wrong content" in result.err
    assert not (tmp_path / "c").exists()
    assert looked == ["crc32c", "crc32c", "md5"]


@pytest.mark.parametrize("wrong", [BODY[:-1], BODY + b"x", b"\xff" + BODY[1:]])
def test_wrong_bytes_never_become_visible(tmp_path: Path, wrong: bytes) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    with scripted([Said(200, wrong)]) as server, pytest.raises(Corrupt, match="wrong content"):
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == b"old" and not part(file).exists()


@pytest.mark.parametrize("length", [1_000, len(BODY), len(BODY) + 1])
def test_a_part_with_wrong_bytes_begins_anew(tmp_path: Path, length: int) -> None:
    file = tmp_path / "a"
    part(file).write_bytes(b"\xff" * length)
    rest = [Said(206, BODY[length:])] if length < len(BODY) else []
    with scripted([*rest, Said(200, BODY)]) as server:
        files.download(order(server.url, file), tally := Tally())
    assert file.read_bytes() == BODY and tally.bytes_moved == len(BODY)


BY_KMS = (("ETag", f'"{OTHER}"'), ("x-amz-server-side-encryption", "aws:kms"))


def test_an_etag_of_an_encrypted_object_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with scripted([Said(200, BODY, BY_KMS)]) as server:
        files.download(order(server.url, file, OTHER), Tally())
    assert file.read_bytes() == BODY
    with scripted([Said(200, BODY[1:], BY_KMS)]) as server, pytest.raises(Corrupt):
        files.download(order(server.url, file, OTHER), Tally())


def test_an_md5_counts_in_both_cases(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(BODY)
    for checksum, expected in ((CHECKSUM, True), (CHECKSUM.upper(), True), (OTHER, False)):
        stats = order("http://127.0.0.1", file, checksum).stats
        assert files.is_same(file, len(BODY), stats) is expected


@pytest.mark.parametrize(
    ("said", "time", "expected"), [(BY_KMS, 1, True), (BY_KMS, 2, False), ((), 1, False)]
)
def test_size_and_time_decide_if_no_md5_is_known(
    tmp_path: Path, said: tuple[tuple[str, str], ...], time: int, expected: bool
) -> None:
    file = tmp_path / "a"
    file.write_bytes(BODY)
    os.utime(file, (time, time))
    with scripted([Said(206, BODY[:1], said)]) as server:
        assert files.is_same_by_time(order(server.url, file, OTHER)) is expected
        assert len(server.asked) == (time == 1)


@pytest.mark.parametrize("length", [1_000, len(BODY)])
def test_what_cannot_be_verified_is_not_continued(tmp_path: Path, length: int) -> None:
    file = tmp_path / "a"
    part(file, OTHER).write_bytes(b"\xff" * length)
    rest = [Said(206, BODY[length:], BY_KMS)] if length < len(BODY) else []
    with scripted([*rest, Said(200, BODY, BY_KMS)]) as server:
        files.download(order(server.url, file, OTHER), Tally())
    assert file.read_bytes() == BODY


def test_a_part_is_no_way_through_a_symbolic_link(tmp_path: Path) -> None:
    file, victim = tmp_path / "a", tmp_path / "victim"
    victim.write_bytes(b"mine")
    part(file).symlink_to(victim)
    with scripted([Said(200, BODY)]) as server:
        files.download(order(server.url, file), Tally())
    assert victim.read_bytes() == b"mine" and file.read_bytes() == BODY and not file.is_symlink()


def test_a_redirect_gets_no_credentials(tmp_path: Path) -> None:
    with scripted([Said(200, BODY)]) as store:
        there = Said(302, b"", (("Location", f"{store.url}/signed?x=y"),))
        with scripted([there]) as server:
            signed = order(server.url, tmp_path / "a")._replace(presign=True)
            files.download(signed, Tally())
        assert "presign=true" in server.asked[0].path
    assert [asked.authorization for asked in store.asked] == [""]
    assert (tmp_path / "a").read_bytes() == BODY


def test_one_process_at_a_time_has_a_part(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with part(file).open("wb") as other, scripted([]) as server:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Contended, match="another process"):
            files.download(order(server.url, file), Tally())
    assert not file.exists() and part(file).exists()


def test_bytes_of_a_writer_without_the_lock_are_noticed(tmp_path: Path) -> None:
    """The checksum of several parts cannot be compared, so the length of the file decides."""

    class Other(Tally):
        def moved(self, length: int) -> None:
            super().moved(length)
            for each in tmp_path.glob(".*.part"):
                if length:
                    each.write_bytes(each.read_bytes() + b"x")

    with scripted([Said(200, BODY)]) as server, pytest.raises(Corrupt, match="wrong content"):
        files.download(order(server.url, tmp_path / "a", "several-2"), Other())
    assert list(tmp_path.iterdir()) == []


def checksum_in_parts(body: bytes, length: int = 5 << 20) -> str:
    parts = [md5(body[at : at + length]).digest() for at in range(0, len(body), length)]
    return f"{md5(b''.join(parts)).hexdigest()}-{len(parts)}"


def test_a_kept_part_is_verified_by_the_checksum_of_parts(tmp_path: Path) -> None:
    file, body = tmp_path / "a", BODY * 3_000  # two parts of 5 MiB
    known = checksum_in_parts(body)
    place = part(file, md5(known.encode()).hexdigest())
    place.write_bytes(body[:1000])
    with scripted([Said(206, body[1000:])]) as server:
        files.download(order(server.url, file, known, len(body)), Tally())
    assert file.read_bytes() == body
    for kept in (b"\xff" * 1000, b"\xff" * len(body)):  # a whole one is not only renamed
        place.write_bytes(kept)
        rest = [Said(206, body[1000:])] if len(kept) < len(body) else []
        with scripted([*rest, Said(200, body)]) as server:
            tally = Tally()
            files.download(order(server.url, file, known, len(body)), tally)
            assert len(server.asked) == len(rest) + 1
        assert file.read_bytes() == body and tally.bytes_moved == len(body)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("known", ["several-2", "0" * 32 + "-2"])
def test_a_part_that_cannot_be_verified_is_not_continued(tmp_path: Path, known: str) -> None:
    """Neither an unknown checksum, nor parts of an unusual length."""
    file = tmp_path / "a"
    part(file, md5(known.encode()).hexdigest()).write_bytes(b"\xff" * 1000)
    with scripted([Said(200, BODY)]) as server:
        files.download(order(server.url, file, known), Tally())
    assert file.read_bytes() == BODY


def test_a_download_that_never_began_leaves_no_part(tmp_path: Path) -> None:
    with scripted([Said(404)]) as server, pytest.raises(NotFound):
        files.download(order(server.url, tmp_path / "a"), Tally())
    assert list(tmp_path.iterdir()) == []


def test_a_long_name_has_a_part_too(tmp_path: Path) -> None:
    file = tmp_path / ("\u6f22" * 80)  # 240 bytes
    with scripted([Said(200, BODY)]) as server:
        files.download(order(server.url, file), Tally())
    assert file.read_bytes() == BODY


def test_small_files_go_up_over_tls(lake: Lake, tmp_path: Path) -> None:
    files = {f"{number}.bin": b"%d" % number for number in range(40)}
    source = tree(tmp_path / "in", files)
    (home := tmp_path / "tls").mkdir()
    user = Client(home, lake.user.patch)
    with secured(urlsplit(lake.live.client.url).port or 0, tmp_path) as tls:
        user.know(tls.url)
        words = ("upload", "-r", str(source), f"{lake.name}/main/x", "--json")
        done = user.run(*words, SSL_CERT_FILE=str(tls.certificate))
    assert done.code == 0 and json.loads(done.out)["graveler"]["objects"] == 40
    ended = lake.user.run("download", "-r", f"{lake.name}/main/x", str(tmp_path / "out"))
    assert ended.code == 0 and content(tmp_path / "out") == files


# ---- many items ----------------------------------------------------------------------------------


def numbers(tally: Tally) -> Iterator[int]:
    for number in range(50):
        tally.expect(1)
        yield number


def test_every_item_is_done_once() -> None:
    done: list[int] = []

    def work(number: int, tally: Tally) -> None:
        if number == 7:
            raise NotFound("gone")
        done.append(number)
        tally.ended()

    tally = Transfer(work, str, threads=4, progress=False).run(numbers)
    assert sorted(done) == [number for number in range(50) if number != 7]
    assert (tally.files, tally.files_expected) == (49, 50) and tally.failures == [("7", "gone")]


@pytest.mark.parametrize("error", [Unauthenticated("no"), KeyError("a bug")])
def test_what_every_item_would_meet_ends_all(error: Exception) -> None:
    def work(number: int, tally: Tally) -> None:
        raise error

    with pytest.raises(type(error)):
        Transfer(work, str, threads=2, progress=False).run(numbers)


def test_an_error_of_the_list_ends_all() -> None:
    def items(tally: Tally) -> Iterator[int]:
        yield 1
        raise NotFound("the prefix")

    with pytest.raises(NotFound):
        Transfer(lambda _, tally: tally.ended(), str, progress=False).run(items)


class Small:
    """Small items that are under way: each has a socket, whose other end answers."""

    def __init__(self, tally: Tally, fails: tuple[int, ...] = ()) -> None:
        self._tally, self._fails = tally, fails
        self._lock = threading.Lock()
        self._under_way: dict[int, tuple[socket.socket, socket.socket]] = {}
        self.finished: list[int] = []
        self.dropped: list[int] = []
        self.most = 0

    def sent(self, number: int, deadline: float = float("inf")) -> PendingItem:
        ours, theirs = socket.socketpair()
        with self._lock:
            self._under_way[number] = ours, theirs
            self.most = max(self.most, len(self._under_way))
        end = partial(self._end, number)
        return PendingItem(
            ours.fileno(), deadline, partial(end, self.finished), partial(end, self.dropped)
        )

    def answer(self, number: int) -> None:
        """The answer to an item comes, if that is under way."""
        with self._lock:
            if number in self._under_way:
                self._under_way[number][1].sendall(b"x")

    def numbers(self) -> list[int]:
        """What is under way."""
        with self._lock:
            return list(self._under_way)

    def _end(self, number: int, ended: list[int]) -> None:
        with self._lock:
            for end in self._under_way.pop(number):
                end.close()
        ended.append(number)
        if ended is self.finished:
            if number in self._fails:
                raise NotFound("gone")
            self._tally.ended()


def small_transfer(work: Any, threads: int, clock: Clock | None = None) -> Transfer[int]:
    """By a clock that stands still, no step takes long, so nobody helps."""
    clock = clock or TickingClock()
    return Transfer(work, str, threads, "never", clock, is_small=lambda number: True)


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (4, 8)])
def test_small_items_are_under_way_together(threads: int, most: int) -> None:
    """The last one sent is answered first, and only when no more can be sent."""
    tally = Tally()
    small = Small(tally, fails=(7,))
    over = threading.Event()

    def answer() -> None:
        for left in range(50, 0, -1):
            until(partial(is_full, left), "all were sent that can be")
            number = small.numbers()[-1]
            small.answer(number)
            until(partial(is_finished, number), "its answer was taken")
        over.set()

    def is_full(left: int) -> bool:
        return len(small.numbers()) == min(most, left)

    def is_finished(number: int) -> bool:
        return number in small.finished

    answers = threading.Thread(target=answer, daemon=True)
    answers.start()
    small_transfer(lambda number, _: small.sent(number), threads).run(numbers, tally)
    assert over.wait(PATIENCE_SECONDS)
    assert sorted(small.finished) == list(range(50)) and small.most == most
    assert (tally.files, tally.failures) == (49, [("7", "gone")])


def test_small_items_may_fail_or_be_left_out_before_they_are_sent() -> None:
    tally = Tally()
    small = Small(tally)

    def work(number: int, tally: Tally) -> PendingItem | None:
        if number % 3 == 0:
            raise NotFound("gone")
        if number % 3 == 1:
            tally.ended(skipped=True)
            return None
        sent = small.sent(number)
        small.answer(number)
        return sent

    small_transfer(work, 4).run(numbers, tally)
    assert (len(tally.failures), tally.skipped, tally.files) == (17, 17, 16)
    assert small.numbers() == []


def test_a_small_item_without_an_answer_stops_no_other() -> None:
    """Its deadline has passed, so that it ends at once when nothing else comes."""
    tally = Tally()
    small = Small(tally, fails=(0,))

    def work(number: int, tally: Tally) -> PendingItem:
        if number == 0:
            return small.sent(number, deadline=0.0)
        sent = small.sent(number)
        small.answer(number)
        return sent

    small_transfer(work, 4).run(numbers, tally)
    assert (tally.files, tally.failures) == (49, [("0", "gone")])


def test_an_error_that_ends_all_gives_the_other_small_items_up() -> None:
    tally = Tally()
    small = Small(tally)

    def refused(drop: Callable[[], None]) -> None:
        drop()
        raise Unauthenticated("no")

    def work(number: int, tally: Tally) -> PendingItem:
        sent = small.sent(number)
        if number < 7:
            return sent
        small.answer(number)
        return sent._replace(finish=partial(refused, sent.drop))

    with pytest.raises(Unauthenticated):
        small_transfer(work, 4).run(numbers, tally)
    assert set(small.dropped) >= set(range(8)) and not (small.numbers() or small.finished)


def test_items_of_all_kinds_are_done_once() -> None:
    tally = Tally()
    small = Small(tally)
    done: list[str] = []

    def work(number: int, tally: Tally) -> Split | PendingItem | None:
        if number % 5:
            sent = small.sent(number)
            small.answer(number)
            return sent
        parts = [partial(done.append, f"{number}/{part}") for part in range(3)]
        return Split(parts, lambda error: tally.ended())

    def is_small(number: int) -> bool:
        return bool(number % 5)

    Transfer(work, str, 4, "never", is_small=is_small).run(numbers, tally)
    assert (tally.files, len(small.finished), len(done)) == (50, 40, 30) and not tally.failures


def test_small_items_begin_only_while_no_other_item_waits() -> None:
    def nothing() -> None:
        return None

    tasks = Tasks(threading.Event(), 2, TickingClock())
    for name, is_small in (("s1", True), ("s2", True), ("s3", True), ("s4", True), ("s5", True)):
        tasks.put(Task(nothing, name), is_small=is_small)
    tasks.put(Task(nothing, "large"), is_small=False)

    def small() -> str:
        task = tasks.take_small(wait=False)
        return task.name if task else ""

    def other() -> str:
        task = tasks.take()
        return task.name if task else ""

    assert [small(), other()] == ["", "large"]
    tasks.split([Task(nothing, "part")])
    assert [small(), other(), small()] == ["", "part", "s1"]
    tasks.put(Task(nothing, "later"), is_small=False)
    assert small() == ""  # an item waits
    for _ in range(3):
        tasks.done()
    assert [other(), small(), small(), small(), small()] == ["later", "s2", "s3", "s4", ""]


def test_threads_help_while_a_step_with_a_small_item_takes_long() -> None:
    """Each small item waits until all four threads, and that of small items, have one."""
    together = threading.Barrier(5)

    def work(number: int, tally: Tally) -> PendingItem | None:
        together.wait(PATIENCE_SECONDS)
        tally.ended()
        return None

    tally = small_transfer(work, 4, SystemClock()).run(numbers)
    assert tally.files == 50


def test_a_helper_finishes_what_it_sends() -> None:
    tally = Tally()
    small = Small(tally)
    begun = threading.Event()

    def work(number: int, tally: Tally) -> PendingItem | None:
        if number == 0:
            assert begun.wait(PATIENCE_SECONDS)
        sent = small.sent(number)
        small.answer(number)
        begun.set()
        return sent

    small_transfer(work, 2, SystemClock()).run(numbers, tally)
    assert tally.files == 50 and sorted(small.finished) == list(range(50))


def test_an_answer_that_stops_keeps_no_other_thread_waiting() -> None:
    """Eight items are under way when the first answer is taken, which waits for all others, large
    ones too."""
    tally = Tally()
    small = Small(tally)
    over = threading.Event()
    done: list[int] = []

    def last() -> None:
        assert over.wait(PATIENCE_SECONDS)
        for number in small.numbers():
            small.answer(number)
        tally.ended()

    def work(number: int, tally: Tally) -> PendingItem | None:
        if number == 0:
            ours, theirs = socket.socketpair()
            theirs.sendall(b"x")
            pairs.extend((ours, theirs))
            return PendingItem(ours.fileno(), float("inf"), last, over.set)
        if number < 8:
            return small.sent(number)
        done.append(number)
        tally.ended()
        if len(done) == 42:
            over.set()
        return None

    pairs: list[socket.socket] = []
    transfer = Transfer(work, str, 4, "never", is_small=lambda number: number % 10 != 9)
    transfer.run(numbers, tally)
    assert tally.files == 50 and len(small.finished) == 7
    for each in pairs:
        each.close()


def test_threads_help_if_the_steps_take_long_on_average() -> None:
    """A clock that each step moves: no step takes 10 ms, and nobody looks while one lasts."""
    clock = TickingClock()
    tasks = Tasks(threading.Event(), 4, clock)
    for number in range(20):
        tasks.put(Task(lambda: None, str(number)), is_small=True)

    def steps(seconds: float) -> None:
        for _ in range(16):
            with tasks.small_step():
                clock.sleep(seconds)

    taken: list[Task | None] = []
    helper = threading.Thread(target=lambda: taken.append(tasks.take()), daemon=True)
    steps(0.0019)
    helper.start()
    assert tasks.take_small(wait=False) is not None and taken == []
    steps(0.0021)
    helper.join(PATIENCE_SECONDS)
    assert [task.name for task in taken if task] == ["1"]


def test_answers_are_taken_while_items_are_left_out() -> None:
    tally = Tally()
    small = Small(tally)

    def work(number: int, tally: Tally) -> PendingItem | None:
        if number == 0:
            sent = small.sent(number)
            small.answer(number)
            return sent
        assert number == 1 or small.finished == [0]
        tally.ended(skipped=True)
        return None

    small_transfer(work, 4).run(numbers, tally)
    assert (tally.files, tally.skipped) == (1, 49)


def test_a_small_item_has_no_parts() -> None:
    with pytest.raises(AssertionError, match="no parts"):
        small_transfer(lambda *_: Split([], lambda error: None), 4).run(numbers)


def test_an_error_of_the_list_gives_small_items_up() -> None:
    tally = Tally()
    small = Small(tally)

    def items(tally: Tally) -> Iterator[int]:
        yield 1
        until(small.numbers, "it was sent")
        raise NotFound("the prefix")

    with pytest.raises(NotFound):
        small_transfer(lambda number, _: small.sent(number), 4).run(items, tally)
    until(lambda: small.dropped == [1], "it was given up")


# ---- a person at a terminal ----------------------------------------------------------------------


@contextmanager
def stuck() -> Iterator[str]:
    """A server whose object begins with 1,000 of its 2,048 bytes, and goes on when it ends."""
    stats = {
        "path": "a",
        "path_type": "object",
        "physical_address": "",
        "checksum": CHECKSUM,
        "mtime": 1,
        "size_bytes": len(BODY),
    }
    over = threading.Event()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            whole = b"{}" if "/config" in self.path else json.dumps(stats).encode()
            is_content = self.path.partition("?")[0].endswith("/objects")
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY if is_content else whole)))
            self.end_headers()
            self.wfile.write(BODY[:1000] if is_content else whole)
            if is_content:
                over.wait(PATIENCE_SECONDS)

    with http_server(Handler) as url:
        try:
            yield url
        finally:
            over.set()


def test_progress_is_shown_and_ctrl_c_leaves_nothing_visible(user: Client, tmp_path: Path) -> None:
    with stuck() as url:
        user.know(url)
        shown = terminal(user, "download", "lake/main/a", folder=tmp_path)
        shown.until("0/1")
        assert shown.interrupt() == 130
    assert "Traceback" not in shown.text
    said = "graveler: interrupted: 0 objects done; repeat the command to do the rest"
    assert shown.text.splitlines()[-1] == said
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [f".a.{CHECKSUM}.part"]


def test_a_rate_has_the_units_of_sizes() -> None:
    assert [per_second(rate) for rate in (None, 0.5, 3_250_000.0)] == ["?", "0 B/s", "3.1 MiB/s"]


def test_an_upload_that_is_interrupted_is_never_whole(user: Client) -> None:
    """The standard input never ends; a chunked body without its last chunk is stored by nobody."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        user.know(f"http://127.0.0.1:{listener.getsockname()[1]}")
        shown = terminal(user, "upload", "-", "lake/main/slow")
        shown.type("some bytes\n")
        connection, _ = listener.accept()
        with connection:
            while b"some bytes" not in received:
                received += connection.recv(65_536)
            assert shown.interrupt() == 130
            while piece := connection.recv(65_536):
                received += piece
    assert b"Transfer-Encoding: chunked" in received and not received.endswith(b"0\r\n\r\n")
    assert "Traceback" not in shown.text


def test_progress_as_json_ends_with_the_sums(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(3):
        (tmp_path / "data" / str(number)).write_bytes(bytes(10))
    words = ("upload", "-r", str(tmp_path / "data"), f"{lake.name}/main/", "--progress", "json")
    result = lake.user.run(*words)
    assert result.code == 0, result
    last = json.loads(result.err.splitlines()[-1])["progress"]
    rate = last.pop("bytes_per_second")
    assert rate > 0
    assert last == {
        "objects": 3,
        "same": 0,
        "objects_expected": 3,
        "size_bytes": 30,
        "size_bytes_expected": 30,
        "failed": 0,
    }
    for option in ("--no-progress", "--progress=never", "--quiet"):
        assert lake.user.run(*words[:-2], option).err == ""


def test_contents_go_through_the_server_if_asked(
    public: Served, user: Client, tmp_path: Path
) -> None:
    name = public.fresh_repository()
    user.know(public.client.url)
    file = tmp_path / "large"
    file.write_bytes(bytes(1 << 20))
    for option, count in (("--pre-sign", 1), ("--no-pre-sign", 0)):
        up = user.run("-v", "upload", str(file), f"{name}/main/large", option)
        down = user.run("-v", "download", f"{name}/main/large", str(tmp_path / option), option)
        assert (up.code, down.code) == (0, 0)
        assert up.err.count("/staging/backing") == 2 * count
        assert down.err.count(" 302 ") == count


# ---- between servers -----------------------------------------------------------------------------


@pytest.fixture
def two(lake: Lake, public: Served) -> tuple[Lake, Served, str]:
    """A user with the profiles `here` and `there`, and a repository on each server."""
    keys = ADMINISTRATOR
    urls = {"here": lake.live.client.url, "there": public.client.url}
    known = {
        name: Profile(name, url, keys.access_key_id, keys.secret_access_key)
        for name, url in urls.items()
    }
    profiles.write(Profiles("here", known), lake.user.variables)
    return lake, public, public.fresh_repository()


def test_objects_are_copied_between_servers(two: tuple[Lake, Served, str]) -> None:
    lake, _, other = two
    user = lake.user
    for path in ("data/a", "data/b/c", "else"):
        lake.put(path, path.encode())
    into = f"lakefs://there@{other}/main/"
    copied = user.run("cp", "-r", f"lakefs://{lake.name}/main/data/", f"{into}copy/")
    assert copied.code == 0, copied
    shown = user.run("cat", f"{other}/main/copy/b/c", "--profile", "there")
    assert shown.out == "data/b/c"
    back = f"lakefs://there@{other}/main/copy/a"
    assert user.run("cp", back, f"lakefs://here@{lake.name}/main/back").code == 0
    assert user.run("cat", f"{lake.name}/main/back").out == "data/a"
    again = user.run("cp", "-r", "--checksum", f"lakefs://{lake.name}/main/data/", f"{into}copy/")
    assert "2 were the same" in again.out
    gone = user.run(
        *("cp", "-r", "--delete", "--yes", f"lakefs://{lake.name}/main/data/b/", f"{into}copy/")
    )
    assert gone.code == 0, gone
    listed = user.run("ls", "-r", f"{other}/main/", "--profile", "there").out
    assert [line.rpartition("\t")[2] for line in listed.splitlines()] == ["copy/c"]


def test_a_past_commit_of_another_server_is_copied(two: tuple[Lake, Served, str]) -> None:
    lake, public, other = two
    public.client.upload(other, "a", b"first", "main")
    where = f"/repositories/{other}/branches/main/commits"
    public.client.send("POST", where, body={"message": "first", "date": 1_600_000_000})
    public.client.upload(other, "a", b"second", "main")
    public.client.send("POST", where, body={"message": "second"})
    source = f"lakefs://there@{other}/main/a"
    result = lake.user.run("cp", source, f"lakefs://{lake.name}/main/a", "--at", "2021-01-01")
    assert result.code == 0, result
    assert lake.user.run("cat", f"{lake.name}/main/a").out == "first"


def test_a_profile_in_an_address_is_for_copies_alone(two: tuple[Lake, Served, str]) -> None:
    lake, _, other = two
    result = lake.user.run("ls", f"lakefs://there@{other}/main/")
    assert result.code == 2 and "give --profile there" in result.err
    unknown = lake.user.run("cp", f"lakefs://nobody@{other}/main/a", f"lakefs://{lake.name}/main/")
    assert unknown.code == 3 and "profile not found: nobody" in unknown.err
    assert lake.user.run("cp", f"lakefs://@{other}/main/a", f"lakefs://{other}/main/b").code == 2
