"""Large files go in parts: which parts are sent, and what an interrupted upload continues."""

import fcntl
import json
import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.commands import Client, terminal
from tests.http_server import QuietHandler, http_server
from tests.waiting import PATIENCE_SECONDS

PART = 16 << 20
SIZE = 4 * PART + 5  # five parts
CONFIG = {"storage_config": {"pre_sign_support": True, "pre_sign_multipart_upload": True}}
Answer = tuple[int, dict[str, Any]]


@dataclass
class Store:
    """A server that signs URLs of parts, and its object store.

    `refuse`: gives the status for a part, by upload and number; 200 to store it."""

    url: str = ""
    begun: int = 0
    urls: bool = True
    sent: list[tuple[str, int]] = field(default_factory=list)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    object: bytes | None = None
    completes: int = 200  # the status of the last request of an upload
    complete: dict[str, Any] = field(default_factory=dict)
    authorizations: list[str] = field(default_factory=list)
    refuse: Callable[[str, int, str], int] = lambda *_: 200

    def api(self, method: str, path: list[str], body: dict[str, Any]) -> Answer:
        if path == ["config"]:
            return 200, CONFIG
        assert path[:6] == ["repositories", "lake", "branches", "main", "staging", "pmpu"], path
        match method, path[6:]:
            case "POST", []:
                self.begun += 1
                id = f"upload{self.begun}"
                self.parts[id] = {}
                urls = [f"{self.url}/store/{id}/{number}?first" for number in range(1, 6)]
                signed = {"presigned_urls": urls} if self.urls else {}
                return 201, {"upload_id": id, "physical_address": f"s3://{id}", **signed}
            case "PUT", [id, "parts", number]:
                assert body == {"physical_address": f"s3://{id}"}
                return 200, {"presigned_url": f"{self.url}/store/{id}/{number}?later"}
            case "PUT", [id]:
                if id not in self.parts or self.completes != 200:
                    return 404 if id not in self.parts else self.completes, {"message": "no"}
                self.complete = body
                self.object = b"".join(self.parts[id][number] for number in range(1, 6))
                stats = {"path": "big", "path_type": "object", "checksum": "", "mtime": 1}
                address = {"physical_address": f"s3://{id}"}
                return 200, {**stats, **address, "size_bytes": len(self.object)}
            case "DELETE", [id]:
                return (204, {}) if self.parts.pop(id, None) is not None else (404, {})
        raise AssertionError((method, path))


@contextmanager
def storing() -> Iterator[Store]:
    """Serve a store until the block ends."""
    store = Store()

    class Handler(QuietHandler):
        def answer(self) -> None:
            place = urlsplit(self.path)
            path = place.path.strip("/").split("/")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if path[0] == "store":
                self.part(path[1], int(path[2]), place.query, body)
                return
            status, said = store.api(self.command, path[2:], json.loads(body or b"{}"))
            self.reply(status, {}, json.dumps(said).encode() if status != 204 else b"")

        def part(self, id: str, number: int, query: str, body: bytes) -> None:
            store.authorizations.append(self.headers.get("Authorization", ""))
            status = store.refuse(id, number, query) if id in store.parts else 404
            if status != 200:
                self.reply(status, {}, b"")
                return
            digest = md5(body)
            assert self.headers["Content-MD5"] == b64encode(digest.digest()).decode()
            store.sent.append((id, number))
            store.parts[id][number] = body
            self.reply(200, {"ETag": f'"{digest.hexdigest()}"'}, b"")

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = answer

    with http_server(Handler) as store.url:
        yield store


@pytest.fixture
def store(user: Client) -> Iterator[Store]:
    with storing() as running:
        user.know(running.url)
        yield running


@pytest.fixture
def big(tmp_path: Path) -> Path:
    file = tmp_path / "big"
    with file.open("wb") as handle:
        for number in range(5):
            handle.seek(number * PART)
            handle.write(b"part%d" % number)
    assert file.stat().st_size == SIZE
    return file


