"""Uploads and downloads: continued, verified, interrupted, and never outside their folder."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path

import pytest

from graveler.cli.support.progress import per_second
from graveler.lake import profiles
from graveler.lake.checksums import CRC32C_BYTES_MIN
from graveler.lake.profiles import Profile, Profiles
from tests.api.serving import ADMINISTRATOR, Served, served
from tests.block.test_file_checksums import kept_attributes
from tests.cli.commands import Client, terminal
from tests.cli.conftest import Lake
from tests.client.scripted import Said, scripted
from tests.http_server import QuietHandler, http_server
from tests.waiting import PATIENCE_SECONDS


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


def test_bytes_that_changed_in_the_store_are_found(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a real server, by the CRC32C of a large object."""
    kept_attributes(tmp_path, monkeypatch)
    body = os.urandom(CRC32C_BYTES_MIN + 1)
    (tmp_path / "a").write_bytes(body)
    before = set(lake.live.store.rglob("*"))
    assert lake.user.run("upload", str(tmp_path / "a"), f"{lake.name}/main/a").code == 0
    assert lake.user.run("download", f"{lake.name}/main/a", str(tmp_path / "b")).code == 0
    assert (tmp_path / "b").read_bytes() == body
    [stored] = [
        file
        for file in set(lake.live.store.rglob("*")) - before
        if file.is_file() and file.stat().st_size == len(body)
    ]
    stored.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    result = lake.user.run("download", f"{lake.name}/main/a", str(tmp_path / "c"))
    assert result.code == 1 and "wrong content" in result.err
    assert not (tmp_path / "c").exists()


# ---- a person at a terminal ----------------------------------------------------------------------


BODY = bytes(range(256)) * 8
CHECKSUM = md5(BODY).hexdigest()


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
        shown = user.run("-v", "cat", f"{name}/main/large", option)
        assert (up.code, down.code, shown.code, len(shown.out)) == (0, 0, 0, 1 << 20)
        assert up.err.count("/staging/backing") == 2 * count
        assert down.err.count(" 302 ") == shown.err.count(" 302 ") == count


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


def test_copies_between_servers_use_no_signed_url(two: tuple[Lake, Served, str]) -> None:
    lake, _, other = two
    lake.put("large", bytes(1 << 20))
    here, there = f"lakefs://here@{lake.name}/main/large", f"lakefs://there@{other}/main/large"
    for source, target in ((here, there), (there, f"{here}-again")):
        copied = lake.user.run("-v", "cp", source, target)
        assert copied.code == 0 and "/objects?" in copied.err, copied
        assert not any(word in copied.err for word in ("/_presigned/", " 302 ", "staging/backing"))
    assert len(lake.user.run("cat", f"{lake.name}/main/large-again").out) == 1 << 20


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
