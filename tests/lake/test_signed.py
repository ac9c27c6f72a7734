"""A server whose object store signs URLs: bytes go directly, and addresses are for anybody."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import graveler
from graveler import Branch, Lake
from graveler.lake.errors import Conflict
from tests.api.serving import ADMINISTRATOR, served
from tests.http_server import QuietHandler, http_server


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that signs URLs."""
    with served(tmp_path_factory.mktemp("signed") / "store", public=True) as live:
        key, secret = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key
        yield graveler.connect(live.client.url, key, secret)


@pytest.fixture(scope="module")
def main(signing: Lake) -> Branch:
    return signing.create_repository("shop").branch("main")


def test_bytes_are_written_and_read_by_signed_urls(main: Branch) -> None:
    assert main.repository.lake.presigns
    data = bytes(range(256)) * 4096
    assert main.write_bytes("big", data).size == len(data)
    assert main.read_bytes("big") == data
    assert main.read_bytes("big", start=1000, end=1010) == data[1000:1010]
    with main.open("big", "rb") as file:
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(5)
        assert file.read(300_000) == data[5:300_005]
    main.write_bytes("empty", b"")
    with main.open("empty", "rb") as file:
        assert file.read() == b""


def test_urls_are_for_whoever_has_no_credentials(main: Branch) -> None:
    main.write_text("t/a.csv", "id\n1\n")
    main.commit("a table")
    with urlopen(main.url("t/a.csv")) as answer:
        assert answer.read() == b"id\n1\n"
    data = main.dataset("t/", format="csv")
    (address,) = data.files
    with urlopen(address) as answer:
        assert answer.read() == b"id\n1\n"
    assert data.to_table().to_pylist() == [{"id": 1}]
    with urlopen(graveler.fs(main.repository.lake).sign(f"{main.address}/t/a.csv")) as answer:
        assert answer.status == 200


def test_folders_go_there_and_back(main: Branch, folder: Path, tmp_path: Path) -> None:
    (folder / "big.bin").write_bytes(bytes(1 << 20))
    assert main.upload(folder, "in/").files == 4
    assert main.download("in/", tmp_path / "out").files == 4
    assert (tmp_path / "out" / "big.bin").read_bytes() == bytes(1 << 20)


def test_a_reader_reads_one_object_though_its_path_gets_another(main: Branch) -> None:
    main.write_bytes("moving", b"1" * 600_000)
    with main.open("moving", "rb") as file:
        assert file.read(10) == b"1" * 10
        main.write_bytes("moving", b"2" * 600_000)
        assert set(file.read()) == set(b"1")


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("expires", None),
        ("is replaced", (Conflict, "replaced while it was read")),
        ("is refused", (PermissionError, "refused a signed URL")),
        ("has no ranges", (ValueError, "ignores ranges")),
    ],
)
def test_what_a_signed_url_may_meet(kind: str, refusal: tuple[type[Exception], str] | None) -> None:
    """The first URL has expired when it is used; the object store may be one of its own kind."""

    class Store(QuietHandler):
        signed = 0

        def do_GET(self) -> None:
            url, kept = f"http://{self.headers['Host']}/signed", b"12345"
            status, body = 200, b""
            if self.path.endswith("/config"):
                body = json.dumps({"storage_config": {"pre_sign_support": True}}).encode()
            elif "/stat" in self.path:
                Store.signed += 1
                version = Store.signed if kind == "is replaced" else 1
                stats = {"path": "a", "checksum": f"v{version}", "size_bytes": len(kept)}
                body = json.dumps({**stats, "physical_address": f"{url}/{Store.signed}"}).encode()
            elif kind == "has no ranges":
                body = kept
            elif self.path == "/signed/1" or kind == "is refused":
                status = 403
            else:
                start, end = self.headers["Range"].removeprefix("bytes=").split("-")
                status, body = 206, kept[int(start) : int(end) + 1]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with (
        http_server(Store) as url,
        graveler.connect(url, "KEY", "SECRET") as lake,
        lake.repository("shop").branch("main").open("a", "rb") as file,
    ):
        file.seek(1)
        if refusal is None:
            assert file.read() == b"2345"
        else:
            with pytest.raises(refusal[0], match=refusal[1]):
                file.read()