def fails_from(first: int) -> Callable[[str, int, str], int]:
    """The store is out of order from this part on."""
    return lambda _, number, query: 503 if number >= first else 200


def journals(user: Client) -> list[Path]:
    return list((user.home / "state/graveler/uploads").glob("*"))


ORDER = ("lake/main/big", "-j", "1")


def test_a_large_file_goes_in_parts(user: Client, store: Store, big: Path) -> None:
    done = user.run("upload", str(big), "lake/main/big", "--meta", "k=v", "--json")
    assert done.code == 0, done
    assert json.loads(done.out)["graveler"]["size_bytes"] == SIZE
    assert sorted(store.sent) == [("upload1", number) for number in range(1, 6)]
    assert store.object == big.read_bytes() and set(store.authorizations) == {""}
    assert store.complete["user_metadata"] == {"k": "v"} and journals(user) == []


def test_an_expired_url_is_replaced(user: Client, store: Store, big: Path) -> None:
    store.refuse = lambda _, number, query: 403 if number > 2 and query == "first" else 200
    assert user.run("upload", str(big), *ORDER).code == 0
    assert len(store.sent) == 5 and store.object == big.read_bytes()
    store.urls, store.object = False, None  # a server may sign none at first
    assert user.run("upload", str(big), *ORDER).code == 0
    assert store.object == big.read_bytes()


def test_a_failed_upload_is_continued(user: Client, store: Store, big: Path) -> None:
    store.refuse = fails_from(3)
    failed = user.run("upload", str(big), *ORDER)
    assert failed.code == 6 and "1 large file not finished: the same command" in failed.err
    assert store.sent == [("upload1", 1), ("upload1", 2)] and not store.object
    (journal,) = journals(user)
    assert journal.stat().st_mode & 0o777 == 0o600
    assert journal.parent.stat().st_mode & 0o777 == 0o700
    with journal.open("ab") as handle:
        handle.write(b'\n[3, "cut o')  # a crash
    store.refuse = fails_from(4)
    assert user.run("upload", str(big), *ORDER).code == 6
    assert store.sent[2:] == [("upload1", 3)]
    store.refuse = lambda *_: 200
    done = user.run("upload", str(big), *ORDER, "--json")
    assert done.code == 0 and json.loads(done.out)["graveler"]["size_bytes"] == SIZE
    assert store.sent[3:] == [("upload1", 4), ("upload1", 5)]
    assert store.begun == 1 and store.object == big.read_bytes() and journals(user) == []


@pytest.mark.parametrize("end", ["interrupt", "kill"])
def test_an_upload_that_ends_early_is_continued(
    user: Client, store: Store, big: Path, end: str
) -> None:
    reached, over = threading.Event(), threading.Event()

    def hold(_: str, number: int, query: str) -> int:
        if number < 3 or over.is_set():
            return 200
        reached.set()
        over.wait(PATIENCE_SECONDS)
        return 503

    store.refuse = hold
    shown = terminal(user, "upload", str(big), *ORDER)
    try:
        shown.until("0/1")
        assert reached.wait(PATIENCE_SECONDS)
        if end == "interrupt":
            assert shown.interrupt() == 130
            assert "continues within 24 hours" in shown.text and "Traceback" not in shown.text
        else:
            shown.process.kill()
            shown.process.wait()
    finally:
        over.set()
    assert user.run("upload", str(big), *ORDER).code == 0
    assert store.sent == [("upload1", number) for number in range(1, 6)]
    assert store.object == big.read_bytes() and journals(user) == []


def other_time(file: Path, _: Path) -> None:
    os.utime(file, ns=(1, 1))


def other_size(file: Path, _: Path) -> None:
    with file.open("ab") as handle:
        handle.write(b"x")


def other_file(file: Path, _: Path) -> None:
    state = file.stat()
    copy = file.with_name("copy")
    copy.write_bytes(b"changed" + file.read_bytes()[7:])
    os.utime(copy, ns=(state.st_atime_ns, state.st_mtime_ns))
    copy.replace(file)


def other_bytes(file: Path, _: Path) -> None:
    state = file.stat()
    with file.open("r+b") as handle:
        handle.write(b"changed")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def old_journal(_: Path, journal: Path) -> None:
    past = journal.stat().st_mtime - 24 * 3_600 - 1
    os.utime(journal, (past, past))


@pytest.mark.parametrize("spoil", [other_time, other_size, other_file, other_bytes, old_journal])
def test_what_changed_begins_anew(
    user: Client, store: Store, big: Path, spoil: Callable[[Path, Path], None]
) -> None:
    store.refuse = fails_from(3)
    assert user.run("upload", str(big), *ORDER).code == 6
    spoil(big, journals(user)[0])
    store.refuse = lambda *_: 200
    assert user.run("upload", str(big), *ORDER).code == 0
    assert store.sent[2:] == [("upload2", number) for number in range(1, 6)]
    assert store.object == big.read_bytes() and journals(user) == []
    assert ("upload1" in store.parts) == (spoil is old_journal)  # its store deletes its parts


def test_a_file_that_changes_meanwhile_becomes_no_object(
    user: Client, store: Store, big: Path
) -> None:
    def changes(_: str, number: int, query: str) -> int:
        if number == 2:
            os.utime(big, ns=(1, 1))
        return 200

    store.refuse = changes
    failed = user.run("upload", str(big), *ORDER)
    assert failed.code == 1 and "changed while it was uploaded" in failed.err
    assert store.object is None and store.parts == {} and journals(user) == []


def test_only_the_last_request_is_repeated_if_it_failed(
    user: Client, store: Store, big: Path
) -> None:
    store.completes = 500
    assert user.run("upload", str(big), *ORDER).code != 0 and len(journals(user)) == 1
    store.completes = 200
    assert user.run("upload", str(big), *ORDER).code == 0
    assert len(store.sent) == 5 and store.object == big.read_bytes() and journals(user) == []


def test_a_refused_object_leaves_no_parts(user: Client, store: Store, big: Path) -> None:
    store.completes = 412
    failed = user.run("upload", str(big), *ORDER, "--no-clobber")
    assert failed.code == 5 and store.object is None
    assert store.parts == {} and journals(user) == []


def test_without_a_journal_an_upload_begins_anew(user: Client, store: Store, big: Path) -> None:
    (user.home / "state").write_bytes(b"no folder")
    store.refuse = fails_from(3)
    failed = user.run("upload", str(big), *ORDER)
    assert failed.code == 6 and "not finished" not in failed.err
    store.refuse = lambda *_: 200
    assert user.run("upload", str(big), *ORDER).code == 0
    assert store.begun == 2 and store.object == big.read_bytes()


def test_one_process_at_a_time_uploads_a_file_to_a_path(
    user: Client, store: Store, big: Path
) -> None:
    store.refuse = fails_from(3)
    assert user.run("upload", str(big), *ORDER).code == 6
    (journal,) = journals(user)
    with journal.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = user.run("upload", str(big), *ORDER)
    assert refused.code == 6 and "another process uploads this file" in refused.err
    store.refuse = lambda *_: 200
    assert user.run("upload", str(big), *ORDER).code == 0 and store.begun == 1


def test_an_upload_that_the_store_forgot_begins_anew(user: Client, store: Store, big: Path) -> None:
    store.refuse = fails_from(3)
    assert user.run("upload", str(big), *ORDER).code == 6
    store.parts.clear()
    store.refuse = lambda *_: 200
    failed = user.run("upload", str(big), *ORDER)
    assert failed.code == 6 and "the same command begins it anew" in failed.err
    assert user.run("upload", str(big), *ORDER).code == 0
    assert store.begun == 2 and store.object == big.read_bytes()
